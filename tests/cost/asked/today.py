"""Networks of today in a small size, as their exporters write them: whole ways of several blocks.

Their misses gave rules; those of :mod:`tests.cost.asked.unseen` were asked about afterwards.
"""

from __future__ import annotations

import numpy as np

from tests.cost.asked.maker import Ends, Graphs, Maker
from tests.cost.asked.parts import (
    as_rows,
    cut,
    gelu,
    layer_norm,
    linear,
    mix_values,
    mlp,
    number,
    packed_attention,
    packed_heads,
    rolled,
    scaled_scores,
    shape,
    swish,
    torch_attention,
    turn,
)

__all__ = ["TODAY"]

_END = 2**31 - 1
TODAY = Graphs()


def _window_attention(m: Maker, data: str, side: int, width: int, shift: int) -> str:
    """Swin's block: windows of 4 x 4 pixels, two heads, a bias for each pair of places."""
    size, heads, across = 4, 2, side // 4
    count, windows = size * size, across * across
    inner = shape(m, layer_norm(m, data, width), 1, side, side, width)
    inner = rolled(m, inner, shift) if shift else inner
    inner = turn(m, shape(m, inner, 1, across, size, across, size, width), 0, 1, 3, 2, 4, 5)
    inner = shape(m, shape(m, inner, -1, size, size, width), -1, count, width)
    query, key, value = packed_heads(m, inner, windows, count, width, heads)
    scores = m.add(
        "Add", scaled_scores(m, query, key, width // heads), m.numbers(1, heads, count, count)
    )
    if shift:
        scores = shape(m, scores, 1, windows, heads, count, count)
        scores = m.add("Add", scores, m.numbers(1, windows, 1, count, count))
        scores = shape(m, scores, -1, heads, count, count)
    inner = mix_values(m, m.add("Softmax", scores, axis=-1), value, windows, count, width)
    inner = shape(m, inner, -1, size, size, width)
    inner = shape(m, inner, 1, across, across, size, size, width)
    inner = shape(m, turn(m, inner, 0, 1, 3, 2, 4, 5), 1, side, side, width)
    inner = rolled(m, inner, -shift) if shift else inner
    last = m.add("Add", data, shape(m, inner, 1, side * side, width))
    return m.add("Add", last, mlp(m, layer_norm(m, last, width), width))


@TODAY.add("today_swin", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    last = layer_norm(m, as_rows(m, m.conv("x", 3, 32, 4, 4, valid=True), 32, 256), 32)
    for shift in (0, 2):
        last = _window_attention(m, last, 16, 32, shift)
    last = shape(m, last, 1, 16, 16, 32)
    parts = [
        cut(m, cut(m, last, row, _END, 1, 2), column, _END, 2, 2)
        for row, column in ((0, 0), (1, 0), (0, 1), (1, 1))
    ]
    last = shape(m, m.add("Concat", *parts, axis=-1), 1, 64, 128)
    last = m.add("MatMul", layer_norm(m, last, 128), m.numbers(128, 64))
    last = layer_norm(m, _window_attention(m, last, 8, 64, 0), 64)
    pooled = m.add("GlobalAveragePool", turn(m, last, 0, 2, 1))
    return linear(m, m.add("Flatten", pooled), 64, 10)


@TODAY.add("today_mobilevit", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    last = swish(m, m.conv("x", 3, 16, 3, 2))
    inner = swish(m, m.conv(last, 16, 32, 1))
    inner = swish(m, m.conv(inner, 32, 32, 3, 2, group=32))
    first = m.conv(inner, 32, 24, 1)
    last = m.conv(swish(m, m.conv(first, 24, 24)), 24, 48, 1)
    last = turn(m, shape(m, last, 384, 2, 8, 2), 0, 2, 1, 3)
    last = turn(m, shape(m, last, 1, 48, 64, 4), 0, 3, 2, 1)
    last = shape(m, last, 4, 64, 48)
    for _ in range(2):
        last = m.add("Add", last, packed_attention(m, layer_norm(m, last, 48), 4, 64, 48, 4))
        inner = swish(m, linear(m, layer_norm(m, last, 48), 48, 96))
        last = m.add("Add", last, linear(m, inner, 96, 48))
    last = turn(m, shape(m, layer_norm(m, last, 48), 1, 4, 64, 48), 0, 3, 2, 1)
    last = turn(m, shape(m, last, 384, 8, 2, 2), 0, 2, 1, 3)
    last = swish(m, m.conv(shape(m, last, 1, 48, 16, 16), 48, 24, 1))
    last = swish(m, m.conv(m.add("Concat", first, last, axis=1), 48, 24))
    return m.classes(last, 24)


def _scale_norm(m: Maker, data: str, width: int) -> str:
    length = m.add("ReduceL2", data, axes=[-1], keepdims=1)
    length = m.add("Mul", length, number(m, width**-0.5))
    length = m.add("Clip", length, number(m, 1e-5))
    return m.add("Mul", m.add("Div", data, length), number(m, 1.25))


@TODAY.add("today_simcc", (1, 3, 64, 48), opset=17)
def _(m: Maker) -> Ends:
    """RTMPose's head: a gated attention unit over keypoints, and a row for each axis."""
    last = swish(m, m.conv(swish(m, m.conv("x", 3, 24, 3, 2)), 24, 48, 3, 2))
    last = m.conv(swish(m, m.conv(last, 48, 64, 3, 2)), 64, 17, 7)
    last = m.add("MatMul", _scale_norm(m, shape(m, last, 1, 17, 48), 48), m.numbers(48, 64))
    packed = swish(m, m.add("MatMul", _scale_norm(m, last, 64), m.numbers(64, 288)))
    gate, value, base = m.split(packed, m.whole(128, 128, 32), count=3, axis=2)
    both = m.add("Mul", m.add("Unsqueeze", base, m.whole(2)), m.numbers(2, 32))
    both = m.add("Add", both, m.numbers(2, 32))
    query, key = (m.add("Squeeze", each, m.whole(2)) for each in m.split(both, count=2, axis=2))
    scores = m.add("MatMul", query, turn(m, key, 0, 2, 1))
    scores = m.add("Relu", m.add("Div", scores, number(m, 32**0.5)))
    mixed = m.add("MatMul", m.add("Mul", scores, scores), value)
    mixed = m.add("MatMul", m.add("Mul", gate, mixed), m.numbers(128, 64))
    last = m.add("Add", m.add("Mul", last, m.numbers(64)), mixed)
    return [m.add("MatMul", last, m.numbers(64, bins)) for bins in (96, 128)]


@TODAY.add("today_detr", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """One layer of the encoder, one of the decoder, and both heads."""
    width, count, queries = 32, 64, 20
    last = m.conv("x", 3, 24, 3, 4, then="Relu")
    last = m.conv(m.conv(last, 24, 48, 3, 2, then="Relu"), 48, width, 1)
    last = turn(m, shape(m, last, 1, width, count), 2, 0, 1)
    place = m.numbers(count, 1, width)
    query = m.add("Add", last, place)
    mixed = torch_attention(m, query, query, last, (count, count), width, 4)
    last = layer_norm(m, m.add("Add", last, mixed), width)
    inner = m.add("Relu", linear(m, last, width, 64))
    memory = layer_norm(m, m.add("Add", last, linear(m, inner, 64, width)), width)
    asked = m.numbers(queries, 1, width)
    target = layer_norm(
        m, m.add("Mul", m.add("ReduceMean", memory, axes=[0], keepdims=1), asked), width
    )
    query = m.add("Add", target, asked)
    mixed = torch_attention(m, query, query, target, (queries, queries), width, 4)
    target = layer_norm(m, m.add("Add", target, mixed), width)
    query, key = m.add("Add", target, asked), m.add("Add", memory, place)
    mixed = torch_attention(m, query, key, memory, (queries, count), width, 4)
    target = layer_norm(m, m.add("Add", target, mixed), width)
    inner = m.add("Relu", linear(m, target, width, 64))
    target = layer_norm(m, m.add("Add", target, linear(m, inner, 64, width)), width)
    target = turn(m, target, 1, 0, 2)
    names = linear(m, target, width, 12)
    boxes = linear(m, m.add("Relu", linear(m, target, width, width)), width, 4)
    return (names, m.add("Sigmoid", boxes))


@TODAY.add("today_poolformer", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Norms over all of a map, pools in place of attention."""
    last = m.conv("x", 3, 32, 7, 4)

    def norm(data: str) -> str:
        flat = shape(m, data, 0, 1, -1)
        one, none = m.constant(np.ones(1, np.float32)), m.constant(np.zeros(1, np.float32))
        flat = m.add("InstanceNormalization", flat, one, none)
        flat = m.add("Mul", shape(m, flat, 1, 32, 16, 16), m.numbers(32, 1, 1))
        return m.add("Add", flat, m.numbers(32, 1, 1))

    for _ in range(2):
        inner = norm(last)
        pooled = m.add("AveragePool", inner, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
        inner = m.add("Mul", m.add("Sub", pooled, inner), m.numbers(32, 1, 1))
        last = m.add("Add", last, inner)
        inner = m.conv(gelu(m, m.conv(norm(last), 32, 64, 1)), 64, 32, 1)
        last = m.add("Add", last, m.add("Mul", inner, m.numbers(32, 1, 1)))
    return m.classes(last, 32)
