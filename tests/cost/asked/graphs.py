"""The graphs that the vendor's compiler was asked about, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.cost.asked.blocks import BLOCKS
from tests.cost.asked.maker import Ends, Graphs, Maker
from tests.cost.asked.parts import as_rows, attention, recurrent, shape, turn

__all__ = ["GRAPHS", "ZOO_GRAPHS"]

GRAPHS = Graphs(BLOCKS)
"""Name -> what makes it."""

ZOO_GRAPHS = (
    *("acts", "chain36_6", "chain44", "fpn_linear_Relu", "fpn_nearest_Relu", "instnorm", "ln_mm"),
    *("pad6", "pad16", "shareddw", "sharedhead"),
)
"""Files of the model zoo, ``compile/NAME.onnx``."""


# --------------------------------------------------------------------------------- shared weights
@GRAPHS.add("shared_depthwise", (1, 32, 40, 40))
def _(m: Maker) -> Ends:
    weight = m.numbers(32, 1, 3, 3)
    last = "x"
    for _ in range(3):
        last = m.add("Conv", last, weight, kernel_shape=[3, 3], group=32, pads=[1] * 4)
        last = m.add("Relu", last)
    return last


@GRAPHS.add("shared_head", (1, 3, 64, 64))
def _(m: Maker) -> Ends:
    first = m.conv("x", 3, 24, 3, 2, then="Relu")
    levels = [first, m.conv(first, 24, 24, 3, 2, then="Relu")]
    deep, dense, bias = m.numbers(24, 1, 5, 5), m.numbers(18, 24, 1, 1), m.numbers(18)
    ends = []
    for level in levels:
        last = m.add("Conv", level, deep, kernel_shape=[5, 5], group=24, pads=[2] * 4)
        ends.append(m.add("Conv", last, dense, bias, kernel_shape=[1, 1]))
    return ends


# ---------------------------------------------------------------------------------- large kernels
def _large(
    name: str,
    shape: tuple[int, int, int],
    out: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    *,
    valid: bool = True,
    bias: bool = True,
    then: str = "Relu",
) -> None:
    @GRAPHS.add(f"kernel_{name}", (1, *shape))
    def _(m: Maker) -> Ends:
        big = m.conv("x", shape[0], out, kernel, stride, valid=valid, bias=bias, name="big")
        return m.conv(m.add(then, big) if then else big, out, 16, 1, name="last")


_large("32_by_32", (3, 224, 224), 64, 32, 32)
_large("24_by_8", (3, 64, 64), 24, 24, 8, bias=False, then="")
_large("17", (8, 40, 40), 16, 17)
_large("20_by_4", (16, 64, 64), 24, 20, 4)
_large("33_by_2", (16, 80, 80), 32, 33, 2)
_large("17x3", (8, 40, 40), 16, (17, 3), valid=False, then="")
_large("35x3", (8, 80, 80), 16, (35, 3), valid=False)
_large("3x18", (8, 40, 40), 16, (3, 18))
_large("17x3_bare", (8, 40, 40), 16, (17, 3), valid=False, bias=False, then="")


@GRAPHS.add("kernel_depthwise_17", (1, 16, 40, 40))
def _(m: Maker) -> Ends:
    last = m.conv("x", 16, 16, then="Relu")
    return m.conv(last, 16, 16, 17, group=16, then="Relu")


@GRAPHS.add("kernel_depthwise_35", (1, 8, 80, 80))
def _(m: Maker) -> Ends:
    last = m.conv(m.conv("x", 8, 8, then="Relu"), 8, 8, 35, group=8, then="Relu")
    return m.conv(last, 8, 16, 1)


# ----------------------------------------------------------------------------------------- norms
def _instance(name: str, channels: int, rows: int, columns: int, then: str = "Relu") -> None:
    @GRAPHS.add(f"instance_{name}", (1, channels, rows, columns))
    def _(m: Maker) -> Ends:
        first = m.conv("x", channels, channels, name="c1")
        scale, bias = m.numbers(channels), m.numbers(channels)
        last = norm = m.add("InstanceNormalization", first, scale, bias, name="in1")
        if then == "Add":
            last = m.add("Add", norm, first, name="sum")
        elif then == "Swish":
            last = m.add("Mul", norm, m.add("Sigmoid", norm, name="sg"), name="sw")
        elif then:
            last = m.add(then, norm, name="then")
        return m.conv(last, channels, 16, name="c2")


_instance("32x32x32", 32, 32, 32)
_instance("24x20x20", 24, 20, 20)
_instance("8x56x56", 8, 56, 56)
_instance("20x17x17", 20, 17, 17)
_instance("32x24x20", 32, 24, 20)
_instance("32x20x24", 32, 20, 24)
_instance("32x32x18", 32, 32, 18)
_instance("16x18x32", 16, 18, 32)
_instance("48x12x12", 48, 12, 12)
_instance("alone", 32, 24, 24, "")
_instance("swish", 32, 24, 24, "Swish")
_instance("residual", 32, 24, 24, "Add")
_instance("leaky", 32, 24, 24, "LeakyRelu")


@GRAPHS.add("instance_of_one_scale", (1, 32, 24, 24))
def _(m: Maker) -> Ends:
    first = m.conv("x", 32, 32, name="c1")
    half, one = np.full(32, 0.5, np.float32), np.full(32, 1.5, np.float32)
    last = m.add("InstanceNormalization", first, m.constant(one), m.constant(half), name="in1")
    return m.conv(m.add("Relu", last, name="then"), 32, 16, name="c2")


def _group(channels: int, side: int, groups: int, then: str = "Relu") -> None:
    @GRAPHS.add(f"group_{channels}_{side}_{groups}", (1, channels, side, side))
    def _(m: Maker) -> Ends:
        last = m.conv("x", channels, channels, name="c1")
        last = m.add("Reshape", last, m.whole(0, groups, -1), name="rs1")
        ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
        last = m.add(
            "InstanceNormalization", last, m.constant(ones), m.constant(zeros), name="norm"
        )
        last = m.add("Reshape", last, m.whole(1, channels, side, side), name="rs2")
        last = m.add("Mul", last, m.numbers(channels, 1, 1), name="scale")
        last = m.add("Add", last, m.numbers(channels, 1, 1), name="bias")
        last = m.add(then, last, name="then") if then else last
        return m.conv(last, channels, 16, name="c2")


_group(32, 24, 8)
_group(64, 16, 32)
_group(64, 20, 4)
_group(48, 14, 6)
_group(32, 24, 1, "")


# ------------------------------------------------------------------------------------------- pads
def _pad_channels(channels: int, more: int) -> None:
    @GRAPHS.add(f"pad_{channels}_to_{channels + more}", (1, channels, 12, 12))
    def _(m: Maker) -> Ends:
        first = m.conv("x", channels, channels, 1, then="Relu", name="c1")
        wide = m.add("Pad", first, m.whole(0, 0, 0, 0, 0, more, 0, 0), name="pad")
        last = m.add("Add", wide, m.conv(first, channels, channels + more, 1, name="c2"))
        return m.conv(last, channels + more, 16, 1, name="c3")


def _between(
    name: str, change: Callable[[Maker, str], str], channels: int = 16, out: int = 0, side: int = 12
) -> None:
    """A graph of a convolution, what ``change`` makes of its output, and another one."""

    @GRAPHS.add(name, (1, channels, side, side))
    def _(m: Maker) -> Ends:
        last = change(m, m.conv("x", channels, channels, 1, then="Relu", name="c1"))
        return m.conv(last, out or channels, 16, 1, name="c2")


def _padded(*around: int, then: str = "Relu", **attributes: object) -> Callable[[Maker, str], str]:
    def change(m: Maker, data: str) -> str:
        wide = m.add("Pad", data, m.whole(*around), name="pad")
        return m.add(then, wide, name="then", **attributes) if then else wide

    return change


_POOL = {"kernel_shape": [3, 3], "strides": [2, 2]}
_between("pad_before_max_pool", _padded(0, 0, 1, 1, 0, 0, 1, 1, then="MaxPool", **_POOL))
_between("pad_before_average_pool", _padded(0, 0, 1, 1, 0, 0, 1, 1, then="AveragePool", **_POOL))
_between("pad_in_front", _padded(0, 4, 0, 0, 0, 0, 0, 0), out=20)
_between("pad_behind", _padded(0, 0, 0, 0, 0, 4, 0, 0), out=20)
_between("pad_into_weights", _padded(0, 0, 0, 0, 0, 4, 0, 0, then=""), out=20)
for _channels, _more in ((16, 4), (20, 4), (24, 8), (32, 8), (28, 4), (36, 4), (40, 8), (12, 20)):
    _pad_channels(_channels, _more)


# ----------------------------------------------------------------------------- single operators
def _one(op: str, **attributes: object) -> Callable[[Maker, str], str]:
    return lambda m, data: m.add(op, data, name="o", **attributes)


def _two(op: str) -> Callable[[Maker, str], str]:
    def change(m: Maker, data: str) -> str:
        other = m.conv(data, 16, 16, 1, then="Sigmoid", name="other")
        return m.add(op, data, other, name="o")

    return change


def _with(op: str, value: float, *, first: bool = False) -> Callable[[Maker, str], str]:
    def change(m: Maker, data: str) -> str:
        number = m.constant(np.array(value, np.float32))
        return m.add(op, *((number, data) if first else (data, number)), name="o")

    return change


for _op in ("Selu", "Celu", "Sqrt", "Sign", "Shrink", "Abs", "Exp", "Erf", "Round"):
    _between(f"op_{_op}", _one(_op))
for _op in ("Min", "Max", "Mean", "Sum", "Pow", "Sub"):
    _between(f"two_{_op}", _two(_op))
for _op in ("Min", "Max", "Pow", "Sub"):
    for _value in (1.5, 2.0, 3.0) if _op == "Pow" else (1.5,):
        _between(f"with_{_op}_{_value:g}", _with(_op, _value))
_between("one_less", _with("Sub", 1.0, first=True))
_between("neg_inside", lambda m, data: m.add("Sigmoid", m.add("Neg", data, name="o"), name="s"))
for _axis in (1, 2, 3):
    _between(
        f"running_sum_{_axis}",
        lambda m, data, axis=_axis: m.add(  # type: ignore[misc]
            "CumSum", data, m.constant(np.array(axis, np.int64)), name="o"
        ),
        channels=8 if _axis == 3 else 16,
        side=8 if _axis == 3 else 12,
    )


@GRAPHS.add("sum_of_three", (1, 16, 12, 12))
def _(m: Maker) -> Ends:
    first = m.conv("x", 16, 16, 1, then="Relu")
    others = [m.conv(first, 16, 16, 1, then=each) for each in ("Sigmoid", "Tanh")]
    return m.conv(m.add("Sum", first, *others, name="o"), 16, 16, 1)


# ------------------------------------------------------------------------------- moved pixels
def _cut(m: Maker, data: str, starts: tuple[int, ...], axes: tuple[int, ...]) -> str:
    ends, steps = (2**31 - 1,) * len(axes), (2,) * len(axes)
    return m.add("Slice", data, m.whole(*starts), m.whole(*ends), m.whole(*axes), m.whole(*steps))


def _focus(m: Maker, data: str, *, at_once: bool = False) -> str:
    """The first layer of YOLOX and of the first YOLOv5."""
    order = ((0, 0), (1, 0), (0, 1), (1, 1))
    if at_once:
        parts = [_cut(m, data, each, (2, 3)) for each in order]
    else:
        parts = [_cut(m, _cut(m, data, (row,), (2,)), (at,), (3,)) for row, at in order]
    return m.add("Concat", *parts, axis=1, name="joined")


@GRAPHS.add("focus", (1, 3, 64, 64))
def _(m: Maker) -> Ends:
    last = m.conv(_focus(m, "x"), 12, 24, then="Relu", name="c1")
    return m.conv(last, 24, 16, 1, name="c2")


@GRAPHS.add("focus_at_once", (1, 3, 64, 64))
def _(m: Maker) -> Ends:
    return m.conv(_focus(m, "x", at_once=True), 12, 24, then="Relu", name="c1")


_between("focus_inside", _focus, out=64)
_between("every_second_column", lambda m, data: _cut(m, data, (0,), (3,)))


def _deep(block: int, mode: str) -> Callable[[Maker, str], str]:
    def change(m: Maker, data: str) -> str:
        wide = m.conv(data, 16, 8 * block * block, 1, name="wide")
        return m.add("DepthToSpace", wide, blocksize=block, mode=mode, name="o")

    return change


for _block, _mode in ((2, "DCR"), (3, "CRD"), (4, "CRD"), (3, "DCR")):
    _between(f"depth_to_space_{_block}_{_mode}", _deep(_block, _mode), out=8, side=6)


def _transposed(
    kernel: tuple[int, int], stride: tuple[int, int], pads: int = 0
) -> Callable[[Maker, str], str]:
    def change(m: Maker, data: str) -> str:
        weight, bias = m.numbers(16, 24, *kernel), m.numbers(24)
        shape = {"kernel_shape": list(kernel), "strides": list(stride), "pads": [pads] * 4}
        return m.add("ConvTranspose", data, weight, bias, name="up", **shape)

    return change


for _kernel, _stride, _pads in (
    ((3, 3), (3, 3), 0),
    ((3, 3), (3, 3), 1),
    ((5, 5), (3, 3), 0),
    ((3, 3), (1, 3), 0),
    ((6, 6), (6, 6), 0),
    ((4, 4), (4, 4), 0),
    ((3, 1), (2, 1), 0),
    ((3, 1), (1, 1), 0),
):
    _name = f"transposed_{_kernel[0]}x{_kernel[1]}_by_{_stride[0]}x{_stride[1]}_{_pads}"
    _between(_name, _transposed(_kernel, _stride, _pads), out=24)


def _shuffled(m: Maker, data: str) -> str:
    last = turn(m, shape(m, data, 1, 2, 16, 12, 12), 0, 2, 1, 3, 4)
    return m.add("Reshape", last, m.whole(1, 32, 12, 12), name="shuffled")


def _joined(m: Maker, data: str) -> str:
    other = m.conv(data, 16, 16, 1, name="other")
    return _shuffled(m, m.add("Concat", data, other, axis=1, name="joined"))


_between("shuffle_before_1x1", _joined, out=32)
_between("shuffle_before_3x3", lambda m, data: m.conv(_joined(m, data), 32, 24, name="c3"), out=24)
_between(
    "shuffle_of_a_map", lambda m, data: m.conv(_shuffled(m, data), 32, 16), channels=32, out=16
)


# ------------------------------------------------------------------------------------- sequences
def _recurrent(
    m: Maker, op: str, data: str, sizes: tuple[int, int, int], *, ways: int = 1, bias: bool = True
) -> str:
    """LSTM or GRU over (steps, 1, inputs); what comes out has (steps, 1, ways x hidden)."""
    steps, inputs, hidden = sizes
    made = recurrent(m, op, data, inputs, hidden, ways=ways, bias=bias)
    if ways == 1:
        return m.add("Squeeze", made, m.whole(1))
    return shape(m, turn(m, made, 0, 2, 1, 3), steps, 1, ways * hidden)


def _sequence(op: str, *sizes: int, ways: int = 1, bias: bool = True) -> None:
    steps, inputs, hidden = sizes
    text = "_".join(map(str, sizes)) + ("_both" if ways == 2 else "") + ("" if bias else "_bare")

    @GRAPHS.add(f"{op.lower()}_{text}", (steps, 1, inputs), opset=14)
    def _(m: Maker) -> Ends:
        return _recurrent(m, op, "x", (steps, inputs, hidden), ways=ways, bias=bias)


for _op in ("LSTM", "GRU"):
    _sequence(_op, 8, 24, 24)
    _sequence(_op, 8, 20, 12)
    _sequence(_op, 12, 40, 64, ways=2)
_sequence("LSTM", 8, 16, 16, bias=False)


def _rows_of_text(op: str, hidden: int, ways: int) -> None:
    """A recognizer of text: columns of a map are the steps, and a linear layer behind."""

    @GRAPHS.add(f"text_{op.lower()}_{hidden}_{ways}", (1, 1, 16, 64), opset=14)
    def _(m: Maker) -> Ends:
        last = m.conv(m.conv("x", 1, 16, 3, 2, then="Relu"), 16, 32, 3, 2, then="Relu")
        last = m.add("MaxPool", last, kernel_shape=[4, 1], strides=[4, 1])
        last = m.add("Transpose", m.add("Squeeze", last, m.whole(2)), perm=[2, 0, 1])
        last = _recurrent(m, op, last, (16, 32, hidden), ways=ways)
        last = m.add("MatMul", last, m.numbers(ways * hidden, 20))
        return m.add("Add", last, m.numbers(20))


_rows_of_text("GRU", 32, 1)
_rows_of_text("LSTM", 24, 2)


# ----------------------------------------------------------------------------------- joined rows
def _rows_of_levels(boxes: int, then: str = "") -> None:
    """A detector: each level's map to (1, boxes, places), and the places joined."""

    @GRAPHS.add(f"levels_{boxes}{then}", (1, 3, 32, 32))
    def _(m: Maker) -> Ends:
        level, rows = "x", []
        for channels, side in ((3, 16), (16, 8), (16, 4)):
            level = m.conv(level, channels, 16, 3, 2, then="Relu")
            places = m.whole(1, boxes, side * side)
            rows.append(m.add("Reshape", m.conv(level, 16, boxes, 1), places))
        joined = m.add("Concat", *rows, axis=2)
        return m.add(then, joined) if then else joined


_rows_of_levels(10)
_rows_of_levels(16)
_rows_of_levels(6, "Sigmoid")


# ------------------------------------------------------------------------------------- attention
def _attention(rows: int, heads: int, depth: int) -> None:
    """Heads over the columns of a map, as a vision transformer has them, and a linear layer."""
    width = heads * depth

    @GRAPHS.add(f"attention_{rows}_{heads}x{depth}", (1, 3, 4, rows))
    def _(m: Maker) -> Ends:
        last = as_rows(m, m.conv("x", 3, width, (4, 1), valid=True), width, rows)
        return attention(m, last, rows, width, heads)


for _rows, _depth in ((64, 32), (64, 64), (48, 32)):
    _attention(_rows, 2, _depth)


# ------------------------------------------------------------------------------------- constants
@GRAPHS.add("operands", (1, 24, 7, 7))
def _(m: Maker) -> Ends:
    """One number, one a channel and a map, added and multiplied."""
    last = m.conv("x", 24, 24, then="Relu")
    one = m.constant(np.array(1.7, np.float32))
    for op, other in (
        ("Mul", one),
        ("Add", m.numbers(1, 24, 1, 1)),
        ("Mul", m.numbers(1, 24, 7, 7)),
        ("Add", m.numbers(1, 1, 7, 7)),
        ("Mul", m.numbers(1, 24, 1, 1)),
    ):
        last = m.add("Sigmoid", m.add(op, last, other))
    return last


@GRAPHS.add("two_resizes", (1, 16, 8, 8))
def _(m: Maker) -> Ends:
    twice = m.constant(np.array([1, 1, 2, 2], np.float32))
    last = m.conv("x", 16, 16, then="Relu")
    for _ in range(2):
        last = m.conv(m.add("Resize", last, "", twice, mode="nearest"), 16, 16)
    return last
