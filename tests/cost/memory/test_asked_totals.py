"""Internal memory of small graphs as rknn-toolkit2 2.3.2 printed it, asked on 2026-11-26."""

from __future__ import annotations

import onnx
import pytest

from engine.facts.npu import NpuDtype
from tests.cost.asked.maker import Maker
from tests.cost.support import planned, read_model


def internal(model: onnx.ModelProto, chip: str, dtype: NpuDtype) -> int:
    return planned(read_model(model), chip, dtype).internal


def conv1d(channels: int, out: int, length: int) -> onnx.ModelProto:
    m = Maker((1, channels, length), opset=17)
    weight, bias = m.numbers(out, channels, 3), m.numbers(out)
    return m.model(m.add("Relu", m.add("Conv", "x", weight, bias, kernel_shape=[3], pads=[1, 1])))


@pytest.mark.parametrize(
    ("chip", "dtype", "sizes", "printed"),
    [
        ("rk3562", "int8", (8, 24, 50), 8640),
        ("rk3562", "float16", (8, 24, 50), 12800),
        ("rk3562", "int8", (40, 20, 33), 7680),
        ("rk3562", "int8", (24, 8, 200), 24512),
        ("rk3576", "int8", (40, 20, 33), 8640),
        ("rk3576", "float16", (8, 24, 50), 15392),
        ("rk3588", "int8", (8, 24, 50), 4224),
        ("rk3588", "float16", (40, 20, 33), 6400),
        ("rk3588", "float16", (24, 8, 200), 32000),
        ("rk3588", "int8", (16, 32, 64), 6144),
        ("rv1106", "int8", (40, 20, 33), 8064),
        ("rv1103b", "int8", (8, 24, 50), 7808),
        ("rv1103b", "int8", (40, 20, 33), 7616),
        ("rk2118", "float16", (40, 20, 33), 11520),
        ("rk2118", "float16", (24, 8, 200), 28800),
    ],
)
def test_a_conv1d(chip: str, dtype: NpuDtype, sizes: tuple[int, int, int], printed: int) -> None:
    assert internal(conv1d(*sizes), chip, dtype) == printed


@pytest.mark.parametrize(
    ("channels", "side", "kernel", "stride", "printed"),
    [(16, 28, 3, 1, 514304), (64, 56, 3, 1, 8078336), (24, 64, 2, 2, 2523136)],
)
def test_a_max_pool_of_rk2118_has_ten_times_the_room(
    channels: int, side: int, kernel: int, stride: int, printed: int
) -> None:
    m = Maker((1, 8, side, side))
    last = m.conv("x", 8, channels, 1, then="Relu")
    shape = {
        "kernel_shape": [kernel] * 2,
        "strides": [stride] * 2,
        "pads": [kernel // 2 * (kernel % 2)] * 4,
    }
    last = m.add("MaxPool", last, **shape)
    assert internal(m.model(m.conv(last, channels, 16, 1)), "rk2118", "float16") == printed


@pytest.mark.parametrize(
    ("channels", "side", "kernel", "printed"),
    [(64, 24, 3, 147456), (128, 15, 7, 116736), (512, 7, 5, 107328), (400, 7, 7, 84032)],
)
def test_depthwise_convolutions_of_rk2118_in_parts(
    channels: int, side: int, kernel: int, printed: int
) -> None:
    m = Maker((1, channels, side, side))
    last = m.conv("x", channels, channels, kernel, group=channels)
    model = m.model(m.conv(last, channels, 16, 1))
    assert internal(model, "rk2118", "float16") == printed


@pytest.mark.parametrize(
    ("chip", "printed"), [("rk3566", 86016), ("rk3562", 61440), ("rk3588", 77824)]
)
def test_a_net_of_four_outputs(chip: str, printed: int) -> None:
    m = Maker((1, 3, 64, 64))
    one = m.conv("x", 3, 16, 3, 2, then="Relu")
    two = m.conv(one, 16, 32, 3, 2, then="Relu")
    three = m.conv(two, 32, 48, 3, 2, then="Relu")
    ends = (m.conv(one, 16, 6, 1), m.conv(two, 32, 6, 1, then="Sigmoid"), m.conv(three, 48, 12, 1))
    assert internal(m.model(*ends, three), chip, "int8") == printed


def test_a_large_output_of_rv1106_is_copied_in_parts() -> None:
    m = Maker((1, 16, 112, 112))
    assert internal(m.model(m.conv("x", 16, 32, 1)), "rv1106", "int8") == 1265664


@pytest.mark.parametrize(
    ("op", "chip", "dtype", "channels", "printed"),
    [
        ("Add", "rk3566", "float16", 40, 141696),
        ("Add", "rk3588", "int8", 40, 140544),
        ("Erf", "rk3588", "int8", 40, 112896),
        ("MaxPool", "rk3566", "float16", 12, 58752),
        ("MaxPool", "rk3588", "int8", 12, 57600),
        ("MaxPool", "rk3576", "int8", 12, 48384),
    ],
)
def test_what_a_convolution_adds_fills_tiles(
    op: str, chip: str, dtype: NpuDtype, channels: int, printed: int
) -> None:
    m = Maker((1, 3, 24, 24), opset=17)
    last = m.conv("x", 3, channels, 3, then="Relu")
    window = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [1, 1]}
    if op == "Add":
        last = m.add("Add", m.add("MaxPool", last, **window), last)
    elif op == "Erf":
        inner = m.conv(m.conv(last, channels, channels, then="Relu"), channels, channels)
        last = m.add("Erf", m.add("Add", inner, last))
    else:
        last = m.add(op, last, **window)
    inner = m.conv(m.conv(last, channels, channels, then="Relu"), channels, channels)
    model = m.model(m.conv(m.add("Add", inner, last), channels, 8, 1))
    assert internal(model, chip, dtype) == printed


@pytest.mark.parametrize(("dtype", "printed"), [("int8", 384768), ("float16", 479232)])
def test_a_reshape_on_the_cpu_of_rk3588_copies_nothing(dtype: NpuDtype, printed: int) -> None:
    """A head whose rows do not fill groups."""
    m = Maker((1, 24, 24, 24), opset=17)
    maps = [m.conv("x", 24, 24, 3, then="Relu")]
    for _ in range(2):
        maps.append(m.conv(maps[-1], 24, 24, 3, 2, then="Relu"))
    rows = [
        m.add("Reshape", m.conv(each, 24, 85, 1), m.whole(1, 85, (24 >> at) ** 2))
        for at, each in enumerate(maps)
    ]
    model = m.model(m.add("Sigmoid", m.add("Concat", *rows, axis=2)))
    assert internal(model, "rk3588", dtype) == printed


@pytest.mark.parametrize(
    ("chip", "dtype", "channels", "sides", "printed"),
    [
        ("rk3588", "int8", 21, (10, 10, 20, 5), 9600),
        ("rk3588", "float16", 21, (16, 15, 24, 10), 65280),
        ("rk3588", "float16", 64, (9, 9, 27, 3), 25536),
        ("rk3562", "int8", 64, (9, 9, 27, 3), 8064),
        ("rk3576", "float16", 21, (24, 24, 48, 12), 180864),
        ("rk2118", "float16", 21, (9, 9, 27, 3), 31136),
        ("rv1103b", "int8", 64, (12, 12, 48, 3), 40320),
    ],
)
def test_a_map_of_another_height_and_width(
    chip: str,
    dtype: NpuDtype,
    channels: int,
    sides: tuple[int, int, int, int],
    printed: int,
) -> None:
    m = Maker((1, 24, *sides[:2]), opset=17)
    last = m.conv("x", 24, channels, 3, then="Relu")
    last = m.add("Reshape", last, m.whole(1, channels, *sides[2:]))
    assert internal(m.model(m.conv(last, channels, 8, 3)), chip, dtype) == printed


@pytest.mark.parametrize(
    ("chip", "dtype", "printed"),
    [
        ("rk3566", "int8", 138240),
        ("rk3588", "int8", 92160),
        ("rv1106", "int8", 64512),
        ("rk3562", "float16", 129024),
    ],
)
def test_all_inputs_are_there_from_the_start(chip: str, dtype: NpuDtype, printed: int) -> None:
    m = Maker((1, 16, 24, 24), (1, 32, 24, 24), (1, 48, 24, 24), opset=17)
    ends = [m.conv(f"x{at or ''}", 16 * (at + 1), 16, 3) for at in range(3)]
    assert internal(m.model(*ends), chip, dtype) == printed
