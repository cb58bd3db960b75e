"""Comparisons, conditions and what they choose, and conversions of types."""

from __future__ import annotations

from engine.export.tflite.elementwise import input_tensor
from engine.export.tflite.emitter import PLAIN, Constant, Emitter, Form, Operand, refused
from engine.export.tflite.layer import Layer

__all__ = ["COMPARED", "LOGICAL", "cast", "compare", "is_nan", "logical", "where"]

COMPARED = {
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
}
"""Operator -> its name in TFLite."""

LOGICAL = {"And": "LOGICAL_AND", "Or": "LOGICAL_OR", "Xor": "NOT_EQUAL", "Not": "LOGICAL_NOT"}
"""Operator -> its name in TFLite."""


def compare(layer: Layer, emitter: Emitter) -> None:
    """Equal, Greater and so on; what is quantized is compared as the real values that it is."""
    computed = [each for each in layer.inputs if isinstance(each, Operand)]
    kind = "float32" if any(each.quant is not None for each in computed) else computed[0].kind
    if kind == "bool" and layer.node.op_type != "Equal":
        raise refused(layer.node, "TFLite orders numbers only")
    _broadcast(layer, emitter, COMPARED[layer.node.op_type], kind)


def logical(layer: Layer, emitter: Emitter) -> None:
    """And, Or, Xor, Not."""
    _broadcast(layer, emitter, LOGICAL[layer.node.op_type], "bool")


def is_nan(layer: Layer, emitter: Emitter) -> None:
    """IsNaN: what is not equal to itself."""
    form = emitter.form_of([layer.data])
    source = emitter.as_float(layer.data, form)
    made = emitter.output(layer.target, form)
    emitter.emit("NOT_EQUAL", [source, source], [made])
    emitter.settle(layer.target, form, made)


def where(layer: Layer, emitter: Emitter) -> None:
    """Where as SELECT_V2; on 8 bits both sides are brought to the parameters of the output."""
    form = _form(layer, emitter)
    condition, *sides = layer.inputs
    chosen = input_tensor(condition, layer, emitter, form, integers=False, kind="bool")
    kind = "float32" if layer.target.quant is not None else layer.target.kind
    out = layer.target.quant if layer.quantized else None
    sources = []
    for side in sides:
        given = side.in_params(out) if isinstance(side, Constant) and out is not None else side
        source = input_tensor(given, layer, emitter, form, integers=layer.quantized, kind=kind)
        sources.append(emitter.in_params(source, out))
    made = emitter.output(layer.target, form)
    emitter.emit("SELECT_V2", [chosen, *sources], [made], "SelectV2Options")
    emitter.settle(layer.target, form, made)


def cast(layer: Layer, emitter: Emitter) -> None:
    """Cast; between floats nothing is done."""
    form = emitter.form_of([layer.data])
    source = emitter.as_float(layer.data, form)
    kind = "float32" if layer.target.quant is not None else layer.target.kind
    emitter.finish(layer.target, form, emitter.cast(source, kind))


def _form(layer: Layer, emitter: Emitter) -> Form:
    computed = [each for each in layer.inputs if isinstance(each, Operand)]
    rank = len(layer.target.shape)
    alike = all(len(each.shape) == rank for each in computed)
    return emitter.form_of(computed) if alike else PLAIN


def _broadcast(layer: Layer, emitter: Emitter, name: str, kind: str) -> None:
    form = _form(layer, emitter)
    sources = [
        input_tensor(each, layer, emitter, form, integers=False, kind=kind) for each in layer.inputs
    ]
    made = emitter.output(layer.target, form)
    emitter.emit(name, sources, [made])
    emitter.settle(layer.target, form, made)
