"""Bytes of tensors in the native layout, as the compiler prints them in its tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.cost.lowered import LoweredTensor
from engine.cost.memory.layout import converted_bytes, feature_bytes
from engine.cost.memory.weights import constant_bytes
from engine.facts.npu import NpuDtype
from tests.cost.support import Layers


def spans(maker: Layers) -> dict[str, int]:
    return {span.tensor: span.end - span.start for span in maker.plan().spans}


@pytest.mark.parametrize(
    ("chip", "dtype", "shape", "size"),
    [
        ("rk3566", "int8", (1, 36, 40, 40), 64000),
        ("rk3588", "int8", (1, 36, 40, 40), 76800),
        ("rk3566", "float16", (1, 36, 40, 40), 115200),
        ("rk3588", "float16", (1, 36, 40, 40), 128000),
        ("rk3562", "int8", (1, 128, 7, 7), 6656),
        ("rk3562", "int8", (1, 128, 1, 1), 128),
        ("rv1103b", "int8", (1, 10, 13, 13), 2752),
    ],
)
def test_channels_in_groups_pixels_in_fours(
    chip: str, dtype: NpuDtype, shape: tuple[int, ...], size: int
) -> None:
    maker = Layers(chip, dtype)
    tensor = LoweredTensor("x", shape, dtype)
    assert feature_bytes(tensor, maker.npu, None, maker.lowered()) == size


@pytest.mark.parametrize(
    ("chip", "width", "size"),
    [("rk3566", 28, 28 * 3 * 32), ("rk3566", 20, 20 * 3 * 24), ("rk3588", 20, 20 * 3 * 32)],
)
def test_an_image_keeps_its_channels_and_pads_its_rows(chip: str, width: int, size: int) -> None:
    maker = Layers(chip)
    maker.output(maker.conv("c", maker.input("x", 1, 3, width, width), 16, kernel=3))
    assert spans(maker)["x"] == size


@pytest.mark.parametrize(
    ("chip", "channels", "depthwise", "stored"),
    [
        ("rk3566", 24, False, 32),
        ("rk3588", 24, False, 32),
        ("rk3588", 144, False, 160),
        ("rv1103b", 24, False, 24),
        ("rk3566", 144, True, 160),
        ("rk3588", 72, True, 128),
    ],
)
def test_a_convolution_writes_whole_tiles(
    chip: str, channels: int, depthwise: bool, stored: int
) -> None:
    maker = Layers(chip)
    source = maker.input("x", 1, channels, 14, 14)
    maker.output(maker.conv("c", source, channels, kernel=3, depthwise=depthwise))
    assert spans(maker)["c"] == stored * 14 * 14


@pytest.mark.parametrize(
    ("inputs", "outputs", "side", "extra"),
    [
        (256, 256, 28, 16),
        (256, 256, 27, 0),
        (1024, 224, 8, 16),
        (1024, 192, 8, 0),
        (128, 320, 40, 16),
        (256, 128, 40, 0),
        (512, 2048, 1, 0),
    ],
)
def test_a_1x1_that_does_not_fit_keeps_one_tile_more_on_rk3566(
    inputs: int, outputs: int, side: int, extra: int
) -> None:
    maker = Layers()
    maker.output(maker.conv("c", maker.input("x", 1, inputs, side, side), outputs))
    pixels = side * side if side == 1 else -(-side * side // 4) * 4
    assert spans(maker)["c"] == (outputs + extra) * pixels


@pytest.mark.parametrize(
    ("chip", "channels", "side", "stored"),
    [
        ("rk3562", 128, 42, 128),
        ("rk3562", 128, 44, 144),
        ("rk3562", 72, 48, 96),
        ("rk3562", 72, 52, 112),
        ("rv1103b", 512, 18, 520),
        ("rk3576", 128, 64, 128),
        ("rk3576", 128, 80, 160),
        ("rk3588", 128, 96, 128),
    ],
)
def test_a_depthwise_in_parts_keeps_one_tile_more(
    chip: str, channels: int, side: int, stored: int
) -> None:
    maker = Layers(chip)
    source = maker.input("x", 1, channels, side, side)
    maker.output(maker.conv("c", source, channels, kernel=3, depthwise=True))
    assert spans(maker)["c"] == stored * side * side


@pytest.mark.parametrize(
    ("chip", "dtype", "shape", "sizes"),
    [
        ("rk3566", "int8", (1, 255, 80, 80), (4 * 80 * 80 * 256,)),
        ("rk3566", "int8", (1, 36, 40, 40), (4 * 40 * 40 * 36,)),
        ("rk3566", "int8", (1, 255, 20, 20), (4 * 20 * 20 * 256 * 24 // 80,)),
        ("rk3566", "float16", (1, 24, 13, 13), (9984,)),
        ("rk3566", "float16", (1, 16, 112, 112), (2 * 16 * 112 * 112,)),
        ("rk3562", "int8", (1, 128, 7, 7), (6272,)),
        ("rk3562", "int8", (1, 255, 80, 80), (1638400, 1632000)),
        ("rv1106", "int8", (1, 10, 7, 7), (490,)),
        ("rk3588", "int8", (1, 255, 80, 80), ()),
        ("rk3566", "int8", (1, 1000), ()),
    ],
)
def test_an_output_is_copied_to_the_layout_of_the_user(
    chip: str, dtype: str, shape: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    maker = Layers(chip)
    maker.output(maker.feature("y", *shape, dtype=dtype))
    lowered = maker.lowered()
    assert converted_bytes(lowered.layers[0], maker.npu, lowered) == sizes
    on_cpu = replace(lowered.layers[0], target="CPU")
    assert not converted_bytes(on_cpu, maker.npu, lowered)


@pytest.mark.parametrize(
    ("chip", "channels", "copy", "result"),
    [("rk3566", (36, 36), 80, 80), ("rk3588", (64, 15), 80, 96), ("rk3576", (64, 15), 0, 96)],
)
def test_a_concat_of_broken_groups_is_gathered_first(
    chip: str, channels: tuple[int, int], copy: int, result: int
) -> None:
    maker = Layers(chip)
    one, two = (maker.feature(f"x{c}", 1, c, 10, 10) for c in channels)
    maker.layer("Concat", one, two, to=(maker.feature("y", 1, sum(channels), 10, 10),))
    assert (maker.working(), maker.stored("y")) == (copy * 100, result * 100)


@pytest.mark.parametrize(
    ("chip", "dtype", "channels", "rows", "copies", "result"),
    [
        ("rk3576", "float16", 24, 24, 24 * 24 * 24 * 2, 32 * 24 * 24 * 2),
        ("rk3576", "float16", 24, 16, 24 * 16 * 16 * 2, 32 * 16 * 16 * 2),
        ("rk3562", "float16", 24, 16, 24 * 16 * 16 * 2, 24 * 16 * 16 * 2),
        ("rk3588", "int8", 24, 24, 2 * 32 * 24 * 32, 32 * 24 * 32),
    ],
)
def test_rows_of_batches_become_a_map_in_whole_tiles(
    chip: str, dtype: NpuDtype, channels: int, rows: int, copies: int, result: int
) -> None:
    """As behind a norm over channels: (H, W, 1, C) becomes (1, C, H, W)."""
    maker = Layers(chip, dtype)
    flat = maker.feature("x", 1, rows * rows, 1, channels)
    maker.layer("Reshape", flat, to=(maker.feature("y", rows, rows, 1, channels),))
    maker.layer("Transpose", "y", to=(maker.feature("z", 1, channels, rows, rows),))
    maker.conv("c", "z", 16)
    assert (maker.working(1), maker.stored("z", 1)) == (copies, result)


@pytest.mark.parametrize(("mode", "size"), [("nearest", 64), ("linear", 24 * 66 * 130 + 32)])
def test_a_resize_between_pixels_works_on_a_bordered_copy(mode: str, size: int) -> None:
    maker = Layers()
    source = maker.feature("x", 1, 19, 64, 128)
    maker.layer("Resize", source, to=(maker.feature("y", 1, 19, 512, 1024),), mode=mode)
    assert maker.working() == size


@pytest.mark.parametrize(
    ("chip", "dtype", "inputs", "outputs", "depthwise", "weight", "bias"),
    [
        ("rk3566", "int8", 36, 36, False, 1440, 384),
        ("rk3566", "int8", 120, 120, True, 128, 1024),
        ("rk3588", "int8", 240, 240, True, 256, 2048),
        ("rk3562", "int8", 96, 255, False, 256 * 96, 2048),
        ("rk3562", "int8", 96, 96, True, 192, 576),
        ("rv1103b", "int8", 72, 72, True, 144, 432),
        ("rk3562", "float16", 96, 96, True, 192, 0),
    ],
)
def test_weights_and_biases_are_padded(
    chip: str, dtype: NpuDtype, inputs: int, outputs: int, depthwise: bool, weight: int, bias: int
) -> None:
    maker = Layers(chip, dtype)
    maker.output(maker.conv("c", maker.input("x", 1, inputs, 7, 7), outputs, depthwise=depthwise))
    sizes = [size for _, size in constant_bytes(maker.lowered(), maker.npu)]
    assert sizes == [weight, bias][: 2 if dtype == "int8" else 1]
