"""Layers that compute value by value, and Softmax.

Functions that TFLite has no operator for are formulas in float32 by operators that it has; on 8
bits those of one value are tables instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from engine.export.tflite.emitter import (
    LAST,
    PLAIN,
    Constant,
    Emitter,
    Form,
    Operand,
    channels_last,
    refused,
)
from engine.export.tflite.layer import Layer, evaluated
from engine.export.tflite.writer import Option, Quant

_SELU = (1.6732632423543772, 1.0507009873554805)
"""Alpha and gamma, where a node does not give them (ONNX, Selu)."""


class Formula:
    """Operators in a row, each of which writes a float32 tensor of its own."""

    def __init__(self, emitter: Emitter, label: str) -> None:
        self.emitter = emitter
        self.label = label

    def number(self, *values: float) -> int:
        """A constant; one number, or a row of them."""
        return self.emitter.constant("number", np.array(values, np.float32))

    def __call__(self, kind: str, *inputs: int) -> int:
        """An operator on values that are broadcast."""
        shape = np.broadcast_shapes(*map(self.emitter.shape, inputs))
        return self.emitter.compute(kind, inputs, self._name(kind), shape)

    def over(self, kind: str, source: int, axes: Sequence[int], *, keep: bool = True) -> int:
        """A reduction over axes; they stay with size 1 where ``keep``."""
        before = self.emitter.shape(source)
        gone = {axis % len(before) for axis in axes}
        shape = [1 if at in gone else size for at, size in enumerate(before)]
        if not keep:
            shape = [size for at, size in enumerate(before) if at not in gone]
        where = self.emitter.ints("axes", sorted(gone))
        return self.emitter.compute(kind, [source, where], self._name(kind), shape, keep_dims=keep)

    def _name(self, kind: str) -> str:
        return f"{self.label}/{kind.lower()}"


def formula_of(layer: Layer, emitter: Emitter) -> Formula:
    """What a layer is computed with in float32."""
    return Formula(emitter, layer.target.value.name or layer.node.op_type)


def _by_formula(layer: Layer, emitter: Emitter, form: Form) -> None:
    """A function of one value that is in :data:`FORMULAS`, in float32."""
    formula, source = formula_of(layer, emitter), emitter.as_float(layer.data, form)
    result = FORMULAS[layer.node.op_type](layer, formula, source)
    emitter.finish(layer.target, form, result)


def _reciprocal(layer: Layer, f: Formula, x: int) -> int:
    return f("DIV", f.number(1.0), x)


def _hard_sigmoid(layer: Layer, f: Formula, x: int) -> int:
    alpha, beta = layer.attribute("alpha", 0.2), layer.attribute("beta", 0.5)
    line = f("ADD", f("MUL", x, f.number(alpha)), f.number(beta))
    return f("MAXIMUM", f("MINIMUM", line, f.number(1.0)), f.number(0.0))


def _softplus(layer: Layer, f: Formula, x: int) -> int:
    """``max(x, 0) + log(1 + exp(-|x|))``, which does not overflow."""
    small = f("EXP", f("NEG", f("ABS", x)))
    return f("ADD", f("RELU", x), f("LOG", f("ADD", small, f.number(1.0))))


def _mish(layer: Layer, f: Formula, x: int) -> int:
    return f("MUL", x, f("TANH", _softplus(layer, f, x)))


def _softsign(layer: Layer, f: Formula, x: int) -> int:
    return f("DIV", x, f("ADD", f("ABS", x), f.number(1.0)))


def _below_zero(f: Formula, x: int, alpha: float, scale: float = 1.0) -> int:
    """``alpha (exp(min(x, 0) / scale) - 1)``."""
    low = f("MINIMUM", x, f.number(0.0))
    if scale != 1.0:
        low = f("DIV", low, f.number(scale))
    return f("MUL", f("SUB", f("EXP", low), f.number(1.0)), f.number(alpha))


def _elu(layer: Layer, f: Formula, x: int) -> int:
    return f("ADD", f("RELU", x), _below_zero(f, x, layer.attribute("alpha", 1.0)))


def _celu(layer: Layer, f: Formula, x: int) -> int:
    alpha = layer.attribute("alpha", 1.0)
    return f("ADD", f("RELU", x), _below_zero(f, x, alpha, alpha))


def _selu(layer: Layer, f: Formula, x: int) -> int:
    alpha, gamma = layer.attribute("alpha", _SELU[0]), layer.attribute("gamma", _SELU[1])
    return f("MUL", f("ADD", f("RELU", x), _below_zero(f, x, alpha)), f.number(gamma))


def _swish(layer: Layer, f: Formula, x: int) -> int:
    alpha = layer.attribute("alpha", 1.0)
    inner = x if alpha == 1.0 else f("MUL", x, f.number(alpha))
    return f("MUL", x, f("LOGISTIC", inner))


def _atan(layer: Layer, f: Formula, x: int) -> int:
    one = f.number(1.0)  # in the shape of x: ATAN2 does not broadcast
    return f("ATAN2", x, f("MINIMUM", f("MAXIMUM", x, one), one))


FORMULAS: Mapping[str, Callable[[Layer, Formula, int], int]] = {
    "Atan": _atan,
    "Celu": _celu,
    "Elu": _elu,
    "HardSigmoid": _hard_sigmoid,
    "Mish": _mish,
    "Reciprocal": _reciprocal,
    "Selu": _selu,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Swish": _swish,
}
"""Operator -> its formula."""


BINARY = {
    "Add": "ADD",
    "Sub": "SUB",
    "Mul": "MUL",
    "Div": "DIV",
    "Max": "MAXIMUM",
    "Min": "MINIMUM",
    "Pow": "POW",
    "Mod": "FLOOR_MOD",
    "Sum": "ADD",
    "Mean": "ADD",
}
"""Operator -> its name in TFLite."""

_FLOAT_ONLY = frozenset({"Div", "Pow", "Mod", "Sum", "Mean"})
"""TFLite has them with floats: they are computed between DEQUANTIZE and QUANTIZE."""

UNARY = {
    "Relu": "RELU",
    "LeakyRelu": "LEAKY_RELU",
    "Sigmoid": "LOGISTIC",
    "Tanh": "TANH",
    "HardSwish": "HARD_SWISH",
    "Elu": "ELU",
    "Exp": "EXP",
    "Log": "LOG",
    "Sqrt": "SQRT",
    "Abs": "ABS",
    "Neg": "NEG",
    "Sin": "SIN",
    "Cos": "COS",
    "Floor": "FLOOR",
    "Ceil": "CEIL",
    "Gelu": "GELU",
    "Round": "ROUND",
    "Sign": "SIGN",
}
"""Functions of one value that TFLite has."""

TABLED = frozenset(
    {*UNARY, *FORMULAS, "Clip", "Erf", "ThresholdedRelu"}
    | {"Acos", "Acosh", "Asin", "Asinh", "Atanh", "Cosh", "Sinh", "Tan"}
)
"""Functions of one value: on 8 bits each is a table of 256 entries at most."""

_IN_INT8 = frozenset({"Relu", "Sigmoid", "Tanh"})
"""Those whose rounding on 8 bits is that of the graph; of LEAKY_RELU it is up to 2 steps off, and
behind fifty of them the outputs of a detector were 20 steps off.
"""

_SOFTMAX = Quant((1 / 256,), (-128,))
_FIXED = {"Sigmoid": _SOFTMAX, "Tanh": Quant((1 / 128,), (0,))}
"""Parameters of outputs that TFLite prescribes."""

_MAX_TABLES = 1 << 13
"""Tables of 256 bytes of one layer: one for each channel, or for each value of a small picture."""


def unary(layer: Layer, emitter: Emitter) -> None:
    """A function of one value: TFLite's own, or on 8 bits a table (GATHER) that is exact."""
    kind = layer.node.op_type
    form = emitter.form_of([layer.data])
    name = UNARY.get(kind)
    if layer.quantized and (
        kind not in _IN_INT8 or (kind in _FIXED and layer.target.quant != _FIXED[kind])
    ):
        by_tables(layer, emitter, form, (1,), lambda _, x: _compute(layer, x))
        return
    if kind == "Clip" and not layer.quantized:
        _clip(layer, emitter, form)
        return
    if kind in FORMULAS and not (kind == "Elu" and layer.attribute("alpha", 1.0) == 1.0):
        _by_formula(layer, emitter, form)
        return
    if name is None:
        raise refused(layer.node, "TFLite does not have it with floats")
    options: dict[str, Option] = {}
    if kind == "LeakyRelu":
        options = {"alpha": float(layer.attribute("alpha", 0.01))}
    elif kind == "Gelu":
        options = {"approximate": layer.attribute("approximate") == "tanh"}
    emitter.write(layer.target, form, name, [layer.read(emitter, form)], None, **options)


def _clip(layer: Layer, emitter: Emitter, form: Form) -> None:
    source = emitter.as_float(layer.data, form)
    kind = emitter.kind(source)
    bounds = [layer.constant(1), layer.constant(2)]
    for bound, name in zip(bounds, ("MAXIMUM", "MINIMUM"), strict=True):
        if bound is None:
            continue
        other = emitter.constant("bound", bound.as_kind(kind).reshape(1))
        label = f"{layer.target.value.name}/{name.lower()}"
        source = emitter.compute(name, [source, other], label, kind=kind)
    emitter.settle(layer.target, form, source)


def _compute(layer: Layer, real: np.ndarray) -> np.ndarray:
    """The node's function of some values, by onnx's reference evaluator."""
    constants = [layer.constant(at) for at in range(1, len(layer.inputs))]
    bounds = [c.of_stored(layer.data.quant).real().reshape(()) for c in constants if c is not None]
    with np.errstate(all="ignore"):
        return np.asarray(evaluated(layer.node, [real, *bounds])[0], np.float32)


# --------------------------------------------------------------------------------------- two inputs


def binary(layer: Layer, emitter: Emitter) -> None:
    """Add, Sub, Mul, Div, Max, Min, Pow, Mod, of inputs that are broadcast.

    Of more than two inputs all but the last are computed in float32.
    """
    kind = BINARY[layer.node.op_type]
    form = same_form(layer, emitter)
    type_ = layer.target.computed_kind
    integers = layer.quantized and layer.node.op_type not in _FLOAT_ONLY and len(layer.inputs) == 2
    sources = [
        input_tensor(operand, layer, emitter, form, integers=integers, kind=type_)
        for operand in layer.inputs
    ]
    options: dict[str, Option] = {}
    if kind in ("ADD", "SUB", "MUL", "DIV"):
        options["activation"] = layer.activation
    if kind == "FLOOR_MOD" and layer.attribute("fmod", 0):
        raise refused(layer.node, "TFLite's remainder has the sign of the divisor")
    if integers:
        if kind in ("MAXIMUM", "MINIMUM"):
            sources = [emitter.in_params(operand, layer.target.quant) for operand in sources]
        emitter.write(layer.target, form, kind, sources, None, **options)
        return
    narrow = kind == "DIV" and type_ == "int64"
    if narrow:
        sources = [emitter.cast(operand, "int32") for operand in sources]
        type_ = "int32"
    result = sources[0]
    for other in sources[1:]:
        shape = np.broadcast_shapes(emitter.shape(result), emitter.shape(other))
        label = f"{layer.target.value.name}/{type_}"
        result = emitter.compute(kind, [result, other], label, shape, type_, **options)
    if layer.node.op_type == "Mean":
        share = emitter.constant("share", np.array([1 / len(sources)], np.float32))
        result = emitter.compute("MUL", [result, share], "mean")
    emitter.finish(layer.target, form, emitter.cast(result, "int64") if narrow else result)


def same_form(layer: Layer, emitter: Emitter) -> Form:
    """The form for inputs that are broadcast: what has fewer dimensions is as ONNX has it."""
    computed = [source for source in layer.inputs if isinstance(source, Operand)]
    rank = len(layer.target.shape)
    alike = all(len(operand.shape) == rank for operand in computed)
    return emitter.form_of(computed) if alike else PLAIN


def input_tensor(
    given: Operand | Constant | None,
    layer: Layer,
    emitter: Emitter,
    form: Form,
    *,
    integers: bool,
    kind: str = "float32",
) -> int:
    """The tensor of an input, in a form; a constant is written, on 8 bits where ``integers``.

    Args:
        kind: what the layer computes in where that is not real numbers.

    Raises:
        UnsupportedOperatorError: the input is left out.
    """
    if isinstance(given, Operand):
        return emitter.read(given, form) if integers else emitter.as_float(given, form)
    if given is None:
        raise refused(layer.node, "an input is left out")
    array, quant = given.array, given.quant
    if kind != "float32":
        array, quant = given.as_kind(kind), None
    elif integers and (quant is None or array.dtype != np.int8 or len(quant.scale) > 1):
        array, quant = _as_int8(given.real())
    elif not integers:
        array, quant = given.real(), None
    return emitter.constant(f"{layer.node.name}/constant", _ordered(array, layer, form), quant)


def moved_input(
    operand: Operand | Constant | None, layer: Layer, emitter: Emitter, form: Form
) -> int:
    """The tensor of an input that is moved; a constant is in the parameters of the output."""
    out = layer.target.quant if layer.quantized else None
    if out is not None and isinstance(operand, Constant):
        operand = operand.of_stored(out).in_params(out)
    kind = layer.target.computed_kind
    return input_tensor(operand, layer, emitter, form, integers=layer.quantized, kind=kind)


def _as_int8(real: np.ndarray) -> tuple[np.ndarray, Quant]:
    """A constant on 8 bits, its range with zero in it."""
    low, high = min(float(real.min()), 0.0), max(float(real.max()), 0.0)
    scale = (high - low) / 255 or 1.0
    zero = int(np.clip(np.rint(-128 - low / scale), -128, 127))
    quant = Quant((float(np.float32(scale)),), (zero,))
    return quant.stored(real), quant


def _ordered(array: np.ndarray, layer: Layer, form: Form) -> np.ndarray:
    """A constant in the order of its layer: what has fewer dimensions is broadcast."""
    if form is PLAIN or array.size == 1:
        return array
    return np.ascontiguousarray(spread(array, len(layer.target.shape), form))


def spread(array: np.ndarray, rank: int, form: Form) -> np.ndarray:
    """An array of ONNX's order that is broadcast over a tensor of a rank, in a form."""
    whole = array.reshape((1,) * (rank - array.ndim) + array.shape)
    return whole.transpose(channels_last(rank)) if form is LAST else whole


def prelu(layer: Layer, emitter: Emitter) -> None:
    """PRelu with a constant slope; on 8 bits a table for each slope, which is exact."""
    form = emitter.form_of([layer.data])
    whole = spread(layer.required(1, "it has no slope").real(), len(layer.data.shape), form)
    slopes = whole.reshape(-1)
    if by_tables(
        layer, emitter, form, whole.shape, lambda at, x: np.where(x < 0, x * slopes[at], x)
    ):
        return
    alpha = emitter.constant(f"{layer.node.name}/slope", np.ascontiguousarray(whole[0]))
    source = emitter.as_float(layer.data, form)
    label = f"{layer.target.value.name}/float"
    emitter.finish(layer.target, form, emitter.compute("PRELU", [source, alpha], label))


def by_tables(
    layer: Layer,
    emitter: Emitter,
    form: Form,
    shape: tuple[int, ...],
    compute: Callable[[int, np.ndarray], np.ndarray],
) -> bool:
    """Functions of one value that differ along some axes, by tables; whether it was done.

    A GATHER looks every value up in the outputs of all 256 stored ones.

    Args:
        shape: of the tables: which one holds where, broadcast over the input.
        compute: real values of a function, by its number.
    """
    quant, out = layer.data.quant, layer.target.quant
    count = int(np.prod(shape))
    if quant is None or out is None or count > _MAX_TABLES:
        return False
    steps = (np.arange(-128, 128) - quant.zero_point[0]).astype(np.float32)
    values: np.ndarray = steps * np.float32(quant.scale[0])
    entries = np.concatenate([out.stored(compute(at, values)) for at in range(count)])
    name = layer.target.value.name or "tensor"
    whole = emitter.cast(emitter.read(layer.data, form), "int32")
    offsets = 128 + 256 * np.arange(count, dtype=np.int32).reshape(shape)
    places = [whole, emitter.ints("offsets", offsets)]
    index = emitter.compute("ADD", places, f"{name}/index", kind="int32")
    table = emitter.constant(f"{name}/table", entries, out)
    emitter.write(layer.target, form, "GATHER", [table, index])
    return True


def softmax(layer: Layer, emitter: Emitter) -> None:
    """Softmax and LogSoftmax along any axis; TFLite's are along the last."""
    rank = len(layer.data.shape)
    axis = int(layer.attribute("axis", -1)) % rank
    form = LAST if rank > 2 and axis == 1 else PLAIN
    logarithm = layer.node.op_type == "LogSoftmax"
    integers = layer.quantized and not logarithm
    source = emitter.read(layer.data, form) if integers else emitter.as_float(layer.data, form)
    kind = "LOG_SOFTMAX" if logarithm else "SOFTMAX"
    options: dict[str, Option] = {} if logarithm else {"beta": 1.0}
    turned = axis not in (1 if form is LAST else rank - 1, rank - 1)
    if turned:
        perm = [*(at for at in range(rank) if at != axis), axis]
        source = emitter.transpose(source, perm, f"{layer.node.name}/turned")
    if integers and not turned:
        emitter.write(layer.target, form, kind, [source], _SOFTMAX, **options)
        return
    label = f"{layer.target.value.name}/softmax"
    if integers:
        result = emitter.tensor(label, emitter.shape(source), "int8", _SOFTMAX)
        emitter.emit(kind, [source], [result], **options)
    else:
        result = emitter.compute(kind, [source], label, None, "float32", **options)
    if turned:
        back = [perm.index(at) for at in range(rank)]
        result = emitter.transpose(result, back, f"{label}/back")
    emitter.finish(layer.target, form, result)
