"""The Q/DQ graph of a build as a TFLite file whose tensors are int8.

Integers, scales and zero points are the build's own: an interpreter computes the same values, but
for what its kernels round differently (fixed-point multipliers; see docs/deploy.md). Layers that
the build computes in float are float layers between DEQUANTIZE and QUANTIZE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from engine.base.errors import UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.compile.tflite import convolutions, elementwise, matrices, moves, pools, resizing
from engine.compile.tflite.emitter import LAST, PLAIN, Emitter, Form, Operand
from engine.compile.tflite.layer import Layer, layer_of, quant_of, shape_of
from engine.compile.tflite.writer import Quant, TfliteWriter
from engine.graph.ir import Graph

__all__ = ["Port", "TfliteModel", "to_tflite"]

_EMITTED: Mapping[str, Callable[[Layer, Emitter], None]] = {
    **dict.fromkeys(elementwise.TABLED, elementwise.unary),
    **dict.fromkeys(elementwise.BINARY, elementwise.binary),
    **dict.fromkeys(moves.REDUCTIONS, moves.reduce),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), moves.reshape),
    **dict.fromkeys(("Identity", "Dropout", "Cast"), moves.identity),
    **dict.fromkeys(("MaxPool", "AveragePool"), pools.pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), pools.global_pool),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), moves.depth_to_space),
    **dict.fromkeys(("Tile", "Expand"), moves.tile),
    "ArgMax": moves.arg_max,
    "Concat": moves.concat,
    "Conv": convolutions.conv,
    "ConvTranspose": convolutions.conv_transpose,
    "Gather": moves.gather,
    "Gemm": matrices.gemm,
    "MatMul": matrices.matmul,
    "PRelu": elementwise.prelu,
    "Pad": moves.pad,
    "Resize": resizing.resize,
    "Slice": moves.slices,
    "Softmax": elementwise.softmax,
    "Split": moves.split,
    "Transpose": moves.transpose,
}
_PAIRS = ("QuantizeLinear", "DequantizeLinear")
_SHOWN = 8


@dataclass(frozen=True)
class Port:
    """An input or output of the file.

    Attributes:
        name: of the tensor in the file.
        source: the name in the model.
        shape: in the file: channels last where ``channels_last``.
        quant: parameters; None of a float tensor.
    """

    name: str
    source: str
    shape: tuple[int, ...]
    quant: Quant | None
    channels_last: bool

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        if self.quant is None:
            return f"{self.source}: {shape}, not quantized."
        scale, zero = self.quant.scale[0], self.quant.zero_point[0]
        layout = ", NHWC" if self.channels_last and len(self.shape) == 4 else ""
        return f"{self.source}: int8 {shape}{layout}, scale {scale:.7g}, zero point {zero}."


@dataclass(frozen=True)
class TfliteModel:
    """A file and what a user has to know to feed it."""

    data: bytes
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    findings: tuple[Finding, ...]


def to_tflite(graph: Graph, description: str = "") -> TfliteModel:
    """The TFLite file of a quantized graph.

    Args:
        graph: with Q/DQ pairs of 8 bits; float layers may stand between them.
        description: stored in the file.

    Raises:
        UnsupportedOperatorError: a layer has no form in TFLite, or a tensor no place; all operators
            that are not known at all are named together.
    """
    nodes = list(graph.nodes)
    _require_known(nodes)
    writer = TfliteWriter(description)
    emitter = Emitter(writer)
    inner = graph.model.graph
    outputs = frozenset(inner.outputs)
    done: set[ir.Node] = set()
    inputs = tuple(_input(value, emitter, done) for value in inner.inputs)
    in_float: list[str] = []
    for node in nodes:
        if node in done or node.op_type == "DequantizeLinear":
            continue
        if node.op_type == "QuantizeLinear":
            _quantize(node, emitter)
            continue
        if not any(value is not None and not _is_constant(value) for value in node.inputs):
            continue  # folded where it is read
        layer = layer_of(node, outputs)
        _EMITTED[node.op_type](layer, emitter)
        done.update(layer.done)
        if not layer.quantized and node.op_type != "Cast":
            in_float.append(node.name or node.op_type)
    ports = tuple(_output(value, emitter) for value in inner.outputs)
    return TfliteModel(writer.to_bytes(), inputs, ports, _float_layers(in_float))


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is not None and producer.op_type in ("DequantizeLinear", "Cast"):
        return producer.inputs[0] is not None and _is_constant(producer.inputs[0])
    return value.const_value is not None


def _require_known(nodes: list[ir.Node]) -> None:
    unknown: dict[str, list[str]] = {}
    for node in nodes:
        if node.op_type not in _EMITTED and node.op_type not in _PAIRS:
            unknown.setdefault(node.op_type, []).append(node.name or "")
    if unknown:
        kinds = [f"{kind} ({len(names)})" for kind, names in sorted(unknown.items())]
        first = next(iter(unknown.values()))[0]
        raise UnsupportedOperatorError(
            f"The model has operators that are not written to TFLite: "
            f"{sanitize(', '.join(kinds[:_SHOWN]), 300)}. The first is {sanitize(first)!r}.",
            cause="TFLite has no such operator, or this version does not write it.",
            remedy="Cut the model before it with `outputs`, or export QDQ ONNX instead.",
        )


def _input(value: ir.Value, emitter: Emitter, done: set[ir.Node]) -> Port:
    """An input: on 8 bits where nothing but a Q reads it."""
    uses = list(value.uses())
    reader = uses[0].node if uses else value.producer()
    if reader is None:
        reader = ir.Node("", "Input", [])
    shape = shape_of(value, reader)
    form: Form = LAST if len(shape) > 2 else PLAIN
    name = value.name or "input"
    if len(uses) == 1 and uses[0].node.op_type == "QuantizeLinear":
        quant, stored = quant_of(uses[0].node), uses[0].node.outputs[0]
        made = emitter.writer.tensor(name, _in_form(shape, form), "int8", quant)
        done.add(uses[0].node)
    else:
        kind = "float32" if value.dtype is None else value.dtype.numpy().name
        if kind not in ("float32", "int32", "int64", "bool"):
            raise UnsupportedOperatorError(
                f"The input {sanitize(name)!r} is {kind}, which is not written to TFLite.",
                remedy="Export QDQ ONNX instead.",
            )
        form = form if kind == "float32" else PLAIN
        quant, stored = None, value
        made = emitter.writer.tensor(name, _in_form(shape, form), kind)
    emitter.given(stored, form, made)
    emitter.writer.inputs.append(made)
    return Port(name, value.name or "", emitter.writer.shape(made), quant, form)


def _in_form(shape: tuple[int, ...], form: Form) -> tuple[int, ...]:
    return (shape[0], *shape[2:], shape[1]) if form is LAST else shape


def _quantize(node: ir.Node, emitter: Emitter) -> None:
    """A Q that no layer has taken in: of a float tensor, or from other parameters."""
    value, stored = node.inputs[0], node.outputs[0]
    if value is None:
        return
    producer = value.producer()
    shape = shape_of(value, node)
    quant = quant_of(node)
    if len(quant.scale) > 1:
        raise UnsupportedOperatorError(
            f"The tensor {sanitize(value.name or '')!r} has a scale for each channel.",
            cause="TFLite has one scale for each computed tensor.",
            remedy="Build with quantized activations per tensor.",
        )
    operand = Operand(value, None, shape)
    if producer is not None and producer.op_type == "DequantizeLinear" and producer.inputs[0]:
        operand = Operand(producer.inputs[0], quant_of(producer), shape)
    form = emitter.form_of([operand])
    source = emitter.read(operand, form)
    if operand.quant == quant:
        emitter.given(stored, form, source)
        return
    name = (stored.name or "tensor").removesuffix("/quantized")
    if operand.quant is not None:
        made = emitter.requantized(source, quant, name)
    else:
        made = emitter.writer.tensor(name, emitter.writer.shape(source), "int8", quant)
        emitter.emit("QUANTIZE", [source], [made])
    emitter.given(stored, form, made)


def _output(value: ir.Value, emitter: Emitter) -> Port:
    """An output: on 8 bits where a DQ gives it."""
    producer = value.producer()
    stored, quant = value, None
    if producer is not None and producer.op_type == "DequantizeLinear" and producer.inputs[0]:
        stored, quant = producer.inputs[0], quant_of(producer)
    elif producer is None:
        producer = ir.Node("", "Input", [])
    shape = shape_of(value, producer)
    form = emitter.form_of([Operand(stored, quant, shape)])
    tensor = emitter.read(Operand(stored, quant, shape), form)
    emitter.writer.outputs.append(tensor)
    names = emitter.writer
    return Port(names.name(tensor), value.name or "", names.shape(tensor), quant, form)


def _float_layers(names: list[str]) -> tuple[Finding, ...]:
    if not names:
        return ()
    shown = ", ".join(sanitize(name) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        Finding(
            "tflite-float-layers",
            "warning",
            names[0],
            f"Float in the TFLite file (layers: {len(names)}): {shown}{more}.",
            cause="The build computes them in float16, which is float32 in the file.",
            remedy="A driver for int8 runs them on the CPU; cut the model before them, or quantize "
            "them with the hybrid table.",
        ),
    )
