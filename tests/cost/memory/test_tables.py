"""Weights as rknn-toolkit2 2.3.2 printed them, asked on 2026-11-27: tables, images, depthwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from engine.facts.npu import NpuDtype
from tests.cost.asked.maker import Maker
from tests.cost.support import planned, read_model

Step = Callable[[Maker, str], str]


def weight(model: onnx.ModelProto, chip: str, dtype: NpuDtype) -> int:
    return planned(read_model(model), chip, dtype).weight


def swish(m: Maker, last: str) -> str:
    last = m.conv(last, 16, 16, 3)
    return m.add("Mul", last, m.add("Sigmoid", last))


def pooled(m: Maker, last: str) -> str:
    return m.add("MaxPool", last, kernel_shape=[2, 2], strides=[2, 2])


def resize(m: Maker, last: str, **attributes: str) -> str:
    return m.add("Resize", last, "", m.constant(np.array([1, 1, 2, 2], np.float32)), **attributes)


STEPS: dict[str, Step] = {
    "two Swish": lambda m, last: swish(m, swish(m, last)),
    "nearest": lambda m, last: resize(
        m,
        last,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "linear": lambda m, last: resize(
        m, last, mode="linear", coordinate_transformation_mode="half_pixel"
    ),
    "a scalar added": lambda m, last: m.add("Add", pooled(m, last), m.numbers(1, 1, 1)),
    "Relu": lambda m, last: m.add("Relu", pooled(m, last)),
    "depthwise": lambda m, last: m.conv(last, 16, 16, 3, group=16),
}


@pytest.mark.parametrize(
    ("step", "int8", "float16"),
    [
        ("two Swish", 33920, 39168),
        ("nearest", 26496, 28288),
        ("linear", 24704, 26496),
        ("a scalar added", 26880, 26816),
        ("Relu", 24704, 25728),
        ("depthwise", 24896, 26688),
    ],
)
def test_tables_of_rk3576(step: str, int8: int, float16: int) -> None:
    m = Maker((1, 16, 24, 24), opset=17)
    last = STEPS[step](m, m.conv("x", 16, 16, 3, then="Relu"))
    model = m.model(m.conv(last, 16, 8, 3))
    assert weight(model, "rk3576", "int8") == int8
    assert weight(model, "rk3576", "float16") == float16


@pytest.mark.parametrize(("parts", "channels", "printed"), [(3, 16, 34176), (2, 20, 35136)])
def test_a_concat_of_rk3576_has_tables(parts: int, channels: int, printed: int) -> None:
    """One part less where all fill groups."""
    m = Maker((1, 16, 24, 24), opset=17)
    maps = [m.conv("x", 16, channels, 3, then="Relu")]
    maps += [m.conv(maps[-1], channels, channels, 3, then="Relu")]
    maps += [m.conv(maps[-1], channels, channels, 3, then="Relu")] * (parts - 2)
    model = m.model(m.conv(m.add("Concat", *maps, axis=1), parts * channels, 8, 3))
    assert weight(model, "rk3576", "int8") == printed


@pytest.mark.parametrize(("channels", "printed"), [(16, 28992), (20, 33728)])
def test_a_split_of_rk3576_has_tables(channels: int, printed: int) -> None:
    m = Maker((1, 16, 24, 24), opset=17)
    parts = m.split(m.conv("x", 16, 2 * channels, 3, then="Relu"), count=2, axis=1)
    model = m.model(*(m.conv(part, channels, 8, 3) for part in parts))
    assert weight(model, "rk3576", "int8") == printed


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "int8", "float16"),
    [(3, 3, 2, 22208, 21120), (3, 4, 4, 22016, 22464), (1, 3, 2, 21376, 21120)],
)
def test_images_of_rk3576(channels: int, kernel: int, stride: int, int8: int, float16: int) -> None:
    m = Maker((1, channels, 32, 32), opset=17)
    model = m.model(m.conv(m.conv("x", channels, 24, kernel, stride, then="Relu"), 24, 8, 1))
    assert weight(model, "rk3576", "int8") == int8
    assert weight(model, "rk3576", "float16") == float16


@pytest.mark.parametrize(("chip", "printed"), [("rk3562", 17024), ("rk3588", 18304)])
def test_depthwise_convolutions_in_float16(chip: str, printed: int) -> None:
    m = Maker((1, 100, 14, 14), opset=17)
    last = m.add("GlobalAveragePool", m.conv("x", 100, 100, 3, group=100))
    assert weight(m.model(m.conv(last, 100, 8, 1)), chip, "float16") == printed
