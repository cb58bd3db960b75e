"""Operators on single elements: arithmetic, comparison, activations, casts, quantization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from engine.base.findings import Finding
from engine.frontends.emit import element_type
from engine.frontends.facts import words
from engine.frontends.formula import Formula, apply, floor, sqrt, where
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.tensors import FIRST, LAST, Value, to_first


def operands(layer: Layer, *indices: int) -> tuple[list[str], list[int], str]:
    """Inputs that broadcast against each other: tensors, the common shape, the layout.

    Channels first where all computed ones have that form and the rest can be brought to it.
    """
    values = [layer.input(index) for index in indices]
    shape = list(np.broadcast_shapes(*(value.shape for value in values)))
    layout = FIRST if _channels_first(values, len(shape)) else LAST
    return [_operand(layer, value, len(shape), layout) for value in values], shape, layout


def _channels_first(values: Sequence[Value], rank: int) -> bool:
    computed = [value for value in values if value.array is None and value.count != 1]
    return (
        rank >= 3
        and bool(computed)
        and all(value.rank == rank and FIRST in value.forms for value in computed)
    )


def _operand(layer: Layer, value: Value, rank: int, layout: str) -> str:
    tensors = layer.tensors
    if layout == LAST or value.rank == rank:
        return tensors.real(value, layout)
    if value.array is None or value.count == 1:
        return tensors.real(value, LAST)  # a single number fits anywhere
    padded = value.array.reshape([1] * (rank - value.rank) + list(value.shape))
    axis = -1
    if value.quant is not None and value.quant.axis >= 0:
        axis = to_first(rank).index(value.quant.axis + rank - value.rank)
    return tensors.real(value.rearranged(padded.transpose(to_first(rank)), axis))


def _unary(op: str, **attributes: Any) -> Handler:
    return lambda layer: layer.each(op, **attributes)


def _clamp(low: float, high: float) -> Handler:
    return lambda layer: layer.each("Clip", layer.emit.scalar(low), layer.emit.scalar(high))


def _leaky_relu(layer: Layer) -> None:
    layer.each("LeakyRelu", alpha=layer.float_option("alpha"))


def _gelu(layer: Layer) -> None:
    layer.each("Gelu", approximate="tanh" if layer.int_option("approximate") else "none")


def _prelu(layer: Layer) -> None:
    inputs, shape, layout = operands(layer, 0, 1)
    if list(layer.input(0).shape) != shape:
        raise ValueError("its slopes have more elements than its input")
    layer.result("PRelu", inputs, shape, layout=layout)


def _softmax(op: str) -> Handler:
    """Along the last axis, with the factor beta of SOFTMAX."""

    def handler(layer: Layer) -> None:
        layout = layer.layout(0)
        x, shape = layer.real(0, layout), layer.input(0).shape
        beta = layer.float_option("beta") if "beta" in layer.operator.options else 1.0
        if beta != 1.0:
            x = layer.node("Mul", [x, layer.emit.scalar(beta)])
        layer.result(op, [x], shape, layout=layout, axis=1 if layout == FIRST else -1)

    return handler


def _l2_normalization(layer: Layer) -> None:
    """X over its length along the last axis, which is at least 1e-6 (l2normalization.h)."""
    x, layout = layer.formula(0)
    length = apply("Max", x.reduced("ReduceL2", 1 if layout == FIRST else -1), 1e-6)
    layer.give(x / length, layer.input(0).shape, layout, layer.activation)


def _formula(of: Callable[[Formula], Formula]) -> Handler:
    """A formula of the first input."""

    def handler(layer: Layer) -> None:
        x, layout = layer.formula(0)
        layer.give(of(x), layer.input(0).shape, layout)

    return handler


def _formula_of_two(of: Callable[[Formula, Formula], Formula]) -> Handler:
    """A formula of two inputs that broadcast."""

    def handler(layer: Layer) -> None:
        inputs, shape, layout = operands(layer, 0, 1)
        x, y = map(layer.emit.formula, inputs)
        layer.give(of(x, y), shape, layout, layer.activation)

    return handler


def _binary(op: str) -> Handler:
    return _formula_of_two(partial(apply, op))


def _squared_difference(x: Formula, y: Formula) -> Formula:
    difference = x - y
    return difference * difference


def _add_n(layer: Layer) -> None:
    inputs, shape, layout = operands(layer, *range(len(layer.inputs)))
    result = inputs[0]
    for other in inputs[1:-1]:
        result = layer.node("Add", [result, other])
    if len(inputs) == 1:
        layer.same(0, layer.input(0))
        return
    layer.result("Add", [result, inputs[-1]], shape, layout=layout)


def _remainder(x: Formula, y: Formula) -> Formula:
    """The remainder of floats with the sign of the divisor."""
    rest = apply("Mod", x, y, fmod=1)
    nonzero = apply("Not", apply("Equal", rest, 0.0))
    apart = apply("Xor", apply("Less", rest, 0.0), apply("Less", y, 0.0))
    return where(apply("And", nonzero, apart), rest + y, rest)


def _by_kind(
    floats: Callable[[Formula, Formula], Formula], integers: Callable[[Formula, Formula], Formula]
) -> Handler:
    """A formula of two inputs for floats, and one for integers."""

    def handler(layer: Layer) -> None:
        _formula_of_two(floats if layer.input(0).dtype == "float32" else integers)(layer)

    return handler


def _select(layer: Layer) -> None:
    """SELECT and SELECT_V2; the old one takes a condition per entry of the first axis."""
    condition, x = layer.input(0), layer.input(1)
    rowwise = (
        layer.operator.type == "SELECT"
        and condition.rank == 1
        and x.rank > 1
        and condition.shape != (1,)
    )
    if rowwise:
        rows = layer.part(condition, [condition.shape[0], *[1] * (x.rank - 1)])
        inputs = [layer.tensors.stored(rows), layer.real(1), layer.real(2)]
        layer.result("Where", inputs, x.shape)
        return
    inputs, shape, layout = operands(layer, 0, 1, 2)
    layer.result("Where", inputs, shape, layout=layout)


def _atan2(y: Formula, x: Formula) -> Formula:
    """The angle of (x, y) in all four quadrants, from ONNX's Atan."""
    angle = apply("Atan", y / x)
    turned = where(apply("Less", y, 0.0), angle - np.pi, angle + np.pi)
    half = apply("Sign", y) * (np.pi / 2)
    return where(apply("Equal", x, 0.0), half, where(apply("Less", x, 0.0), turned, angle))


def _cast(layer: Layer) -> None:
    """CAST: numbers as they are stored, also those of quantized tensors (cast.cc)."""
    layout = layer.layout(0)
    stored = layer.stored(0, layout)
    value = layer.output(0, layer.input(0).shape)
    name = layer.tensors.name_for(value, layout)
    value.forms[layout] = layer.node("Cast", [stored], name, to=element_type(value.dtype))


def _quantize(layer: Layer) -> None:
    """QUANTIZE: real numbers, or integers of other parameters, to integers."""
    layout = layer.layout(0)
    x = layer.real(0, layout)
    value = layer.output(0, layer.input(0).shape)
    if value.quant is None:
        raise ValueError("its output has no scale")
    layer.quantized(value, x, layout)


def _dequantize(layer: Layer) -> None:
    """DEQUANTIZE: of weights of 16-bit floats a constant, else the real numbers."""
    x = layer.input(0)
    if x.array is not None and x.quant is None:
        layer.constant(0, x.array.astype(np.float32))
        return
    if x.quant is None and x.dtype != "float16":
        raise ValueError("its input has no scale")
    layout = layer.layout(0)
    value = layer.output(0, x.shape)
    if x.quant is None:
        kind = element_type("float32")
        layer.write(value, "Cast", [layer.stored(0, layout)], layout, to=kind)
        return
    # with the name that the source gives to the real numbers
    layer.dequantized(value, x, layout)


def _fake_quant(layer: Layer) -> None:
    """FAKE_QUANT: the nudged range as Q/DQ (fake_quant.cc, ``NudgeQuantizationRange``)."""
    bits = layer.int_option("bits")
    low, high = layer.float_option("min"), layer.float_option("max")
    if bits not in (8, 16) or not low < high or low > 0 or high < 0:
        raise layer.refusal(f"it has {bits} bits from {low} to {high}")
    if layer.int_option("narrow_range"):
        raise layer.refusal("its range is narrow, which TFLite's kernel does not compute")
    highest = (1 << bits) - 1
    scale = (np.float32(high) - np.float32(low)) / np.float32(highest)
    zero = np.clip(np.floor(-low / float(scale) + 0.5), 0, highest)
    parameters = [np.asarray(scale), np.asarray(zero, "uint8" if bits == 8 else "uint16")]
    layout = layer.layout(0)
    stored = layer.node("QuantizeLinear", [layer.real(0, layout), *parameters])
    layer.result("DequantizeLinear", [stored, *parameters], layer.input(0).shape, layout=layout)
    layer.tensors.note(
        Finding(
            code="fake-quant-kept",
            severity="info",
            where=layer.name,
            what="A FAKE_QUANT layer is kept as QuantizeLinear and DequantizeLinear.",
        )
    )


def _bucketize(layer: Layer) -> None:
    """BUCKETIZE: how many boundaries are not above the element."""
    bounds = np.array(layer.operator.options["boundaries"], np.float32)
    x = layer.input(0)
    if not len(bounds):
        raise ValueError("it has no boundaries")
    column = layer.node("Unsqueeze", [layer.real(0), [-1]])
    if x.dtype != "float32":
        column = layer.node("Cast", [column], to=element_type("float32"))
    passed = layer.node("GreaterOrEqual", [column, bounds])
    ones = layer.node("Cast", [passed], to=element_type("int32"))
    layer.result("ReduceSum", [ones, [-1]], x.shape, keepdims=0)


# operators of TFLite that are ONNX's of the same name, by how many inputs they have
_SAME_UNARY = words("ABS CEIL COS ELU EXP FLOOR LOG NEG RELU ROUND SIGN SIN SQRT TANH")
_SAME_BINARY = words("ADD DIV EQUAL GREATER LESS MUL POW SUB")

HANDLERS: dict[str, Handler] = {
    **{name: _unary(name.capitalize()) for name in sorted(_SAME_UNARY)},
    **{name: _binary(name.capitalize()) for name in sorted(_SAME_BINARY)},
    "HARD_SWISH": _unary("HardSwish"),
    "LOGICAL_NOT": _unary("Not"),
    "LOGISTIC": _unary("Sigmoid"),
    "BITWISE_XOR": _binary("BitwiseXor"),
    "GREATER_EQUAL": _binary("GreaterOrEqual"),
    "LESS_EQUAL": _binary("LessOrEqual"),
    "LOGICAL_AND": _binary("And"),
    "LOGICAL_OR": _binary("Or"),
    "MAXIMUM": _binary("Max"),
    "MINIMUM": _binary("Min"),
    "ADD_N": _add_n,
    "ATAN2": _formula_of_two(_atan2),
    "BUCKETIZE": _bucketize,
    "CAST": _cast,
    "DEQUANTIZE": _dequantize,
    "FAKE_QUANT": _fake_quant,
    "FLOOR_DIV": _by_kind(lambda x, y: floor(x / y), lambda x, y: (x - apply("Mod", x, y)) / y),
    "FLOOR_MOD": _by_kind(_remainder, lambda x, y: apply("Mod", x, y)),
    "GELU": _gelu,
    "L2_NORMALIZATION": _l2_normalization,
    "LEAKY_RELU": _leaky_relu,
    "LOG_SOFTMAX": _softmax("LogSoftmax"),
    "NOT_EQUAL": _formula_of_two(lambda x, y: apply("Not", apply("Equal", x, y))),
    "PRELU": _prelu,
    "QUANTIZE": _quantize,
    "RELU6": _clamp(0.0, 6.0),
    "RELU_0_TO_1": _clamp(0.0, 1.0),
    "RELU_N1_TO_1": _clamp(-1.0, 1.0),
    "RSQRT": _formula(lambda x: apply("Reciprocal", sqrt(x))),
    "SELECT": _select,
    "SELECT_V2": _select,
    "SOFTMAX": _softmax("Softmax"),
    "SQUARE": _formula(lambda x: x * x),
    "SQUARED_DIFFERENCE": _formula_of_two(_squared_difference),
}
