"""Working bytes of a norm over the channels of a map, as rknn-toolkit2 2.3.2 prints them."""

from __future__ import annotations

import onnx
import pytest

from engine.cost.memory.layout import settled
from engine.cost.memory.working import working_bytes
from engine.facts.npu import NpuDtype
from tests.cost.asked.maker import Maker
from tests.cost.asked.parts import layer_norm
from tests.cost.support import laid_out, npu_of, planned, read_model

CHANNELS = (8, 16, 24, 32, 40, 48)
# of 5x9 and of 16x16, by channels (asked on 2026-11-26)
ASKED: dict[tuple[str, NpuDtype, tuple[int, int]], tuple[int, ...]] = {
    ("rk3566", "int8", (16, 16)): (12352, 20544, 28736, 36928, 45120, 53312),
    ("rk3566", "float16", (5, 9)): (2368, 4672, 6208, 7744, 9280, 10816),
    ("rk3562", "int8", (16, 16)): (24640, 28736, 36864, 53312, 53248, 77888),
    ("rk3562", "int8", (5, 9)): (4672, 5440, 6912, 10048, 9984, 14656),
    ("rk3562", "float16", (5, 9)): (3904, 5440, 6976, 8512, 10048, 11584),
    ("rk3588", "int8", (16, 16)): (32832, 24640, 41024, 41024, 57408, 57408),
    ("rk3588", "float16", (5, 9)): (4672, 4672, 9280, 9280, 12352, 12352),
    ("rk3576", "int8", (5, 9)): (6208, 4672, 7744, 7744, 10816, 10816),
}


def normed(channels: int, size: tuple[int, int]) -> onnx.ModelProto:
    m = Maker((1, 8, *size), opset=17)
    turned = m.add("Transpose", m.conv("x", 8, channels, 3), perm=[0, 2, 3, 1])
    back = m.add("Transpose", layer_norm(m, turned, channels), perm=[0, 3, 1, 2])
    return m.model(m.conv(back, channels, 16, 1))


@pytest.mark.parametrize(("chip", "dtype", "size"), ASKED)
def test_a_norm_over_channels_of_a_map(chip: str, dtype: NpuDtype, size: tuple[int, int]) -> None:
    found = []
    for channels in CHANNELS:
        graph = read_model(normed(channels, size))
        lowered = settled(laid_out(graph, chip, dtype))
        (norm,) = [layer for layer in lowered.layers if layer.kind == "exNorm"]
        found.append(working_bytes(norm, npu_of(chip), lowered))
    assert tuple(found) == ASKED[chip, dtype, size]


@pytest.mark.parametrize(
    ("chip", "dtype", "sides", "printed"),
    [
        ("rk3588", "int8", (24, 24, 24), 111424),
        ("rk3588", "int8", (24, 20, 28), 120960),
        ("rk3576", "int8", (24, 24, 24), 111424),
        ("rk3566", "int8", (24, 20, 28), 81088),
        ("rk3562", "int8", (40, 20, 28), 215744),
        ("rk3576", "float16", (24, 24, 24), 119808),
    ],
)
def test_a_norm_over_a_map_whose_sides_break_groups(
    chip: str, dtype: NpuDtype, sides: tuple[int, int, int], printed: int
) -> None:
    """Axes are told apart by the order of the Transpose: they may be of one length."""
    channels, *size = sides
    m = Maker((1, 8, *size), opset=17)
    last = m.conv("x", 8, channels, 3)
    last = m.add("InstanceNormalization", last, m.numbers(channels), m.numbers(channels))
    model = m.model(m.conv(m.add("Relu", last), channels, 8, 3))
    assert planned(read_model(model), chip, dtype).internal == printed
