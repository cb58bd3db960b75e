"""Element by element, reductions and products (src/operator/tensor, elemwise and broadcast)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from engine.frontends.emit import refuse
from engine.frontends.facts import words
from engine.frontends.formula import Formula, apply, clip, exp, floor, sqrt, where
from engine.frontends.mxnet.call import Call, Converter, Result, named, renamed


# --------------------------------------------------------------------------------- formulas
def _formula(of: Callable[..., Formula], inputs: int = 1) -> Converter:
    """A formula of the inputs."""
    return lambda call: of(*call.formulas(inputs)).written(call.out())


def _op(op: str, inputs: int = 1) -> Converter:
    return _formula(partial(apply, op), inputs)


def _with_scalar(of: Callable[[Formula, float], Formula]) -> Converter:
    """A formula of the input and a number."""

    def convert(call: Call) -> Result:
        (x,) = call.formulas(1)
        return of(x, call.real("scalar", 1.0)).written(call.out())

    return convert


def _scalar(op: str, *, first: bool = False) -> Converter:
    """With a number; ``first`` where the number is the left operand."""
    return _with_scalar(lambda x, number: apply(op, *((number, x) if first else (x, number))))


def _remainder(a: Formula, b: Formula | float) -> Formula:
    """With the sign of the divisor (``mod`` of mshadow_op.h)."""
    return a - apply("Mul", b, floor(a / b))


def _trunc(x: Formula) -> Formula:
    """Towards zero (``trunc`` and ``fix``)."""
    return apply("Sign", x) * floor(apply("Abs", x))


def _round(x: Formula) -> Formula:
    """Halves away from zero, as C's ``round``; ONNX rounds them to even."""
    return apply("Sign", x) * floor(apply("Abs", x) + 0.5)


def _rint(x: Formula) -> Formula:
    """Halves towards minus infinity (mshadow_op.h: the floor where both are as near)."""
    return apply("Ceil", x - 0.5)


def _smooth_l1(call: Call) -> Result:
    """``(s x)²/2`` below ``1/s²``, ``|x| - 1/(2 s²)`` beyond."""
    square = call.real("scalar", 1.0) ** 2
    if square == 0:
        refuse("its scalar is 0")
    (x,) = call.formulas(1)
    size = apply("Abs", x)
    near, far = x * x * (0.5 * square), size - 0.5 / square
    return where(apply("Less", size, 1 / square), near, far).written(call.out())


def _clip(call: Call) -> Result:
    (x,) = call.formulas(1)
    return clip(x, call.real("a_min", 0.0), call.real("a_max", 0.0)).written(call.out())


def _div_sqrt_dim(call: Call) -> Result:
    (x,) = call.formulas(1)
    return (x / math.sqrt(call.shape()[-1])).written(call.out())


# --------------------------------------------------------------------------- constants, casts
_ELEMENTS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "float16": 10}
"""ONNX's numbers of MXNet's dtypes."""


def _cast(call: Call) -> Result:
    kind = call.text("dtype", "float32")
    if kind == "float64":
        refuse("it computes in float64")
    if kind not in _ELEMENTS:
        refuse(f"its dtype is {kind!r}")
    return call.op("Cast", [call.x()], to=_ELEMENTS[kind])


def _bounded(shape: list[int]) -> list[int]:
    if min(shape, default=0) < 0 or math.prod(shape) > 1 << 26:
        refuse(f"it would make an array of the shape {tuple(shape)}")
    return shape


def _filled(value: float | None, *, like: bool = False) -> Converter:
    """An array of one value (None for the attribute's), of a given shape or of the input's."""

    def convert(call: Call) -> Result:
        shape = list(call.shape()) if like else call.wholes("shape")
        dtype = call.w.dtype(call.x()) if like else _dtype(call)
        return np.full(_bounded(shape), call.real("value", 0.0) if value is None else value, dtype)

    return convert


def _dtype(call: Call) -> str:
    kind = call.text("dtype", "float32")
    if kind not in ("float32", "int32", "int64", "uint8", "int8"):
        refuse(f"its dtype is {kind!r}")
    return kind


def _arange(call: Call) -> Result:
    start, step = call.real("start", 0.0), call.real("step", 1.0)
    stop, repeat = call.real("stop", start), call.whole("repeat", 1)
    if not call.given("stop"):
        start, stop = 0.0, start
    if step == 0 or repeat < 1 or call.flag("infer_range"):
        refuse("its step, repeat or range is not converted")
    count = max(0, math.ceil((stop - start) / step))
    _bounded([count, repeat])
    return np.repeat(start + step * np.arange(count), repeat).astype(_dtype(call))


# -------------------------------------------------------------------- comparisons and logic
def _as_number(call: Call, op: str, inputs: list[str], *, negate: bool = False) -> Result:
    """A comparison: 1 or 0 in the dtype of its input."""
    result = call.w.node(op, inputs)
    if negate:
        result = call.w.node("Not", [result])
    return call.op("Cast", [result], to=_ELEMENTS.get(call.w.dtype(inputs[0]).name, 1))


def _compare(op: str, *, negate: bool, scalar: bool = False) -> Converter:
    """Of two inputs, or of the input and a number."""

    def convert(call: Call) -> Result:
        other = call.formulas(1)[0].at.scalar(call.real("scalar", 0.0)) if scalar else call.x(1)
        return _as_number(call, op, [call.x(), other], negate=negate)

    return convert


def _logical(op: str) -> Converter:
    def convert(call: Call) -> Result:
        truths = [_truth(call, index) for index in range(2)]
        return call.op("Cast", [call.w.node(op, truths)], to=1)

    return convert


def _truth(call: Call, index: int) -> str:
    zero = call.w.scalar(0, call.w.dtype(call.x(index)).name)
    return call.w.node("Not", [call.w.node("Equal", [call.x(index), zero])])


def _logical_not(call: Call) -> Result:
    return _as_number(call, "Equal", [call.x(), call.formulas(1)[0].at.scalar(0)])


def _where(call: Call) -> Result:
    if len(call.shape(0)) != len(call.shape(1)):
        refuse("its condition is a vector over the first axis")
    return call.op("Where", [_truth(call, 0), call.x(1), call.x(2)])


# ----------------------------------------------------------------------------- reductions
def _axes(call: Call) -> list[int]:
    """The axes of a reduction, counted from the front; all of them where none is given."""
    rank = len(call.shape())
    asked = call.wholes("axis")
    if any(not -rank <= axis < rank for axis in asked):
        refuse(f"its axis {tuple(asked)} does not fit an input of {rank} dimensions")
    axes = sorted({axis % rank for axis in asked}) or list(range(rank))
    if call.flag("exclude"):
        axes = [axis for axis in range(rank) if axis not in axes]
    return axes


def _reduce(op: str) -> Converter:
    def convert(call: Call) -> Result:
        keep = call.flag("keepdims")
        axes = _axes(call)
        if not keep and len(axes) == len(call.shape()):
            # MXNet has no arrays without dimensions: what is left is one of one value
            x = call.w.node(op, [call.x(), call.w.ints(*axes)], keepdims=0)
            return call.op("Reshape", [x, call.w.ints(1)])
        return call.op(op, [call.x(), call.w.ints(*axes)], keepdims=int(keep))

    return convert


def _norm(call: Call) -> Result:
    order = call.whole("ord", 2)
    if order not in (1, 2) or call.given("out_dtype"):
        refuse(f"its order is {order}, or it gives another dtype")
    return _reduce("ReduceL1" if order == 1 else "ReduceL2")(call)


def _arg(op: str) -> Converter:
    def convert(call: Call) -> Result:
        x, keep = call.x(), call.flag("keepdims")
        if not call.given("axis"):
            x, axis, keep = call.w.node("Reshape", [x, call.w.ints(-1)]), 0, True
        else:
            axis = call.axis("axis", 0, len(call.shape()))
        place = call.w.node(op, [x], axis=axis, keepdims=int(keep))
        if not call.w.shape(place):
            place = call.w.node("Reshape", [place, call.w.ints(1)])
        return call.op("Cast", [place], to=1)

    return convert


# ------------------------------------------------------------------------------- products
def _sides(call: Call) -> list[str]:
    """Both inputs, the last two axes of each transposed where it says so."""
    sides = []
    for index, key in enumerate(("transpose_a", "transpose_b")):
        x, rank = call.x(index), len(call.shape(index))
        if call.flag(key):
            if rank < 2:
                refuse("it transposes arrays that are no matrices")
            x = call.w.node("Transpose", [x], perm=[*range(rank - 2), rank - 1, rank - 2])
        sides.append(x)
    return sides


def _dot(call: Call) -> Result:
    """The last axis of the one with the first of the other; transposed, all axes are reversed."""
    for index, key in enumerate(("transpose_a", "transpose_b")):
        if call.flag(key) and len(call.shape(index)) != 2:
            refuse("it transposes arrays that are no matrices")
    sides = _sides(call)
    a, b = (call.w.shape(x) for x in sides)
    if len(b) > 2 or len(a) < 1 or len(b) < 1:
        refuse(f"it multiplies arrays of {len(a)} and {len(b)} dimensions")
    if len(a) == len(b) == 1:
        return call.op("Reshape", [call.w.node("MatMul", sides), call.w.ints(1)])
    return call.op("MatMul", sides)


def _matrices(call: Call) -> list[str]:
    if min(len(call.shape(0)), len(call.shape(1))) < 2:
        refuse("it multiplies vectors")
    return _sides(call)


def _gemm2(call: Call) -> Result:
    """``alpha`` times the product of matrices."""
    if call.whole("axis", -2) != -2:
        refuse("its matrices do not lie in the last two axes")
    alpha = call.real("alpha", 1.0)
    if alpha == 1:
        return call.op("MatMul", _matrices(call))
    return call.op("Mul", [call.w.node("MatMul", _matrices(call)), call.w.scalar(alpha)])


# operators of ONNX that MXNet calls the same, in small letters; arcsin and its like are Asin
_SAME = words(
    "relu sigmoid tanh softsign erf exp log sqrt abs sign floor ceil reciprocal "
    "sin cos tan sinh cosh"
)
_ARCS = words("sin cos tan sinh cosh tanh")
_COMPARISONS = {
    "equal": ("Equal", False),
    "not_equal": ("Equal", True),
    "greater": ("Greater", False),
    "greater_equal": ("GreaterOrEqual", False),
    "lesser": ("Less", False),
    "lesser_equal": ("LessOrEqual", False),
}

ARITHMETIC = named(
    {
        **{name: _op(name.capitalize()) for name in sorted(_SAME)},
        **{f"arc{name}": _op(f"A{name}") for name in sorted(_ARCS)},
        "negative": _op("Neg"),
        "elemwise_add _add _plus _Plus broadcast_add broadcast_plus": _op("Add", 2),
        "elemwise_sub _sub _minus _Minus broadcast_sub broadcast_minus": _op("Sub", 2),
        "elemwise_mul _mul _Mul broadcast_mul": _op("Mul", 2),
        "elemwise_div _div _Div broadcast_div": _op("Div", 2),
        "_power _Power broadcast_power": _op("Pow", 2),
        "_maximum _Maximum broadcast_maximum": _op("Max", 2),
        "_minimum _Minimum broadcast_minimum": _op("Min", 2),
        "broadcast_mod _mod": _formula(_remainder, 2),
        "broadcast_hypot _hypot": _formula(lambda x, y: sqrt(x * x + y * y), 2),
        "_plus_scalar _PlusScalar": _scalar("Add"),
        "_minus_scalar _MinusScalar": _scalar("Sub"),
        "_rminus_scalar _RMinusScalar": _scalar("Sub", first=True),
        "_mul_scalar _MulScalar": _scalar("Mul"),
        "_div_scalar _DivScalar": _scalar("Div"),
        "_rdiv_scalar _RDivScalar": _scalar("Div", first=True),
        "_power_scalar _PowerScalar": _scalar("Pow"),
        "_rpower_scalar _RPowerScalar": _scalar("Pow", first=True),
        "_maximum_scalar _MaximumScalar": _scalar("Max"),
        "_minimum_scalar _MinimumScalar": _scalar("Min"),
        "_mod_scalar": _with_scalar(_remainder),
        "square": _formula(lambda x: x * x),
        "rsqrt": _formula(lambda x: apply("Reciprocal", sqrt(x))),
        "log2": _formula(lambda x: apply("Log", x) * (1 / math.log(2))),
        "log10": _formula(lambda x: apply("Log", x) * (1 / math.log(10))),
        "log1p": _formula(lambda x: apply("Log", x + 1)),
        "expm1": _formula(lambda x: exp(x) - 1),
        "trunc fix": _formula(_trunc),
        "round": _formula(_round),
        "rint": _formula(_rint),
        "hard_sigmoid": renamed("HardSigmoid", alpha=("alpha", 0.2), beta=("beta", 0.5)),
        "smooth_l1": _smooth_l1,
        "clip": _clip,
        "_contrib_div_sqrt_dim": _div_sqrt_dim,
        **{
            f"broadcast_{name} _{name}": _compare(op, negate=negate)
            for name, (op, negate) in _COMPARISONS.items()
        },
        **{
            f"_{name}_scalar": _compare(op, negate=negate, scalar=True)
            for name, (op, negate) in _COMPARISONS.items()
        },
        "broadcast_logical_and": _logical("And"),
        "broadcast_logical_or": _logical("Or"),
        "broadcast_logical_xor": _logical("Xor"),
        "logical_not": _logical_not,
        "Cast cast amp_cast": _cast,
        "_zeros": _filled(0),
        "_ones": _filled(1),
        "_full": _filled(None),
        "zeros_like": _filled(0, like=True),
        "ones_like": _filled(1, like=True),
        "_arange": _arange,
        "where": _where,
        "add_n ElementWiseSum": renamed("Sum", None),
        "sum sum_axis": _reduce("ReduceSum"),
        "max max_axis": _reduce("ReduceMax"),
        "min min_axis": _reduce("ReduceMin"),
        "mean": _reduce("ReduceMean"),
        "prod": _reduce("ReduceProd"),
        "norm": _norm,
        "argmax": _arg("ArgMax"),
        "argmin": _arg("ArgMin"),
        "dot": _dot,
        "batch_dot": lambda call: call.op("MatMul", _matrices(call)),
        "_linalg_gemm2 linalg_gemm2": _gemm2,
    }
)
