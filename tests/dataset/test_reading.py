"""From files to what the network sees: pixels, layouts, arithmetic, errors with line and file."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.base.errors import DatasetError, JobCancelledError, RecipeError
from engine.base.events import CallbackReporter
from engine.dataset import (
    Preprocess,
    dataset_from_paths,
    prepare_array,
    read_dataset,
    samples,
)
from engine.dataset.whole import _end_of_scans, _refuse_many_scans
from engine.graph.ir import TensorSpec
from engine.recipe import Recipe
from tests.dataset.build import GREY, RGB, only, picture, refused

# ------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize("shape", [(), (1,)])
def test_an_input_of_rank_0_takes_one_value(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "rate.npy"
    np.save(path, np.full(shape, 16000))
    for spec, preprocess, wanted in (
        (TensorSpec("rate", (), "int64"), Preprocess(), 16000),
        (TensorSpec("rate", (), "float32"), Preprocess(((8000.0,),), ((2.0,),)), 4000),
        (TensorSpec("rate", (), "int8", quant=(1000.0, 3)), Preprocess(), 19),
    ):
        array = only(path, spec, preprocess)
        assert array.shape == ()
        assert array.dtype == spec.dtype
        assert array == wanted
    np.save(path, np.zeros(2))
    assert "1" in refused(path, TensorSpec("rate", (), "int64")).what


@pytest.mark.parametrize("suffix", ["png", "bmp"])
def test_pixels_reach_the_network_unchanged(tmp_path: Path, suffix: str) -> None:
    pixels = picture(tmp_path / f"a.{suffix}")
    array = only(tmp_path / f"a.{suffix}")
    assert array.dtype == np.float32
    assert array.flags.c_contiguous
    assert np.array_equal(array[0], pixels.transpose(2, 0, 1))


def test_normalisation_is_float32_to_the_bit(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png")
    mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    array = only(tmp_path / "a.png", RGB, Preprocess(mean=(mean,), std=(std,)))
    wanted = (pixels.astype(np.float32) - np.float32(mean)) / np.float32(std)
    assert np.array_equal(array[0], wanted.transpose(2, 0, 1))
    one = only(tmp_path / "a.png", RGB, Preprocess(mean=((127.0,),), std=((128.0,),)))
    assert np.array_equal(one[0].transpose(1, 2, 0), (pixels.astype(np.float32) - 127) / 128)


def test_swap_comes_before_mean(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png")
    preprocess = Preprocess(mean=((1.0, 2.0, 3.0),), rgb2bgr=(True,))
    array = only(tmp_path / "a.png", RGB, preprocess)
    wanted = pixels[..., ::-1].astype(np.float32) - np.float32([1, 2, 3])
    assert np.array_equal(array[0], wanted.transpose(2, 0, 1))


def test_grey_inputs_take_luma(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        wanted = np.asarray(image.convert("L"))
    assert np.array_equal(only(tmp_path / "a.png", GREY)[0, 0], wanted)
    flat = picture(tmp_path / "g.png", mode="L")
    assert np.array_equal(only(tmp_path / "g.png", GREY)[0, 0], flat)
    assert np.array_equal(only(tmp_path / "g.png")[0], np.stack([flat] * 3))


def test_alpha_and_palette_become_rgb(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png", mode="RGBA")
    assert np.array_equal(only(tmp_path / "a.png")[0], pixels[..., :3].transpose(2, 0, 1))
    with Image.open(tmp_path / "a.png") as image:
        indexed = image.convert("RGB").quantize(16)
        indexed.save(tmp_path / "p.png")
        wanted = np.asarray(indexed.convert("RGB"))
    assert np.array_equal(only(tmp_path / "p.png")[0], wanted.transpose(2, 0, 1))


@pytest.mark.parametrize("name", ["bilinear", "nearest", "bicubic", "lanczos", "box"])
def test_scaling_is_pillows_and_counted(tmp_path: Path, name: str) -> None:
    picture(tmp_path / "a.png", 20, 11)
    picture(tmp_path / "b.png")
    with Image.open(tmp_path / "a.png") as image:
        wanted = np.asarray(image.resize((8, 6), Image.Resampling[name.upper()]))
    dataset = dataset_from_paths([tmp_path / "a.png", tmp_path / "b.png"], 1)
    stream = samples(dataset, [RGB], Preprocess(resize_filter=name))
    first = next(stream)
    assert np.array_equal(first["image"][0], wanted.transpose(2, 0, 1))
    next(stream)
    (finding,) = stream.findings
    assert finding.code == "pictures-resized"
    assert "1 of 2 images" in finding.what
    assert "20x11 to 8x6" in finding.what


def test_jpeg_is_decoded_in_full(tmp_path: Path) -> None:
    """Draft mode would decode a large JPEG at an eighth of its size: other pixels."""
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (480, 640, 3), dtype=np.uint8)).save(tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as image:
        wanted = np.asarray(image.convert("RGB").resize((8, 6), Image.Resampling.BILINEAR))
    assert np.array_equal(only(tmp_path / "a.jpg")[0], wanted.transpose(2, 0, 1))


def test_crop_and_pad_keep_proportions(tmp_path: Path) -> None:
    flat = np.full((12, 48, 3), 200, np.uint8)
    flat[:, :6] = 10
    Image.fromarray(flat).save(tmp_path / "wide.png")
    cropped = only(tmp_path / "wide.png", RGB, Preprocess(resize_fit="crop"))
    assert np.array_equal(cropped, np.full((1, 3, 6, 8), 200, np.float32))
    padded = only(
        tmp_path / "wide.png",
        RGB,
        Preprocess(mean=((10.5, 20.25, 30.0),), std=((2.0,),), resize_fit="pad"),
    )
    assert np.array_equal(padded[0, :, :2], np.zeros((3, 2, 8)))
    assert np.array_equal(padded[0, :, 4:], np.zeros((3, 2, 8)))
    assert padded[0, :, 2:4].min() != 0


def test_name_does_not_decide_what_a_file_is(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / "a.npy")
    assert np.array_equal(only(tmp_path / "a.npy")[0], pixels.transpose(2, 0, 1))
    np.save(tmp_path / "b.npy", np.ones((3, 6, 8), np.float32))
    (tmp_path / "b.npy").rename(tmp_path / "b.jpg")
    assert only(tmp_path / "b.jpg").max() == 1


def test_nhwc_model_gets_nhwc(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png")
    spec = TensorSpec("image", (1, 6, 8, 3), "float32")
    array = only(tmp_path / "a.png", spec, Preprocess(mean=((1.0, 2.0, 3.0),)))
    assert np.array_equal(array[0], pixels - np.float32([1, 2, 3]))


def test_fixed_batch_repeats_the_sample(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png")
    array = only(tmp_path / "a.png", TensorSpec("image", (2, 3, 6, 8), "float32"))
    assert array.flags.c_contiguous
    assert np.array_equal(array, np.stack([pixels.transpose(2, 0, 1)] * 2))


def test_integer_inputs(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png")
    spec = TensorSpec("image", (1, 3, 6, 8), "uint8")
    assert np.array_equal(only(tmp_path / "a.png", spec)[0], pixels.transpose(2, 0, 1))
    with pytest.raises(DatasetError, match="cannot hold"):
        only(tmp_path / "a.png", spec, Preprocess(mean=((127.0,),)))
    ids = TensorSpec("ids", (1, 3), "int64")
    np.save(tmp_path / "ids.npy", np.array([[2**53 + 1, -1, 0]]))
    assert only(tmp_path / "ids.npy", ids).tolist() == [[2**53 + 1, -1, 0]]


# ---------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize(
    ("shape", "turn"),
    [
        ((1, 3, 6, 8), (0, 1, 2, 3)),
        ((3, 6, 8), (0, 1, 2)),
        ((1, 6, 8, 3), (0, 3, 1, 2)),
        ((6, 8, 3), (2, 0, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", ">f4", "int16", "float16"])
def test_shape_decides_the_layout(
    tmp_path: Path, shape: tuple[int, ...], turn: tuple[int, ...], dtype: str
) -> None:
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for order in "CF":
        np.save(tmp_path / "a.npy", np.asarray(values, order=order))  # type: ignore[call-overload]
        array = only(tmp_path / "a.npy", RGB, Preprocess(mean=((1.0, 2.0, 3.0),), rgb2bgr=True))
        wanted = values.transpose(turn).reshape(1, 3, 6, 8).astype(np.float32)
        wanted = wanted - np.float32([1, 2, 3]).reshape(1, 3, 1, 1)
        assert np.array_equal(array, wanted)  # mean applies, the swap does not
        assert array.flags.c_contiguous
        assert array.dtype == np.float32


def test_where_both_layouts_fit_the_generation_decides(tmp_path: Path) -> None:
    cube = np.arange(27, dtype=np.float32).reshape(1, 3, 3, 3)
    np.save(tmp_path / "a.npy", cube)
    spec = TensorSpec("image", (1, 3, 3, 3), "float32")
    dataset = dataset_from_paths([tmp_path / "a.npy"], 1)
    for generation, wanted in ((2, cube), (1, cube.transpose(0, 3, 1, 2))):
        stream = samples(dataset, [spec], Preprocess(generation=generation))
        assert np.array_equal(next(stream)["image"], wanted)
        assert [f.code for f in stream.findings] == ["npy-layout-ambiguous"]
    nhwc = TensorSpec("image", (1, 3, 3, 3), "float32")
    plan = Preprocess().plans([nhwc])[0]
    assert np.array_equal(prepare_array(cube, plan, "NHWC"), cube.transpose(0, 3, 1, 2))
    assert np.array_equal(prepare_array(cube, plan, "NCHW"), cube)


@pytest.mark.parametrize("shape", [(6, 8), (1, 3, 8, 6), (2, 3, 6, 8), (1, 4, 6, 8), (144,), ()])
def test_other_shapes_are_errors(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.zeros(shape, np.float32))
    error = refused(tmp_path / "a.npy")
    assert "1x3x6x8 or 1x6x8x3 or 3x6x8 or 6x8x3" in error.what


def test_inputs_that_take_no_picture(tmp_path: Path) -> None:
    flat = TensorSpec("features", (1, 4), "float32")
    np.save(tmp_path / "a.npy", np.array([1, 2, 3, 4]))
    per_feature = Preprocess(mean=((1.0, 2.0, 3.0, 4.0),))
    assert only(tmp_path / "a.npy", flat, per_feature).tolist() == [[0, 0, 0, 0]]
    picture(tmp_path / "a.png")
    assert "npy" in refused(tmp_path / "a.png", flat).what
    assert "npy" in refused(tmp_path / "a.png", TensorSpec("i", (1, 4, 6, 8), "float32")).what
    np.save(tmp_path / "s.npy", np.float32(3))
    assert only(tmp_path / "s.npy", TensorSpec("s", (), "float32")) == 3


def test_fractions_under_pixel_means_are_noticed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((3, 6, 8), 0.5, np.float32))
    stream = samples(
        dataset_from_paths([tmp_path / "a.npy"], 1),
        [RGB],
        Preprocess(mean=((127.0,),), std=((128.0,),)),
    )
    next(stream)
    assert [f.code for f in stream.findings] == ["npy-normalised-twice"]


# ------------------------------------------------------------------------------------- bad files


def test_arrays_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "Python objects" in refused(path).what
    np.save(path, np.ones((3, 6, 8), np.complex64))
    assert "dtype" in refused(path).what
    np.save(path, np.array(["a"]))
    assert "dtype" in refused(path).what
    np.save(path, np.full((3, 6, 8), np.nan, np.float32))
    assert "not finite" in refused(path).what
    np.save(path, np.ones((3, 6, 8), np.float32))
    whole = path.read_bytes()
    for size in (7, 40, 130, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "not a readable npy" in refused(path).what
    path.write_bytes(b"")
    assert "empty" in refused(path).what
    np.savez(tmp_path / "b.npz", np.ones(3))
    assert "npz" in refused(tmp_path / "b.npz").what


def test_array_head_that_promises_terabytes_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 1000000, 1000000), }"
    head = head.ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    refused(path)
    spec = TensorSpec("image", (1, 3, 1000000, 1000000), "float32")
    assert "not a readable npy" in refused(path, spec).what


def test_pictures_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    picture(path, 64, 64)
    whole = path.read_bytes()
    for size in (9, 30, len(whole) // 2):
        path.write_bytes(whole[:size])
        refused(path)
    path.write_bytes(b"hello, I am a text")
    assert "not a jpg, png, bmp or npy" in refused(path).what
    Image.fromarray(np.full((6, 8), 40_000, np.uint16)).save(path)
    assert "8 bits" in refused(path).what
    Image.new("RGB", (8, 6)).save(tmp_path / "a.gif")
    refused(tmp_path / "a.gif")
    refused(tmp_path)


def test_decompression_bomb_is_refused_without_decoding(tmp_path: Path) -> None:
    """A PNG head that promises 20,000 x 20,000 pixels, 100 bytes long."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0))
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")))
    error = refused(path)
    assert "pixels" in error.what
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 10_000, 9_500, 8, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")))
    with pytest.warns(Image.DecompressionBombWarning):
        error = refused(path)
    assert "10000x9500" in error.what


@given(st.data())
def test_damaged_files_give_the_engines_error_or_an_array(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(["png", "jpg", "bmp", "npy"]))
    path = tmp_path_factory.getbasetemp() / f"mutant.{kind}"
    if kind == "npy":
        np.save(path, np.ones((3, 6, 8), np.float32))
    else:
        picture(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    failure = None
    try:
        array = only(path)
    except DatasetError as error:
        failure = error
    if failure is not None:
        assert path.name in failure.what
    else:
        assert array.shape == RGB.shape
        assert np.isfinite(array).all()


# ----------------------------------------------------------------------------- options and inputs


def test_preprocessing_that_does_not_fit_the_model() -> None:
    two = [RGB, TensorSpec("other", (1, 1, 6, 8), "float32")]
    for option, preprocess in (
        ("mean_values", Preprocess(mean=((1.0,),) * 3)),
        ("channel_mean_value", Preprocess(mean=((1.0,),), names=("channel_mean_value",) * 2)),
        ("std_values", Preprocess(std=((1.0,), (1.0,), (2.0,)))),
        ("quant_img_RGB2BGR", Preprocess(rgb2bgr=(True,))),
        ("mean_values", Preprocess(mean=((1.0, 2.0), (1.0,)))),
    ):
        with pytest.raises(RecipeError, match=option) as caught:
            preprocess.plans(two)
        assert caught.value.remedy
    with pytest.raises(DatasetError, match="no fixed size") as caught_dynamic:
        Preprocess().plans([TensorSpec("x", (-1, 3, 4, 4), "float32")])
    assert "input_size_list" in caught_dynamic.value.remedy


def test_preprocess_of_a_recipe() -> None:
    recipe = Recipe.from_values(
        {
            "mean_values": [1, 2, 3],
            "std_values": [4],
            "quant_img_RGB2BGR": True,
            "resize_fit": "pad",
        }
    )
    assert Preprocess.from_recipe(recipe, generation=1) == Preprocess(
        ((1.0, 2.0, 3.0),), ((4.0,),), True, "bilinear", "pad", 1
    )


def test_several_inputs_a_line(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png")
    np.save(tmp_path / "b.npy", np.arange(4, dtype=np.float32))
    (tmp_path / "d.txt").write_text("a.png b.npy\n", encoding="utf-8")
    specs = [RGB, TensorSpec("vector", (1, 4), "float32")]
    (sample,) = samples(read_dataset(tmp_path / "d.txt"), specs, Preprocess(mean=((1.0,), (0.0,))))
    assert list(sample) == ["image", "vector"]
    assert np.array_equal(sample["image"][0], pixels.transpose(2, 0, 1) - np.float32(1))
    assert sample["vector"].tolist() == [[0, 1, 2, 3]]
    with pytest.raises(DatasetError, match="3 files were given for 2 inputs"):
        dataset_from_paths([tmp_path] * 3, 2)


def test_cancel_between_samples(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    cancelled = False
    reporter = CallbackReporter(lambda _: None, lambda: cancelled)
    dataset = dataset_from_paths([tmp_path / "a.png"] * 3, 1)
    stream = samples(dataset, [RGB], Preprocess(), reporter)
    next(stream)
    cancelled = True
    with pytest.raises(JobCancelledError):
        next(stream)


@pytest.mark.parametrize(("scans", "refused"), [(12, False), (13, True)])
def test_the_scans_of_the_largest_picture_are_bounded(scans: int, refused: bool) -> None:
    """A progressive JPEG of 9459 x 9459 pixels, each scan of which has nothing in it."""
    frame = b"\xff\xc2" + (11).to_bytes(2, "big") + b"\x08" + (9459).to_bytes(2, "big") * 2
    scan = b"\xff\xda" + (2).to_bytes(2, "big") + b"\0"
    data = b"\xff\xd8" + frame + b"\1" * 4 + scan * scans + b"\xff\xd9"
    assert _end_of_scans(data)[1:] == (scans, 9459**2)
    if refused:
        with pytest.raises(ValueError, match="13 scans"):
            _refuse_many_scans(data)
    else:
        _refuse_many_scans(data)
