"""Blocks of networks that the vendor's compiler was asked about, by name."""

from __future__ import annotations

import numpy as np

from tests.cost.asked.maker import Ends, Graphs, Maker
from tests.cost.asked.parts import (
    as_rows,
    layer_norm,
    pick,
    recurrent,
    rolled,
    scaled_scores,
    shape,
    turn,
)

__all__ = ["BLOCKS"]

BLOCKS = Graphs()
"""Name -> what makes it."""


# -------------------------------------------------------------------------------------- attention
def _psa(channels: int, heads: int, side: int, depth: int = 32) -> None:
    """The attention of YOLO11: values come out of a Split and are read as a map, too."""

    @BLOCKS.add(f"psa_{channels}_{heads}_{side}", (1, channels, side, side))
    def _(m: Maker) -> Ends:
        wide = channels // heads
        first = m.conv("x", channels, channels, 1, then="Relu", name="c1")
        packed = m.conv(first, channels, heads * (2 * depth + wide), 1, name="qkv")
        packed = m.add("Reshape", packed, m.whole(1, heads, 2 * depth + wide, side * side))
        parts = m.split(packed, m.whole(depth, depth, wide), count=3, axis=2)
        query = m.add("Transpose", parts[0], perm=[0, 1, 3, 2])
        scale = m.constant(np.array(depth**-0.5, np.float32))
        scores = m.add("Mul", m.add("MatMul", query, parts[1]), scale)
        scores = m.add("Transpose", m.add("Softmax", scores, axis=-1), perm=[0, 1, 3, 2])
        shape = m.whole(1, channels, side, side)
        found = m.add("Reshape", m.add("MatMul", parts[2], scores), shape)
        place = m.conv(m.add("Reshape", parts[2], shape), channels, channels, group=channels)
        last = m.conv(m.add("Add", found, place), channels, channels, 1, name="proj")
        return m.conv(m.add("Add", first, last), channels, 16, 1, name="last")


_psa(128, 2, 20)
_psa(96, 3, 7, 16)
_psa(64, 1, 10)


def _packed(batch: int, depth: int, *, mask: bool = False) -> None:
    """Two heads whose queries, keys and values one matrix gives: windows or all rows."""
    width, rows = 2 * depth, 64
    name = f"packed_{batch}_{depth}" + ("_masked" if mask else "")

    @BLOCKS.add(name, (batch, rows, width), opset=17)
    def _(m: Maker) -> Ends:
        packed = m.add("MatMul", layer_norm(m, "x", width), m.numbers(width, 3 * width))
        packed = turn(m, shape(m, packed, batch, rows, 3, 2, depth), 2, 0, 3, 1, 4)
        query, key, value = (pick(m, packed, at) for at in range(3))
        scores = scaled_scores(m, query, key, depth)
        scores = m.add("Add", scores, m.numbers(1, 2, rows, rows)) if mask else scores
        mixed = turn(m, m.add("MatMul", m.add("Softmax", scores, axis=-1), value), 0, 2, 1, 3)
        return m.add("MatMul", shape(m, mixed, batch, rows, width), m.numbers(width, 16))


for _depth in (12, 16, 24):
    _packed(1, _depth)
    _packed(4, _depth)
_packed(4, 16, mask=True)


# ------------------------------------------------------------------------------ filters in halves
def _wide(name: str, *layers: tuple[int, int, int]) -> None:
    """Convolutions side by side: channels, kernel, outputs."""

    @BLOCKS.add(name, *((1, channels, 4, 4) for channels, _, _ in layers))
    def _(m: Maker) -> Ends:
        return [
            m.conv(f"x{at or ''}", channels, out, kernel, name=f"c{channels}_{kernel}_{out}")
            for at, (channels, kernel, out) in enumerate(layers)
        ]


_wide(
    "filters_of_one_group",
    *((channels, 3, 16) for channels in (640, 672, 680, 682, 688, 712, 720)),
    *((channels, 3, 32) for channels in (656, 676, 717)),
    *((704, 3, out) for out in (14, 15)),
    *((768, 3, out) for out in (12, 15)),
)
_wide(
    "filters_of_more_groups",
    *((channels, 3, out) for channels in (512, 528, 560) for out in (17, 33, 40, 64, 72, 96)),
    (512, 3, 256),
    (5120, 1, 32),
    (4608, 1, 64),
)


# -------------------------------------------------------------------------------- edges and halves
def _cut(m: Maker, data: str, starts: tuple[int, ...], ends: tuple[int, ...], axis: int) -> str:
    axes = range(axis, axis + len(starts))
    steps = (1,) * len(starts)
    return m.add("Slice", data, m.whole(*starts), m.whole(*ends), m.whole(*axes), m.whole(*steps))


@BLOCKS.add("edges_cut", *[(1, 16, 20, 20)] * 6)
def _(m: Maker) -> Ends:
    """Edges cut off convolutions: taken from the pads where these are as wide."""
    around = {"kernel_shape": [3, 3], "pads": [1] * 4}
    wide = {"kernel_shape": [5, 5], "pads": [2] * 4, "strides": [2, 2]}
    three, five, deep = m.numbers(16, 16, 3, 3), m.numbers(16, 16, 5, 5), m.numbers(16, 1, 3, 3)
    ends = [
        _cut(m, m.add("Conv", "x", three, **around), (0,), (-1,), 3),
        _cut(m, m.add("Conv", "x1", three, **around), (0,), (-2,), 3),
        _cut(m, m.add("Conv", "x2", deep, group=16, **around), (1,), (20,), 2),
        _cut(m, m.add("Conv", "x3", three, **around), (1, 1), (19, 19), 2),
        _cut(m, m.add("Conv", "x4", five, **wide), (1,), (10,), 3),
        _cut(m, m.add("Conv", "x5", three, strides=[2, 2], **around), (0,), (-1,), 3),
    ]
    return [m.add("Relu", each) for each in ends]


@BLOCKS.add("causal_rows", (1, 32, 64))
def _(m: Maker) -> Ends:
    """A temporal convolution net: what looks ahead is cut off."""
    last = "x"
    for gap in (1, 2, 4):
        around = {"kernel_shape": [3], "dilations": [gap], "pads": [2 * gap] * 2}
        made = m.add("Conv", last, m.numbers(32, 32, 3), m.numbers(32), **around)
        made = m.add("Relu", _cut(m, made, (0,), (-2 * gap,), 2))
        last = m.add("Add", last, made)
    return last


@BLOCKS.add("gated_halves", *[(1, 32, 12, 12)] * 3, (1, 32, 24), (1, 20, 32))
def _(m: Maker) -> Ends:
    """Gated linear units over channels, rows and what a matrix gives; one is in another order."""

    def gated(data: str, axis: int, *, first: bool = False) -> str:
        half, gate = m.split(data, count=2, axis=axis)
        if first:
            half, gate = gate, half
        return m.add("Mul", half, m.add("Sigmoid", gate))

    ends = [
        m.conv(gated(m.conv("x", 32, 64, 1), 1), 32, 16, 1),
        m.conv(gated(m.conv("x1", 32, 64, 1), 1, first=True), 32, 16, 1),
        m.conv(gated(m.conv("x2", 32, 64, 3, then="Relu"), 3), 64, 16, 1),
    ]
    rows = m.add("Conv", "x3", m.numbers(64, 32, 1), m.numbers(64), kernel_shape=[1])
    around = {"kernel_shape": [5], "group": 32, "pads": [2, 2]}
    ends.append(m.add("Conv", gated(rows, 1), m.numbers(32, 1, 5), m.numbers(32), **around))
    wide = gated(m.add("MatMul", "x4", m.numbers(32, 64)), 2)
    return [*ends, m.add("MatMul", wide, m.numbers(32, 16))]


def _waves(name: str, kernel: int, stride: int, pads: int) -> None:
    """The first layers of a net over samples of sound."""

    @BLOCKS.add(f"waves_{name}", (1, 1, 1600))
    def _(m: Maker) -> Ends:
        around = {"kernel_shape": [kernel], "strides": [stride], "pads": [pads] * 2}
        last = m.add("Conv", "x", m.numbers(16, 1, kernel), m.numbers(16), **around)
        last = m.add("MaxPool", m.add("Relu", last), kernel_shape=[4], strides=[4])
        last = m.add("Conv", last, m.numbers(32, 16, 3), m.numbers(32), kernel_shape=[3])
        last = m.add("Flatten", m.add("GlobalAveragePool", m.add("Relu", last)))
        last = m.add("Gemm", last, m.numbers(32, 35), m.numbers(35))
        return m.add("LogSoftmax", last, axis=1)


_waves("80_by_16", 80, 16, 0)
_waves("64_by_8", 64, 8, 32)
_waves("21", 21, 1, 10)


def _other_steps(ways: int) -> None:
    """A recurrent layer whose steps are not read as (steps, batch, values)."""

    @BLOCKS.add(f"steps_lstm_{ways}", (12, 1, 16), opset=14)
    def _(m: Maker) -> Ends:
        return m.add("Relu", recurrent(m, "LSTM", "x", 16, 24, ways=ways))


_other_steps(1)
_other_steps(2)


@BLOCKS.add("rolled_and_joined", (1, 32, 16, 16), opset=17)
def _(m: Maker) -> Ends:
    """Swin's shift, then rows of all pixels; a norm whose rows others read and one of a map."""
    first = as_rows(m, m.conv("x", 32, 32, 1, then="Relu"), 32, 256)
    last = rolled(m, shape(m, layer_norm(m, first, 32), 1, 16, 16, 32), 2)
    last = m.add("Add", first, m.add("Reshape", last, m.whole(1, 256, 32)))
    return m.add("MatMul", last, m.numbers(32, 16))


@BLOCKS.add("later_sum", (1, 16, 16, 16))
def _(m: Maker) -> Ends:
    """Of two convolutions the one with fewer layers before it takes their sum."""
    one = m.conv(m.conv("x", 16, 16, then="Relu"), 16, 16, 3, 2)
    two = m.conv(m.conv(m.conv("x", 16, 16, then="Relu"), 16, 24, then="Relu"), 24, 16, 3, 2)
    return m.conv(m.add("Relu", m.add("Add", one, two)), 16, 16, 1)


@BLOCKS.add("divided_maps", (1, 16, 8, 8))
def _(m: Maker) -> Ends:
    """What a map is divided by is expanded; an activation goes before a turn and a Reshape."""
    first = m.conv("x", 16, 16, 1, then="Relu")
    total = m.add("Add", m.add("GlobalAveragePool", first), m.numbers(1, 16, 1, 1))
    last = m.conv(m.add("Div", first, total), 16, 16, 1)
    turned = m.add("Transpose", last, perm=[0, 2, 3, 1])
    rows = m.add("Reshape", turned, m.whole(1, 128, 8))
    return m.add("Sigmoid", rows)


# ------------------------------------------------------------------------------ weights of 4 bits
def _small_weights(channels: int) -> None:
    @BLOCKS.add(f"int4_of_{channels}", (1, channels, 32, 32), opset=14)
    def _(m: Maker) -> Ends:
        last = m.conv("x", channels, 40, 3, 2, then="Relu", name="c1")
        last = m.conv(last, 40, 40, 3, group=40, then="HardSwish", name="deep")
        last = m.conv(last, 40, 32, 3, group=4, then="LeakyRelu", name="groups")
        shape = {"kernel_shape": [2, 2], "strides": [2, 2]}
        last = m.add("ConvTranspose", last, m.numbers(32, 21, 2, 2), m.numbers(21), **shape)
        last = first = m.conv(last, 21, 48, 1, then="Relu", bias=False, name="bare")
        last = m.conv(last, 48, 48, 5, then="Sigmoid", name="wide")
        last = m.add("Relu", m.add("Add", m.conv(last, 48, 48, 1, name="c2"), first))
        last = m.add("Flatten", m.add("GlobalAveragePool", last))
        return m.add("Gemm", last, m.numbers(48, 10), m.numbers(10))


for _channels in (2, 3, 6):
    _small_weights(_channels)


# ---------------------------------------------------------------------------- maps of transformers
@BLOCKS.add("merged_patches", (1, 32, 16, 16))
def _(m: Maker) -> Ends:
    """Swin's patches, merged two by two with the channels last."""
    first = m.conv("x", 32, 32, 1, then="Relu", name="c1")
    last = m.add("Transpose", first, perm=[0, 2, 3, 1])
    parts = [_every_second(m, last, *each) for each in ((0, 0), (1, 0), (0, 1), (1, 1))]
    last = m.add("Reshape", m.add("Concat", *parts, axis=3), m.whole(1, 64, 128))
    return m.add("MatMul", last, m.numbers(128, 64))


def _every_second(m: Maker, data: str, row: int, column: int) -> str:
    ends, steps = m.whole(2**31 - 1), m.whole(2)
    last = m.add("Slice", data, m.whole(row), ends, m.whole(1), steps)
    return m.add("Slice", last, m.whole(column), ends, m.whole(2), steps)


@BLOCKS.add("rolled_pixels", (1, 32, 16, 16))
def _(m: Maker) -> Ends:
    """Swin's shift: rows and columns that leave on one side come in on the other."""
    first = m.conv("x", 32, 32, 1, then="Relu", name="c1")
    last = m.add("Transpose", first, perm=[0, 2, 3, 1])
    last = m.add("Transpose", rolled(m, last, 2), perm=[0, 3, 1, 2])
    return m.conv(m.add("Add", last, first), 32, 16, name="c2")


@BLOCKS.add("pools_with_pads", (1, 32, 16, 16))
def _(m: Maker) -> Ends:
    """The pools of DAPPM: large windows that count their pads."""
    first = m.conv("x", 32, 32, 1, then="Relu", name="c1")
    ends = []
    for side, step in ((5, 2), (9, 4)):
        around = {"kernel_shape": [side] * 2, "strides": [step] * 2, "pads": [side // 2] * 4}
        pooled = m.add("AveragePool", first, count_include_pad=1, **around)
        ends.append(m.conv(pooled, 32, 16, 1))
    return ends


@BLOCKS.add("lengths", (1, 16, 12, 12), (1, 17, 48))
def _(m: Maker) -> Ends:
    """Norms that something else than a division reads."""
    first = m.conv("x", 16, 16, 1, then="Relu", name="c1")
    last = m.add("Mul", first, m.add("ReduceL2", first, axes=[1], keepdims=1))
    length = m.add("ReduceL2", "x1", axes=[2], keepdims=1)
    return (m.conv(last, 16, 16, 1, name="c2"), m.add("Relu", length))


@BLOCKS.add("unfolded", (1, 48, 16, 16))
def _(m: Maker) -> Ends:
    """MobileViT: pixels of each place in a patch are rows of one of four in a batch."""
    first = m.conv("x", 48, 48, 1, then="Relu", name="c1")
    last = turn(m, shape(m, first, 384, 2, 8, 2), 0, 2, 1, 3)
    last = turn(m, shape(m, last, 1, 48, 64, 4), 0, 3, 2, 1)
    rows = shape(m, last, 4, 64, 48)
    last = m.add("Add", rows, m.add("Relu", m.add("MatMul", rows, m.numbers(48, 48))))
    last = m.add("Add", last, m.add("Relu", m.add("MatMul", last, m.numbers(48, 48))))
    last = turn(m, shape(m, last, 1, 4, 64, 48), 0, 3, 2, 1)
    last = turn(m, shape(m, last, 384, 8, 2, 2), 0, 2, 1, 3)
    return m.conv(shape(m, last, 1, 48, 16, 16), 48, 16, 1, name="c2")


@BLOCKS.add("scaled_images", (1, 3, 48, 48), (1, 6, 32, 32))
def _(m: Maker) -> Ends:
    """An image that something else reads than a convolution is scaled by one."""
    return [m.conv(m.add("Relu", "x"), 3, 16), m.conv(m.add("Relu", "x1"), 6, 16)]
