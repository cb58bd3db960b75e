"""Pictures and arrays for an 8-bit input of a model that was quantized elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from engine.dataset import Preprocess, prepare_array
from engine.graph.ir import TensorSpec
from engine.recipe import Recipe

PIXELS = np.array([[[0, 128, 255]]], np.uint8)


def plan(quant: tuple[float, int] | None, dtype: str = "int8", **options: object):
    spec = TensorSpec("x", (1, 3, 1, 1), dtype, quant=quant)
    return Preprocess.from_recipe(Recipe.from_values(options)).plans([spec])[0]


@pytest.mark.parametrize(
    ("quant", "options", "expected"),
    [
        ((1.0, -128), {}, [-128, 0, 127]),  # the usual input of a picture: int8 = pixel - 128
        ((1 / 128, 0), {"mean_values": [[128] * 3], "std_values": [[128] * 3]}, [-128, 0, 127]),
        ((0.5, 0), {}, [0, 127, 127]),  # saturates
    ],
)
def test_pixels_are_quantized_after_mean_and_std(quant, options, expected) -> None:
    made = plan(quant, **options).normalise_pixels(PIXELS)
    assert made.dtype == np.int8
    assert made.ravel().tolist() == expected


def test_pixels_of_a_uint8_input_with_parameters_of_its_own() -> None:
    made = plan((2.0, 10), "uint8").normalise_pixels(PIXELS)
    assert made.ravel().tolist() == [10, 74, 138]  # 255 / 2 is rounded half to even


def test_arrays_of_the_own_type_are_taken_as_they_are() -> None:
    own = np.array([-5, 0, 7], np.int8).reshape(1, 3, 1, 1)
    assert np.array_equal(prepare_array(own, plan((0.5, 3))), own)
    real = own.astype(np.float32)
    assert prepare_array(real, plan((0.5, 3))).ravel().tolist() == [-7, 3, 17]
