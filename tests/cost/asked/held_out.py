"""Graphs that took no part in finding a rule: drawn by a seed, asked once, and measured on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx

from tests.cost.asked.maker import Make, Maker
from tests.cost.asked.parts import as_rows, attention, layer_norm, linear

__all__ = ["HELD_OUT", "KINDS", "Draw"]

_ACTIVATIONS = ("Relu", "Sigmoid", "LeakyRelu", "HardSwish", "Tanh", "Elu", "Clip", "Swish")


class Draw:
    """A graph drawn step by step."""

    def __init__(self, seed: int, channels: int, side: int, opset: int = 17) -> None:
        self.random = np.random.default_rng(seed)
        self.m = Maker((1, channels, side, side), opset=opset)

    def pick(self, *choices: int) -> int:
        return int(self.random.choice(choices))

    def act(self, data: str) -> str:
        kind = str(self.random.choice(_ACTIVATIONS))
        if kind == "Swish":
            return self.m.add("Mul", data, self.m.add("Sigmoid", data))
        if kind == "Clip":
            low, high = (self.m.constant(np.array(each, np.float32)) for each in (0, 6))
            return self.m.add("Clip", data, low, high)
        return self.m.add(kind, data)

    def conv(self, data: str, channels: int, out: int, *, kernel: int = 3, stride: int = 1) -> str:
        return self.act(self.m.conv(data, channels, out, kernel, stride))


def _residual(seed: int) -> onnx.ModelProto:
    d = Draw(seed, 3, 64)
    channels = d.pick(12, 24, 36, 40)
    last = d.conv("x", 3, channels, stride=2)
    for _ in range(4):
        other = d.m.conv(d.conv(last, channels, channels), channels, channels, d.pick(1, 3, 5))
        last = d.act(d.m.add("Add", other, last))
        if d.random.random() < 0.4:
            wide = channels + d.pick(8, 16, 20)
            last, channels = d.conv(last, channels, wide, stride=d.pick(1, 2)), wide
    return d.m.model(d.m.conv(last, channels, d.pick(10, 21, 85), 1))


def _mobile(seed: int) -> onnx.ModelProto:
    d = Draw(seed, 3, 96)
    channels = d.pick(16, 20, 28)
    last = d.conv("x", 3, channels, stride=2)
    for _ in range(4):
        wide = channels * d.pick(2, 3, 6)
        inner = d.conv(last, channels, wide, kernel=1)
        inner = d.act(d.m.conv(inner, wide, wide, d.pick(3, 5), d.pick(1, 2), group=wide))
        if d.random.random() < 0.5:
            share = d.m.add("GlobalAveragePool", inner)
            share = d.m.conv(share, wide, wide // 4, 1, then="Relu")
            share = d.m.add("HardSigmoid", d.m.conv(share, wide // 4, wide, 1))
            inner = d.m.add("Mul", inner, share)
        channels = d.pick(16, 24, 40)
        last = d.m.conv(inner, wide, channels, 1)
    return d.m.model(d.m.classes(last, channels, d.pick(10, 100)))


def _norms(seed: int) -> onnx.ModelProto:
    d = Draw(seed, 3, 48)
    channels = d.pick(16, 24, 32)
    last = d.conv("x", 3, channels, stride=2)
    for _ in range(3):
        last = d.m.conv(last, channels, channels)
        scale, bias = d.m.numbers(channels), d.m.numbers(channels)
        last = d.m.add("Relu", d.m.add("InstanceNormalization", last, scale, bias))
    shape = {"kernel_shape": [4, 4], "strides": [2, 2], "pads": [1] * 4}
    up = d.m.add("ConvTranspose", last, d.m.numbers(channels, 12, 4, 4), d.m.numbers(12), **shape)
    return d.m.model(d.m.add("Tanh", d.m.conv(up, 12, 3, d.pick(3, 7))))


def _ladder(seed: int) -> onnx.ModelProto:
    d = Draw(seed, 4, 64)
    a = d.pick(16, 20, 24)
    one = d.conv("x", 4, a)
    two = d.conv(d.m.add("MaxPool", one, kernel_shape=[2, 2], strides=[2, 2]), a, 2 * a)
    three = d.conv(d.m.add("MaxPool", two, kernel_shape=[2, 2], strides=[2, 2]), 2 * a, 2 * a)
    scales = d.m.constant(np.array([1, 1, 2, 2], np.float32))
    mode = str(d.random.choice(("nearest", "linear")))
    up = d.m.add("Resize", three, "", scales, mode=mode)
    last = d.conv(d.m.add("Concat", up, two, axis=1), 4 * a, a)
    up = d.m.add("Resize", last, "", scales, mode="nearest")
    return d.m.model(d.m.conv(d.m.add("Concat", up, one, axis=1), 2 * a, d.pick(2, 21), 1))


def _blocks(seed: int) -> onnx.ModelProto:
    """A small vision transformer: patches, two blocks, a head."""
    d = Draw(seed, 3, 96)
    m, patch, heads = d.m, d.pick(8, 12, 16, 24), d.pick(2, 4)
    width = heads * d.pick(16, 24, 32)
    count = (96 // patch) ** 2
    last = m.conv("x", 3, width, patch, patch, valid=True)
    last = m.add("Add", as_rows(m, last, width, count), m.numbers(1, count, width))
    for _ in range(2):
        last = m.add("Add", last, attention(m, layer_norm(m, last, width), count, width, heads))
        inner = m.add("Relu", linear(m, layer_norm(m, last, width), width, 2 * width))
        last = m.add("Add", last, linear(m, inner, 2 * width, width))
    pooled = m.add("ReduceMean", last, axes=[1], keepdims=0)
    return m.model(linear(m, pooled, width, 10))


def _heads(seed: int) -> onnx.ModelProto:
    """A detector: levels, one head for all of them, rows joined."""
    d = Draw(seed, 3, 96)
    m, channels, boxes = d.m, d.pick(24, 32, 48), d.pick(6, 14, 85)
    last = d.conv("x", 3, channels, stride=2)
    levels = []
    for _ in range(3):
        last = d.conv(last, channels, channels, stride=2)
        levels.append(last)
    deep = m.numbers(channels, 1, 3, 3)
    dense, bias = m.numbers(boxes, channels, 1, 1), m.numbers(boxes)
    rows = []
    for side, level in zip((24, 12, 6), levels, strict=True):
        at = m.add("Conv", level, deep, kernel_shape=[3, 3], group=channels, pads=[1] * 4)
        at = m.add("Conv", m.add("Relu", at), dense, bias, kernel_shape=[1, 1])
        rows.append(m.add("Reshape", at, m.whole(1, boxes, side * side)))
    return m.model(m.add("Sigmoid", m.add("Concat", *rows, axis=2)))


def _groups(seed: int) -> onnx.ModelProto:
    d = Draw(seed, 3, 64)
    m, count = d.m, d.pick(2, 3, 4)
    channels = count * d.pick(8, 16, 20)
    last = d.conv("x", 3, channels, stride=2)
    for _ in range(3):
        last = d.act(m.conv(last, channels, channels, 3, group=count))
        last = m.add("Reshape", last, m.whole(1, count, channels // count, 32, 32))
        last = m.add("Transpose", last, perm=[0, 2, 1, 3, 4])
        last = m.add("Reshape", last, m.whole(1, channels, 32, 32))
    return m.model(m.conv(m.add("Mul", last, m.numbers(1, channels, 1, 1)), channels, 30, 1))


KINDS: tuple[tuple[str, Callable[[int], onnx.ModelProto], int], ...] = (
    ("residual", _residual, 4),
    ("mobile", _mobile, 4),
    ("norms", _norms, 3),
    ("ladder", _ladder, 3),
    ("blocks", _blocks, 4),
    ("heads", _heads, 3),
    ("groups", _groups, 3),
)

HELD_OUT: dict[str, Make] = {
    f"held_{name}_{seed}": partial(make, seed)
    for name, make, count in KINDS
    for seed in range(201, 201 + count)
}
"""Name -> what makes it: 24 graphs."""
