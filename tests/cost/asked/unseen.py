"""Networks of today that gave no rule: whole ways of several blocks, in a small size.

Their names were written down before the compiler was asked about them: what was found then stands
in docs/estimates/derivation.md.
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
    pick,
    recurrent,
    shape,
    swish,
    torch_attention,
    turn,
)

__all__ = ["UNSEEN"]

UNSEEN = Graphs()


@UNSEEN.add("unseen_efficientformer", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Pools as mixers on maps, then attention with a bias for each pair of places."""
    last = m.conv(m.conv("x", 3, 16, 3, 2, then="Relu"), 16, 32, 3, 2, then="Relu")
    pooled = m.add("AveragePool", last, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
    inner = m.add("Mul", m.add("Sub", pooled, last), m.numbers(32, 1, 1))
    last = m.add("Add", last, inner)
    inner = m.conv(gelu(m, m.conv(last, 32, 64, 1)), 64, 32, 1)
    last = m.add("Add", last, m.add("Mul", inner, m.numbers(32, 1, 1)))
    last = as_rows(m, m.conv(last, 32, 48, 3, 2), 48, 64)
    query, key, value = packed_heads(m, layer_norm(m, last, 48), 1, 64, 48, 3)
    scores = m.add("MatMul", query, turn(m, key, 0, 1, 3, 2))
    scores = m.add("Mul", scores, number(m, 0.25))
    shares = m.add("Softmax", m.add("Add", scores, m.numbers(3, 64, 64)), axis=-1)
    last = m.add("Add", last, m.add("Mul", m.numbers(48), mix_values(m, shares, value, 1, 64, 48)))
    inner = m.add("Mul", m.numbers(48), mlp(m, layer_norm(m, last, 48), 48))
    last = m.add("ReduceMean", layer_norm(m, m.add("Add", last, inner), 48), axes=[1], keepdims=0)
    return m.add("Gemm", last, m.numbers(48, 10), m.numbers(10))


@UNSEEN.add("unseen_edgenext", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Depthwise convolutions in a cascade, then attention between channels."""
    last = first = m.conv("x", 3, 48, 4, 4, valid=True)
    parts = m.split(last, count=3, axis=1)
    parts[0] = m.conv(parts[0], 16, 16, group=16)
    parts[1] = m.conv(m.add("Add", parts[1], parts[0]), 16, 16, group=16)
    last = as_rows(m, m.add("Concat", *parts, axis=1), 48, 256)
    packed = linear(m, layer_norm(m, last, 48), 48, 144)
    packed = turn(m, shape(m, packed, 1, 256, 3, 4, 12), 2, 0, 3, 4, 1)
    query, key, value = (pick(m, packed, at) for at in range(3))
    lengths = []
    for each in (query, key):
        length = m.add("ReduceL2", each, axes=[-1], keepdims=1)
        length = m.add("Clip", length, number(m, 1e-12))
        lengths.append(m.add("Div", each, m.add("Expand", length, m.whole(1, 4, 12, 256))))
    scores = m.add("MatMul", lengths[0], turn(m, lengths[1], 0, 1, 3, 2))
    shares = m.add("Softmax", m.add("Mul", scores, m.numbers(4, 1, 1)), axis=-1)
    mixed = turn(m, m.add("MatMul", shares, value), 0, 3, 1, 2)
    mixed = linear(m, shape(m, mixed, 1, 256, 48), 48, 48)
    last = m.add("Add", last, m.add("Mul", m.numbers(48), mixed))
    last = mlp(m, layer_norm(m, shape(m, last, 1, 16, 16, 48), 48), 48)
    last = m.add("Add", first, turn(m, m.add("Mul", m.numbers(48), last), 0, 3, 1, 2))
    return m.classes(last, 48)


@UNSEEN.add("unseen_fastvit", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Mixers folded into depthwise layers, wide depthwise layers, attention over pixels."""
    last = gelu(m, m.conv("x", 3, 32, 3, 2))
    last = gelu(m, m.conv(last, 32, 32, 3, 2, group=32))
    for attends in (False, True):
        if attends:
            last = m.conv(gelu(m, m.conv(last, 32, 32, 7, 2, group=32)), 32, 48, 1)
            last = m.conv(last, 48, 48, 7, group=48)
            rows = as_rows(m, last, 48, 64)
            mixed = turn(m, packed_attention(m, rows, 1, 64, 48, 3), 0, 2, 1)
            mixed = m.add("Mul", shape(m, mixed, 1, 48, 8, 8), m.numbers(48, 1, 1))
            last = m.add("Add", last, mixed)
        else:
            last = m.conv(last, 32, 32, 3, group=32)
        width = 48 if attends else 32
        inner = m.conv(m.conv(last, width, width, 7, group=width), width, 3 * width, 1)
        inner = m.conv(gelu(m, inner), 3 * width, width, 1)
        last = m.add("Add", last, m.add("Mul", inner, m.numbers(width, 1, 1)))
    return m.classes(last, 48)


@UNSEEN.add("unseen_gelan", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """YOLOv9: layers that are all joined, a half pooled and a half averaged, pools in a row."""

    def block(data: str, width: int) -> str:
        wide = swish(m, m.conv(data, width, width, 1))
        parts = m.split(wide, count=2, axis=1)
        half = width // 2
        for _ in range(2):
            one = swish(m, m.conv(parts[-1], half, half // 2, 1))
            two = swish(m, m.conv(parts[-1], half, half // 2, 1))
            inner = swish(
                m, m.conv(swish(m, m.conv(one, half // 2, half // 2)), half // 2, half // 2)
            )
            joined = m.add("Concat", m.add("Add", one, inner), two, axis=1)
            joined = swish(m, m.conv(joined, half, half, 1))
            parts.append(swish(m, m.conv(joined, half, half)))
        return swish(m, m.conv(m.add("Concat", *parts, axis=1), 2 * width, width, 1))

    last = block(swish(m, m.conv(swish(m, m.conv("x", 3, 16, 3, 2)), 16, 32, 3, 1)), 32)
    last = m.add("AveragePool", last, kernel_shape=[2, 2], strides=[1, 1], count_include_pad=1)
    one, two = m.split(last, count=2, axis=1)
    one = swish(m, m.conv(one, 16, 24, 3, 2))
    two = m.add("MaxPool", two, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    two = swish(m, m.conv(two, 16, 24, 1))
    last = block(m.add("Concat", one, two, axis=1), 48)
    pools = [swish(m, m.conv(last, 48, 24, 1))]
    for _ in range(3):
        pools.append(m.add("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    return swish(m, m.conv(m.add("Concat", *pools, axis=1), 96, 48, 1))


@UNSEEN.add("unseen_yolov10_head", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """The branch for one box an object, distances out of distributions, and the best boxes."""
    level = swish(m, m.conv("x", 3, 32, 3, 4))
    rows, count = [], 0
    for side in (8, 4):
        level = swish(m, m.conv(level, 32, 32, 3, 2))
        boxes = swish(m, m.conv(swish(m, m.conv(level, 32, 32)), 32, 32))
        names = swish(m, m.conv(m.conv(level, 32, 32, 3, group=32), 32, 32, 1))
        names = m.conv(swish(m, m.conv(names, 32, 32, 3, group=32)), 32, 20, 1)
        joined = m.add("Concat", m.conv(boxes, 32, 64, 1), names, axis=1)
        rows.append(shape(m, joined, 1, 84, side * side))
        count += side * side
    boxes, names = m.split(m.add("Concat", *rows, axis=2), m.whole(64, 20), count=2, axis=1)
    boxes = m.add("Softmax", turn(m, shape(m, boxes, 1, 4, 16, count), 0, 2, 1, 3), axis=1)
    steps = m.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    boxes = shape(m, m.add("Conv", boxes, steps, kernel_shape=[1, 1]), 1, 4, count)
    near, far = cut(m, boxes, 0, 2, 1), cut(m, boxes, 2, 4, 1)
    near = m.add("Sub", m.numbers(1, 2, count), near)
    far = m.add("Add", m.numbers(1, 2, count), far)
    boxes = m.add("Mul", m.add("Concat", near, far, axis=1), m.numbers(1, count))
    found = turn(m, m.add("Concat", boxes, m.add("Sigmoid", names), axis=1), 0, 2, 1)
    boxes, names = m.split(found, m.whole(4, 20), count=2, axis=2)
    return (boxes, m.add("ReduceMax", names, axes=[-1], keepdims=0))


@UNSEEN.add("unseen_rtdetr_encoder", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Attention over the smallest map, and layers of two ways on the way up and down."""

    def block(data: str) -> str:
        one, two = (swish(m, m.conv(data, 64, 32, 1)) for _ in range(2))
        for _ in range(2):
            one = swish(m, m.conv(one, 32, 32))
        return m.add("Add", one, two)

    large = m.conv(m.conv("x", 3, 32, 3, 4, then="Relu"), 32, 32, 1)
    small = m.conv(m.conv(large, 32, 48, 3, 2, then="Relu"), 48, 32, 1)
    rows = as_rows(m, small, 32, 64)
    query = m.add("Add", rows, m.numbers(1, 64, 32))
    query, rows = (turn(m, each, 1, 0, 2) for each in (query, rows))
    mixed = torch_attention(m, query, query, rows, (64, 64), 32, 4)
    rows = layer_norm(m, m.add("Add", turn(m, rows, 1, 0, 2), turn(m, mixed, 1, 0, 2)), 32)
    rows = layer_norm(m, m.add("Add", rows, mlp(m, rows, 32)), 32)
    small = shape(m, turn(m, rows, 0, 2, 1), 1, 32, 8, 8)
    small = swish(m, m.conv(small, 32, 32, 1))
    twice = m.constant(np.array([1, 1, 2, 2], np.float32))
    up = m.add("Resize", small, "", twice, mode="nearest")
    large = block(m.add("Concat", up, large, axis=1))
    down = swish(m, m.conv(large, 32, 32, 3, 2))
    return (large, block(m.add("Concat", down, small, axis=1)))


@UNSEEN.add("unseen_nanodet_plus_head", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Depthwise stems of 5 x 5, scores and distances in one layer, levels joined as rows."""
    level = m.add("LeakyRelu", m.conv("x", 3, 32, 3, 4), alpha=0.1)
    rows = []
    for side in (8, 4, 2):
        level = m.add("LeakyRelu", m.conv(level, 32, 32, 5, 2, group=32), alpha=0.1)
        last = level = m.add("LeakyRelu", m.conv(level, 32, 32, 1), alpha=0.1)
        for _ in range(2):
            last = m.add("LeakyRelu", m.conv(last, 32, 32, 5, group=32), alpha=0.1)
            last = m.add("LeakyRelu", m.conv(last, 32, 32, 1), alpha=0.1)
        names, boxes = m.split(m.conv(last, 32, 52, 1), m.whole(20, 32), count=2, axis=1)
        joined = m.add("Concat", m.add("Sigmoid", names), boxes, axis=1)
        rows.append(shape(m, joined, 1, 52, side * side))
    return turn(m, m.add("Concat", *rows, axis=2), 0, 2, 1)


@UNSEEN.add("unseen_hrnet", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Three resolutions, each of which gets all of the others."""
    widths = (18, 36, 72)
    maps = [m.conv("x", 3, 18, 3, 2, then="Relu")]
    for at in (0, 1):
        maps.append(m.conv(maps[-1], widths[at], widths[at + 1], 3, 2, then="Relu"))
    for at, width in enumerate(widths):
        inner = m.conv(m.conv(maps[at], width, width, then="Relu"), width, width)
        maps[at] = m.add("Relu", m.add("Add", inner, maps[at]))
    ends = []
    for to in range(3):
        total = ""
        for at in range(3):
            part = maps[at]
            if at > to:
                scale = float(2 ** (at - to))
                scales = m.constant(np.array([1, 1, scale, scale], np.float32))
                part = m.conv(part, widths[at], widths[to], 1)
                part = m.add("Resize", part, "", scales, mode="nearest")
            for step in range(at, to):
                final = step == to - 1
                out = widths[to] if final else widths[at]
                part = m.conv(part, widths[at], out, 3, 2, then="" if final else "Relu")
            total = m.add("Add", total, part) if total else part
        ends.append(m.add("Relu", total))
    return (m.conv(ends[0], 18, 17, 1), *ends[1:])


@UNSEEN.add("unseen_edsr", (1, 3, 24, 24), opset=17)
def _(m: Maker) -> Ends:
    """Blocks without norms, scaled by a tenth, and pixels out of channels, twice."""
    last = first = m.conv("x", 3, 24)
    for _ in range(2):
        inner = m.conv(m.conv(last, 24, 24, then="Relu"), 24, 24)
        last = m.add("Add", last, m.add("Mul", inner, number(m, 0.1)))
    last = m.add("Add", m.conv(last, 24, 24), first)
    for _ in range(2):
        wide = m.conv(last, 24, 96)
        last = m.add("DepthToSpace", wide, blocksize=2, mode="CRD")
    return m.conv(last, 24, 3)


@UNSEEN.add("unseen_crnn", (1, 1, 32, 64), opset=17)
def _(m: Maker) -> Ends:
    """Two LSTMs of both directions with a linear layer behind each."""
    last = "x"
    for before, out, columns in ((1, 16, 2), (16, 32, 2), (32, 32, 1), (32, 32, 1)):
        last = m.conv(last, before, out, then="Relu")
        last = m.add("MaxPool", last, kernel_shape=[2, columns], strides=[2, columns])
    last = m.conv(last, 32, 32, (2, 2), valid=True, then="Relu")
    last = turn(m, m.add("Squeeze", last, m.whole(2)), 2, 0, 1)
    for out in (24, 37):
        made = recurrent(m, "LSTM", last, 32 if out == 24 else 24, 24, ways=2)
        wide = shape(m, turn(m, made, 0, 2, 1, 3), 15, 48)
        wide = m.add("Gemm", wide, m.numbers(48, out), m.numbers(out))
        last = shape(m, wide, 15, 1, out)
    return last


@UNSEEN.add("unseen_wavenet", (1, 24, 96), opset=17)
def _(m: Maker) -> Ends:
    """Gated convolutions along time with growing gaps; what is left out is added up."""

    def conv(data: str, before: int, out: int, kernel: int = 1, gap: int = 1) -> str:
        around = {"kernel_shape": [kernel], "dilations": [gap], "pads": [gap * (kernel - 1), 0]}
        return m.add("Conv", data, m.numbers(out, before, kernel), m.numbers(out), **around)

    last, total = conv("x", 24, 32), ""
    for gap in (1, 2, 4):
        wide = conv(last, 32, 64, 2, gap)
        one, two = m.split(wide, count=2, axis=1)
        gated = m.add("Mul", m.add("Tanh", one), m.add("Sigmoid", two))
        last = m.add("Add", conv(gated, 32, 32), last)
        part = conv(gated, 32, 48)
        total = m.add("Add", total, part) if total else part
    total = conv(m.add("Relu", total), 48, 48)
    return conv(m.add("Relu", total), 48, 20)


@UNSEEN.add("unseen_bisenetv2", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Details and context on two ways that gate each other."""
    detail = m.conv("x", 3, 32, 3, 2, then="Relu")
    detail = m.conv(m.conv(detail, 32, 32, then="Relu"), 32, 32, 3, 2, then="Relu")
    stem = m.conv("x", 3, 16, 3, 2, then="Relu")
    left = m.conv(m.conv(stem, 16, 8, 1, then="Relu"), 8, 16, 3, 2, then="Relu")
    right = m.add("MaxPool", stem, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    low = m.conv(m.add("Concat", left, right, axis=1), 32, 16, then="Relu")
    for stride in (2, 2):
        inner = m.conv(m.conv(low, 16, 16, then="Relu"), 16, 96, 3, stride, group=16)
        inner = m.conv(m.conv(inner, 96, 96, group=96, then="Relu"), 96, 16, 1)
        short = m.conv(m.conv(low, 16, 16, 3, stride, group=16), 16, 16, 1)
        low = m.add("Relu", m.add("Add", inner, short))
    context = m.conv(m.add("GlobalAveragePool", low), 16, 16, 1, then="Relu")
    low = m.conv(m.conv(m.add("Add", low, context), 16, 32), 32, 32, then="Relu")
    scales = m.constant(np.array([1, 1, 4, 4], np.float32))

    def up(data: str) -> str:
        return m.add("Resize", data, "", scales, mode="linear")

    keep = m.conv(m.conv(detail, 32, 32, group=32), 32, 32, 1)
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    small = m.add("AveragePool", m.conv(detail, 32, 32, 3, 2), count_include_pad=0, **window)
    gate = m.add("Sigmoid", up(m.conv(low, 32, 32)))
    high = m.add("Sigmoid", m.conv(m.conv(low, 32, 32, group=32), 32, 32, 1))
    one, two = m.add("Mul", keep, gate), up(m.add("Mul", small, high))
    last = m.conv(m.conv(m.add("Add", one, two), 32, 32, then="Relu"), 32, 19, 1)
    return m.add("Resize", last, "", scales, mode="linear")


@UNSEEN.add("unseen_scrfd_head", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Scores, boxes and points of each level as rows, pixels first."""
    level, ends = m.conv("x", 3, 32, 3, 4, then="Relu"), []
    for _ in range(2):
        level = last = m.conv(level, 32, 32, 3, 2, then="Relu")
        for _ in range(2):
            last = m.conv(m.conv(last, 32, 32, group=32, then="Relu"), 32, 32, 1, then="Relu")
        boxes = m.add("Mul", m.conv(last, 32, 8, 3), number(m, 1.1))
        for each, width in ((m.conv(last, 32, 2, 3), 1), (boxes, 4), (m.conv(last, 32, 20, 3), 10)):
            rows = shape(m, turn(m, each, 0, 2, 3, 1), 1, -1, width)
            ends.append(m.add("Sigmoid", rows) if width == 1 else rows)
    return ends


@UNSEEN.add("unseen_segformer", (1, 3, 64, 64), opset=17)
def _(m: Maker) -> Ends:
    """Keys and values of a map made smaller, a depthwise layer between two linear ones."""
    first = m.conv("x", 3, 32, 7, 4)
    rows = layer_norm(m, as_rows(m, first, 32, 256), 32)
    inner = layer_norm(m, rows, 32)
    query = turn(m, shape(m, linear(m, inner, 32, 32), 1, 256, 2, 16), 0, 2, 1, 3)
    small = shape(m, turn(m, inner, 0, 2, 1), 1, 32, 16, 16)
    small = layer_norm(m, as_rows(m, m.conv(small, 32, 32, 4, 4, valid=True), 32, 16), 32)
    key, value = (
        turn(m, shape(m, linear(m, small, 32, 32), 1, 16, 2, 16), 0, 2, 1, 3) for _ in range(2)
    )
    scores = m.add("MatMul", query, turn(m, key, 0, 1, 3, 2))
    shares = m.add("Softmax", m.add("Div", scores, number(m, 4)), axis=-1)
    rows = m.add("Add", rows, mix_values(m, shares, value, 1, 256, 32))
    inner = turn(m, linear(m, layer_norm(m, rows, 32), 32, 64), 0, 2, 1)
    inner = m.conv(shape(m, inner, 1, 64, 16, 16), 64, 64, group=64)
    inner = turn(m, shape(m, inner, 1, 64, 256), 0, 2, 1)
    rows = m.add("Add", rows, linear(m, gelu(m, inner), 64, 32))
    last = shape(m, turn(m, layer_norm(m, rows, 32), 0, 2, 1), 1, 32, 16, 16)
    last = shape(m, turn(m, linear(m, as_rows(m, last, 32, 256), 32, 24), 0, 2, 1), 1, 24, 16, 16)
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))
    return m.conv(m.add("Resize", last, "", scales, mode="linear"), 24, 19, 1)
