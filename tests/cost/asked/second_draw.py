"""A second draw: nets of other families than those of the first, asked after the rules were made.

The first draw (:mod:`tests.cost.asked.held_out`) has been looked at since; this one judges. What
differs in it was counted before anything was mended for it (docs/estimates/derivation.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import onnx

from tests.cost.asked.held_out import KINDS, Draw
from tests.cost.asked.maker import Make, Maker
from tests.cost.asked.parts import as_rows, attention, gelu, layer_norm, linear, swish

__all__ = ["SECOND_DRAW", "THIRD_DRAW"]


def _stages(seed: int) -> onnx.ModelProto:
    """A detector of split stages, pooled in a row, with a head of distributions."""
    d = Draw(seed, 3, 64)
    m, width = d.m, d.pick(16, 24, 32)
    last = swish(m, m.conv("x", 3, width, 3, 2))
    last = swish(m, m.conv(last, width, 2 * width, 3, 2))
    for _ in range(2):
        last = swish(m, m.conv(last, 2 * width, 2 * width, 1))
        parts = m.split(last, count=2, axis=1)
        inner = parts[1]
        for _ in range(d.pick(1, 2)):
            two = swish(m, m.conv(swish(m, m.conv(inner, width, width)), width, width))
            inner = m.add("Add", inner, two)
            parts.append(inner)
        last = swish(m, m.conv(m.add("Concat", *parts, axis=1), width * len(parts), 2 * width, 1))
    half = swish(m, m.conv(last, 2 * width, width, 1))
    pools = [half]
    for _ in range(3):
        pools.append(m.add("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]))
    last = swish(m, m.conv(m.add("Concat", *pools, axis=1), 4 * width, 2 * width, 1))
    boxes = m.conv(swish(m, m.conv(last, 2 * width, 64)), 64, 64, 1)
    names = m.conv(swish(m, m.conv(last, 2 * width, width)), width, d.pick(1, 20, 80), 1)
    return m.model(boxes, m.add("Sigmoid", names))


def _mask(seed: int) -> onnx.ModelProto:
    """A net that goes down by pools and up by transposed convolutions."""
    d = Draw(seed, 3, 64)
    m, width, depth = d.m, d.pick(8, 16, 20), d.pick(2, 3)
    kept, last, channels = [], "x", 3
    for at in range(depth):
        out = width << at
        last = d.conv(d.conv(last, channels, out), out, out)
        kept.append(last)
        last = m.add("MaxPool", last, kernel_shape=[2, 2], strides=[2, 2])
        channels = out
    last = d.conv(last, channels, channels)
    for at in reversed(range(depth)):
        out = width << at
        weight, bias = m.numbers(channels, out, 2, 2), m.numbers(out)
        up = m.add("ConvTranspose", last, weight, bias, kernel_shape=[2, 2], strides=[2, 2])
        last = d.conv(m.add("Concat", up, kept[at], axis=1), 2 * out, out)
        channels = out
    return m.model(m.conv(last, channels, d.pick(1, 2, 19), 1))


def _plain(seed: int) -> onnx.ModelProto:
    """Convolutions and pools, and two layers of all to all."""
    channels = (1, 3)[seed % 2]
    d = Draw(seed, channels, 48)
    m, last = d.m, "x"
    for _ in range(3):
        out = d.pick(12, 20, 32, 48)
        last = d.conv(last, channels, out, kernel=d.pick(3, 5))
        kind = ("MaxPool", "AveragePool")[d.pick(0, 1)]
        last = m.add(kind, last, kernel_shape=[2, 2], strides=[2, 2])
        channels = out
    flat, width, out = m.add("Flatten", last), d.pick(40, 64, 120), d.pick(2, 10, 43)
    last = m.add("Gemm", flat, m.numbers(channels * 36, width), m.numbers(width))
    last = m.add("Gemm", m.add("Relu", last), m.numbers(width, out), m.numbers(out))
    return m.model(m.add("Softmax", last, axis=1))


def _shuffle(seed: int) -> onnx.ModelProto:
    """Halves, one of which is worked on, joined and shuffled."""
    d = Draw(seed, 3, 64)
    m, half = d.m, d.pick(8, 16, 24, 29)
    last = m.add("Relu", m.conv("x", 3, 2 * half, 3, 2))
    for _ in range(3):
        one, two = m.split(last, count=2, axis=1)
        two = m.add("Relu", m.conv(two, half, half, 1))
        two = m.conv(two, half, half, 3, group=half)
        two = m.add("Relu", m.conv(two, half, half, 1))
        last = m.add("Concat", one, two, axis=1)
        last = m.add("Reshape", last, m.whole(1, 2, half, 32, 32))
        last = m.add("Transpose", last, perm=[0, 2, 1, 3, 4])
        last = m.add("Reshape", last, m.whole(1, 2 * half, 32, 32))
    return m.model(m.classes(last, 2 * half))


def _wide(seed: int) -> onnx.ModelProto:
    """Large depthwise kernels, a norm over channels, two layers with an exact GELU."""
    d = Draw(seed, 3, 64)
    m, width = d.m, d.pick(16, 24, 40)
    last = m.conv("x", 3, width, 4, 4, valid=True)
    for _ in range(2):
        inner = m.conv(last, width, width, 7, group=width)
        inner = m.add("Transpose", inner, perm=[0, 2, 3, 1])
        inner = linear(m, layer_norm(m, inner, width), width, 4 * width)
        inner = linear(m, gelu(m, inner), 4 * width, width)
        last = m.add("Add", last, m.add("Transpose", inner, perm=[0, 3, 1, 2]))
    return m.model(m.classes(last, width))


def _sound(seed: int) -> onnx.ModelProto:
    """Convolutions along time, then attention over it."""
    d = Draw(seed, 1, 0)
    m = d.m = Maker((1, bands := d.pick(40, 64, 80), 1, 96), opset=17)
    width = d.pick(32, 48)
    last = d.act(m.conv("x", bands, width, (1, 5)))
    last = d.act(m.conv(last, width, width, (1, d.pick(3, 9)), group=width))
    last = m.add("MaxPool", last, kernel_shape=[1, 2], strides=[1, 2])
    last = as_rows(m, last, width, 48)
    last = m.add("Add", last, attention(m, layer_norm(m, last, width), 48, width, 2))
    return m.model(m.add("Softmax", linear(m, last, width, d.pick(11, 30)), axis=-1))


_NEW: tuple[tuple[str, Callable[[int], onnx.ModelProto], int], ...] = (
    ("stages", _stages, 3),
    ("mask", _mask, 3),
    ("plain", _plain, 3),
    ("shuffle", _shuffle, 3),
    ("wide", _wide, 2),
    ("sound", _sound, 2),
)


def _draw(prefix: str, first: int) -> dict[str, Make]:
    return {
        f"{prefix}_{name}_{seed}": partial(make, seed)
        for name, make, count in (*((name, make, 2) for name, make, _ in KINDS), *_NEW)
        for seed in range(first, first + count)
    }


SECOND_DRAW = _draw("second", 401)
"""Name -> what makes it: 30 graphs."""
THIRD_DRAW = _draw("third", 701)
"""The same families with other seeds, asked after the last rule was made."""
