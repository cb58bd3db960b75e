"""Element by element, reductions and products (src/operator/tensor, elemwise and broadcast)."""

from __future__ import annotations

import math

import numpy as np

from engine.frontends.mxnet.call import Call, Converter, Result, refuse

__all__ = ["ARITHMETIC"]


# ------------------------------------------------------------------------------ one input
def _unary(op: str) -> Converter:
    return lambda call: call.op(op, [call.x()])


def _like(call: Call, value: float) -> str:
    """A scalar of the input's dtype."""
    dtype = call.w.dtype(call.x())
    if dtype.kind in "iu" and value != int(value):
        refuse(f"it combines whole numbers with {value}")
    return call.w.scalar(value, dtype.name)


def _square(call: Call) -> Result:
    return call.op("Mul", [call.x(), call.x()])


def _inverse_root(call: Call) -> Result:
    return call.op("Reciprocal", [call.w.node("Sqrt", [call.x()])])


def _scaled_log(base: float) -> Converter:
    def convert(call: Call) -> Result:
        return call.op("Mul", [call.w.node("Log", [call.x()]), _like(call, 1 / math.log(base))])

    return convert


def _trunc(call: Call) -> Result:
    """Towards zero (``trunc`` and ``fix``)."""
    size = call.w.node("Floor", [call.w.node("Abs", [call.x()])])
    return call.op("Mul", [call.w.node("Sign", [call.x()]), size])


def _round(call: Call) -> Result:
    """Halves away from zero, as C's ``round``; ONNX rounds them to even."""
    half = call.w.node("Add", [call.w.node("Abs", [call.x()]), _like(call, 0.5)])
    return call.op("Mul", [call.w.node("Sign", [call.x()]), call.w.node("Floor", [half])])


def _rint(call: Call) -> Result:
    """Halves towards minus infinity (mshadow_op.h: the floor where both are as near)."""
    half = call.w.node("Sub", [call.x(), _like(call, 0.5)])
    return call.op("Ceil", [half])


def _log1p(call: Call) -> Result:
    return call.op("Log", [call.w.node("Add", [call.x(), _like(call, 1)])])


def _expm1(call: Call) -> Result:
    return call.op("Sub", [call.w.node("Exp", [call.x()]), _like(call, 1)])


def _hard_sigmoid(call: Call) -> Result:
    alpha, beta = call.real("alpha", 0.2), call.real("beta", 0.5)
    return call.op("HardSigmoid", [call.x()], alpha=alpha, beta=beta)


def _smooth_l1(call: Call) -> Result:
    """``(s x)²/2`` below ``1/s²``, ``|x| - 1/(2 s²)`` beyond."""
    w = call.w
    square = call.real("scalar", 1.0) ** 2
    if square == 0:
        refuse("its scalar is 0")
    size = w.node("Abs", [call.x()])
    near = w.node("Mul", [w.node("Mul", [call.x(), call.x()]), w.scalar(0.5 * square)])
    far = w.node("Sub", [size, w.scalar(0.5 / square)])
    return call.op("Where", [w.node("Less", [size, w.scalar(1 / square)]), near, far])


def _clip(call: Call) -> Result:
    low, high = (_like(call, call.real(key, 0.0)) for key in ("a_min", "a_max"))
    return call.op("Clip", [call.x(), low, high])


def _cast(call: Call) -> Result:
    kind = call.text("dtype", "float32")
    numbers = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "float16": 10}
    if kind == "float64":
        refuse("it computes in float64")
    if kind not in numbers:
        refuse(f"its dtype is {kind!r}")
    return call.op("Cast", [call.x()], to=numbers[kind])


def _full(call: Call) -> Result:
    return np.full(_bounded(call.wholes("shape")), call.real("value", 0.0), _dtype(call))


def _bounded(shape: list[int]) -> list[int]:
    if min(shape, default=0) < 0 or math.prod(shape) > 1 << 26:
        refuse(f"it would make an array of the shape {tuple(shape)}")
    return shape


def _filled(value: float) -> Converter:
    def convert(call: Call) -> Result:
        return np.full(_bounded(call.wholes("shape")), value, _dtype(call))

    return convert


def _filled_like(value: float) -> Converter:
    def convert(call: Call) -> Result:
        dtype = call.w.dtype(call.x())
        return np.full(_bounded(list(call.shape())), value, dtype)

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


# ----------------------------------------------------------------------------- two inputs
def _binary(op: str) -> Converter:
    return lambda call: call.op(op, [call.x(0), call.x(1)])


def _as_number(call: Call, op: str, inputs: list[str], *, negate: bool = False) -> Result:
    """A comparison: 1 or 0 in the dtype of its input."""
    result = call.w.node(op, inputs)
    if negate:
        result = call.w.node("Not", [result])
    number = {"float32": 1, "int32": 6, "int64": 7, "uint8": 2, "int8": 3}
    return call.op("Cast", [result], to=number.get(call.w.dtype(inputs[0]).name, 1))


def _compare(op: str, *, negate: bool = False) -> Converter:
    return lambda call: _as_number(call, op, [call.x(0), call.x(1)], negate=negate)


def _compare_scalar(op: str, *, negate: bool = False) -> Converter:
    def convert(call: Call) -> Result:
        inputs = [call.x(), _like(call, call.real("scalar", 0.0))]
        return _as_number(call, op, inputs, negate=negate)

    return convert


def _logical(op: str) -> Converter:
    def convert(call: Call) -> Result:
        truths = [_truth(call, index) for index in range(2)]
        number = call.w.node(op, truths)
        return call.op("Cast", [number], to=1)

    return convert


def _truth(call: Call, index: int) -> str:
    zero = call.w.scalar(0, call.w.dtype(call.x(index)).name)
    return call.w.node("Not", [call.w.node("Equal", [call.x(index), zero])])


def _logical_not(call: Call) -> Result:
    return _as_number(call, "Equal", [call.x(), _like(call, 0)])


def _remainder(call: Call, inputs: list[str]) -> Result:
    """With the sign of the divisor (``mod`` of mshadow_op.h): a - b floor(a / b)."""
    w = call.w
    whole = w.node("Floor", [w.node("Div", inputs)])
    return call.op("Sub", [inputs[0], w.node("Mul", [inputs[1], whole])])


def _mod(call: Call) -> Result:
    return _remainder(call, [call.x(0), call.x(1)])


def _mod_scalar(call: Call) -> Result:
    return _remainder(call, [call.x(), _like(call, call.real("scalar", 1.0))])


def _hypot(call: Call) -> Result:
    squares = [call.w.node("Mul", [x, x]) for x in (call.x(0), call.x(1))]
    return call.op("Sqrt", [call.w.node("Add", squares)])


def _scalar(op: str, *, first: bool = False) -> Converter:
    """With a number; ``first`` where the number is the left operand."""

    def convert(call: Call) -> Result:
        inputs = [call.x(), _like(call, call.real("scalar", 1.0))]
        return call.op(op, inputs[::-1] if first else inputs)

    return convert


def _where(call: Call) -> Result:
    if len(call.shape(0)) != len(call.shape(1)):
        refuse("its condition is a vector over the first axis")
    return call.op("Where", [_truth(call, 0), call.x(1), call.x(2)])


def _sum_of(call: Call) -> Result:
    return call.op("Sum", call.xs())


# ----------------------------------------------------------------------------- reductions
def _axes(call: Call) -> list[int]:
    """The axes of a reduction, counted from the front; all of them where none is given."""
    rank = len(call.shape())
    given = call.wholes("axis")
    if any(not -rank <= axis < rank for axis in given):
        refuse(f"its axis {tuple(given)} does not fit an input of {rank} dimensions")
    axes = sorted({axis % rank for axis in given}) or list(range(rank))
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
def _dot(call: Call) -> Result:
    """The last axis of the one with the first of the other; transposed, all axes are reversed."""
    sides = []
    for index, key in enumerate(("transpose_a", "transpose_b")):
        x = call.x(index)
        if call.flag(key):
            if len(call.shape(index)) != 2:
                refuse("it transposes arrays that are no matrices")
            x = call.w.node("Transpose", [x], perm=(1, 0))
        sides.append(x)
    a, b = (call.w.shape(x) for x in sides)
    if len(b) > 2 or len(a) < 1 or len(b) < 1:
        refuse(f"it multiplies arrays of {len(a)} and {len(b)} dimensions")
    if len(a) == len(b) == 1:
        product = call.w.node("MatMul", sides)
        return call.op("Reshape", [product, call.w.ints(1)])
    return call.op("MatMul", sides)


def _matrices(call: Call) -> list[str]:
    """Both inputs, the last two axes of each transposed where it says so."""
    sides = []
    for index, key in enumerate(("transpose_a", "transpose_b")):
        x, rank = call.x(index), len(call.shape(index))
        if rank < 2:
            refuse("it multiplies vectors")
        if call.flag(key):
            order = [*range(rank - 2), rank - 1, rank - 2]
            x = call.w.node("Transpose", [x], perm=order)
        sides.append(x)
    return sides


def _batch_dot(call: Call) -> Result:
    return call.op("MatMul", _matrices(call))


def _gemm2(call: Call) -> Result:
    """``alpha`` times the product of matrices."""
    if call.whole("axis", -2) != -2:
        refuse("its matrices do not lie in the last two axes")
    alpha = call.real("alpha", 1.0)
    if alpha == 1:
        return call.op("MatMul", _matrices(call))
    product = call.w.node("MatMul", _matrices(call))
    return call.op("Mul", [product, call.w.scalar(alpha)])


def _div_sqrt_dim(call: Call) -> Result:
    return call.op("Div", [call.x(), call.w.scalar(math.sqrt(call.shape()[-1]))])


_UNARY = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softsign": "Softsign",
    "erf": "Erf",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "negative": "Neg",
    "reciprocal": "Reciprocal",
    **{name: name.capitalize() for name in ("sin", "cos", "tan", "sinh", "cosh")},
    **{f"arc{name}": f"A{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
# family -> ONNX operator, and the words for it: element by element, old, broadcast, scalar
_FAMILIES = {
    "Add": ("elemwise_add", "_add", "_plus", "_Plus", "broadcast_add", "broadcast_plus"),
    "Sub": ("elemwise_sub", "_sub", "_minus", "_Minus", "broadcast_sub", "broadcast_minus"),
    "Mul": ("elemwise_mul", "_mul", "_Mul", "broadcast_mul"),
    "Div": ("elemwise_div", "_div", "_Div", "broadcast_div"),
    "Pow": ("_power", "_Power", "broadcast_power"),
    "Max": ("_maximum", "_Maximum", "broadcast_maximum"),
    "Min": ("_minimum", "_Minimum", "broadcast_minimum"),
}
_SCALARS: dict[str, Converter] = {
    **dict.fromkeys(("_plus_scalar", "_PlusScalar"), _scalar("Add")),
    **dict.fromkeys(("_minus_scalar", "_MinusScalar"), _scalar("Sub")),
    **dict.fromkeys(("_rminus_scalar", "_RMinusScalar"), _scalar("Sub", first=True)),
    **dict.fromkeys(("_mul_scalar", "_MulScalar"), _scalar("Mul")),
    **dict.fromkeys(("_div_scalar", "_DivScalar"), _scalar("Div")),
    **dict.fromkeys(("_rdiv_scalar", "_RDivScalar"), _scalar("Div", first=True)),
    **dict.fromkeys(("_power_scalar", "_PowerScalar"), _scalar("Pow")),
    **dict.fromkeys(("_rpower_scalar", "_RPowerScalar"), _scalar("Pow", first=True)),
    **dict.fromkeys(("_maximum_scalar", "_MaximumScalar"), _scalar("Max")),
    **dict.fromkeys(("_minimum_scalar", "_MinimumScalar"), _scalar("Min")),
    "_mod_scalar": _mod_scalar,
}
_COMPARISONS = {
    "equal": ("Equal", False),
    "not_equal": ("Equal", True),
    "greater": ("Greater", False),
    "greater_equal": ("GreaterOrEqual", False),
    "lesser": ("Less", False),
    "lesser_equal": ("LessOrEqual", False),
}

ARITHMETIC: dict[str, Converter] = {
    **{name: _unary(op) for name, op in _UNARY.items()},
    **{name: _binary(op) for op, names in _FAMILIES.items() for name in names},
    **_SCALARS,
    **{
        f"{prefix}{name}": _compare(op, negate=negate)
        for name, (op, negate) in _COMPARISONS.items()
        for prefix in ("broadcast_", "_")
    },
    **{
        f"_{name}_scalar": _compare_scalar(op, negate=negate)
        for name, (op, negate) in _COMPARISONS.items()
    },
    "broadcast_logical_and": _logical("And"),
    "broadcast_logical_or": _logical("Or"),
    "broadcast_logical_xor": _logical("Xor"),
    "logical_not": _logical_not,
    "broadcast_mod": _mod,
    "_mod": _mod,
    "broadcast_hypot": _hypot,
    "_hypot": _hypot,
    "square": _square,
    "rsqrt": _inverse_root,
    "log2": _scaled_log(2),
    "log10": _scaled_log(10),
    "log1p": _log1p,
    "expm1": _expm1,
    "trunc": _trunc,
    "fix": _trunc,
    "round": _round,
    "rint": _rint,
    "hard_sigmoid": _hard_sigmoid,
    "smooth_l1": _smooth_l1,
    "clip": _clip,
    "Cast": _cast,
    "cast": _cast,
    "amp_cast": _cast,
    "_zeros": _filled(0),
    "_ones": _filled(1),
    "_full": _full,
    "zeros_like": _filled_like(0),
    "ones_like": _filled_like(1),
    "_arange": _arange,
    "where": _where,
    "add_n": _sum_of,
    "ElementWiseSum": _sum_of,
    **{
        f"{name}{suffix}": _reduce(op)
        for name, op in (("sum", "ReduceSum"), ("max", "ReduceMax"), ("min", "ReduceMin"))
        for suffix in ("", "_axis")
    },
    "mean": _reduce("ReduceMean"),
    "prod": _reduce("ReduceProd"),
    "norm": _norm,
    "argmax": _arg("ArgMax"),
    "argmin": _arg("ArgMin"),
    "dot": _dot,
    "batch_dot": _batch_dot,
    "_linalg_gemm2": _gemm2,
    "linalg_gemm2": _gemm2,
    "_contrib_div_sqrt_dim": _div_sqrt_dim,
}
