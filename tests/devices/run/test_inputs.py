"""Files as inputs of a model on a board: pixels as decoded, arrays as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.base.errors import DatasetError, UsageError
from engine.dataset import Preprocess
from engine.devices.board.tensors import BoardInput, TensorAttributes, prepared_input
from engine.devices.run.inputs import board_inputs
from tests.devices.known_model import stored

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10


def tensor(
    shape: tuple[int, ...] = (1, 2, 3, 3), layout: str = "NHWC", dtype: str = "INT8"
) -> TensorAttributes:
    count = int(np.prod(shape))
    return TensorAttributes(
        index=0,
        name="image",
        shape=shape,
        layout=layout,
        dtype=dtype,
        elements=count,
        size=count,
    )


def picture(folder: Path, pixels: np.ndarray = PIXELS) -> Path:
    path = folder / "picture.png"
    Image.fromarray(pixels).save(path)
    return path


def array(folder: Path, values: np.ndarray) -> Path:
    return stored(folder / "values.npy", values)


def one(path: Path, wanted: TensorAttributes, generation: int = 2, **options: Any) -> BoardInput:
    (found,), _ = board_inputs([path], [wanted], Preprocess(**options), generation=generation)
    prepared_input(found, wanted)  # the runtime takes it
    return found


@pytest.mark.parametrize("wanted", [tensor(), tensor((1, 3, 2, 3), "NCHW")])
def test_a_picture_is_pixels_without_mean_and_std(tmp_path: Path, wanted: TensorAttributes) -> None:
    options = {"mean": ((1.0, 2.0, 3.0),), "std": ((4.0,),)}
    found = one(picture(tmp_path), wanted, **options)
    assert (found.array.dtype, found.layout, found.pass_through) == (np.uint8, "NHWC", False)
    np.testing.assert_array_equal(found.array, PIXELS[None])


def test_the_order_of_channels_is_that_of_the_recipe(tmp_path: Path) -> None:
    path = picture(tmp_path)
    np.testing.assert_array_equal(one(path, tensor(), rgb2bgr=True).array[0], PIXELS[..., ::-1])
    # the model of generation 1 has the order in it
    own = one(path, tensor(), 1, reorder=((2, 1, 0),))
    np.testing.assert_array_equal(own.array[0], PIXELS)


def test_every_frame_of_a_batch_is_the_picture(tmp_path: Path) -> None:
    found = one(picture(tmp_path), tensor((2, 2, 3, 3))).array
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found[1], PIXELS)


def test_a_border_has_the_mean(tmp_path: Path) -> None:
    options = {"mean": ((10.4, 20.6, 300.0),), "resize_fit": "pad"}
    found = one(picture(tmp_path), tensor((1, 4, 3, 3)), **options).array
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found[0, 0, 0], [10, 21, 255])
    np.testing.assert_array_equal(found[0, 1:3], PIXELS)


def test_what_was_scaled_is_told(tmp_path: Path) -> None:
    _, notes = board_inputs([picture(tmp_path)], [tensor((1, 4, 6, 3))], Preprocess(), generation=2)
    assert any("3x2 to 6x4" in note for note in notes)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float32", "int64"])
def test_an_array_keeps_its_type_and_values(tmp_path: Path, dtype: str) -> None:
    values = PIXELS[None].astype(dtype) - np.array(3).astype(dtype)
    options = {"mean": ((1.0,),), "rgb2bgr": True}
    found = one(array(tmp_path, values), tensor(), **options)
    assert found.array.dtype == dtype
    np.testing.assert_array_equal(found.array, values)


def test_doubles_become_floats(tmp_path: Path) -> None:
    found = one(array(tmp_path, np.full((1, 2, 3, 3), 0.1)), tensor())
    assert found.array.dtype == np.float32


def test_the_layout_of_an_array_is_that_of_its_shape(tmp_path: Path) -> None:
    wanted = tensor((1, 2, 4, 3))
    last = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    first = np.ascontiguousarray(last.transpose(0, 3, 1, 2))
    for values in (last, last[0], first, first[0]):
        found = prepared_input(one(array(tmp_path, values), wanted), wanted)
        np.testing.assert_array_equal(found.array, last)


@pytest.mark.parametrize(("generation", "layout"), [(1, "NHWC"), (2, "NCHW")])
def test_a_shape_of_both_layouts_is_read_as_the_simulator_does(
    tmp_path: Path, generation: int, layout: str
) -> None:
    values = np.arange(27, dtype=np.uint8).reshape(1, 3, 3, 3)
    path = array(tmp_path, values)
    assert one(path, tensor((1, 3, 3, 3)), generation).layout == layout
    _, notes = board_inputs([path], [tensor((1, 3, 3, 3))], Preprocess(), generation=generation)
    assert any("fit both" in note for note in notes)


def test_inputs_that_are_no_pictures(tmp_path: Path) -> None:
    wanted = tensor((1, 5), "UNDEFINED")
    values = np.arange(5, dtype=np.float32)
    for given in (values, values[None]):
        np.testing.assert_array_equal(one(array(tmp_path, given), wanted).array, values[None])
    with pytest.raises(DatasetError, match="takes npy files only"):
        one(picture(tmp_path), wanted)
    with pytest.raises(DatasetError, match="has the shape"):
        one(array(tmp_path, values[:4]), wanted)
    with pytest.raises(UsageError, match="1 files were given for 2 inputs"):
        board_inputs([tmp_path], [wanted, wanted], Preprocess(), generation=2)
