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
from engine.base.text import sanitize, some_of
from engine.export.tflite import (
    elementwise,
    moves,
    normalizing,
    recurrent,
    selecting,
    weighted,
    windows,
)
from engine.export.tflite.emitter import LAST, PLAIN, Emitter, Form, in_form, kind_of
from engine.export.tflite.layer import Known, Layer, layer_of, operand_of, quant_of, shape_of
from engine.export.tflite.writer import Quant
from engine.graph.ir import Graph

_EMITTED: Mapping[str, Callable[[Layer, Emitter], None]] = {
    **dict.fromkeys(elementwise.TABLED, elementwise.unary),
    **dict.fromkeys(elementwise.BINARY, elementwise.binary),
    **dict.fromkeys(moves.REDUCTIONS, moves.reduce),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), moves.reshape),
    **dict.fromkeys(("Identity", "Dropout"), moves.identity),
    **dict.fromkeys(("MaxPool", "AveragePool"), windows.pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), windows.global_pool),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), moves.depth_to_space),
    **dict.fromkeys(("Tile", "Expand"), moves.tile),
    **dict.fromkeys(("ArgMax", "ArgMin"), selecting.arg_extreme),
    **dict.fromkeys(selecting.COMPARED, selecting.compare),
    **dict.fromkeys(selecting.LOGICAL, selecting.logical),
    **dict.fromkeys(normalizing.COMPOSED_REDUCTIONS, normalizing.composed_reduction),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), normalizing.layer_normalization),
    **dict.fromkeys(selecting.PICKED, selecting.picked),
    **dict.fromkeys(recurrent.CELLS, recurrent.recurrent),
    "BatchNormalization": normalizing.batch_normalization,
    "Cast": selecting.cast,
    "Concat": moves.concat,
    "Conv": weighted.conv,
    "ConvTranspose": weighted.conv_transpose,
    "CumSum": selecting.cumulative_sum,
    "Gather": selecting.gather,
    "GatherND": selecting.gather_nd,
    "Gemm": weighted.gemm,
    "GroupNormalization": normalizing.group_normalization,
    "InstanceNormalization": normalizing.instance_normalization,
    "IsNaN": selecting.is_nan,
    "LRN": normalizing.local_response,
    "LogSoftmax": elementwise.softmax,
    "LpNormalization": normalizing.lp_normalization,
    "MatMul": weighted.matmul,
    "OneHot": selecting.one_hot,
    "PRelu": elementwise.prelu,
    "Pad": moves.pad,
    "Resize": moves.resize,
    "Slice": moves.slices,
    "Softmax": elementwise.softmax,
    "Split": moves.split,
    "TopK": selecting.top,
    "Transpose": moves.transpose,
    "Where": selecting.where,
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


def to_tflite(
    graph: Graph,
    description: str = "",
    *,
    inputs_last: bool = True,
    outputs_last: bool = True,
) -> TfliteModel:
    """The TFLite file of a quantized graph.

    Args:
        graph: with Q/DQ pairs of 8 bits; float layers may stand between them.
        description: stored in the file.
        inputs_last: inputs of four dimensions have their channels last in the file, where they are
            second in the graph; one that the graph itself transposes from that order has it
            already. False: their order is that of the graph, as where TFLite was its source.
        outputs_last: the same of outputs.

    Raises:
        UnsupportedOperatorError: a layer has no form in TFLite, or a tensor no place; all operators
            that are not known at all are named together.
    """
    nodes = list(graph.nodes)
    known = Known(graph)
    _require_known([node for node in nodes if node not in known.constant])
    emitter = Emitter(description)
    inner = graph.model.graph
    done: set[ir.Node] = set()
    inputs = tuple(_input(value, emitter, done, known, turn=inputs_last) for value in inner.inputs)
    in_float: list[str] = []
    for node in nodes:
        if node in done or node in known.constant or node.op_type == "DequantizeLinear":
            continue
        if node.op_type == "QuantizeLinear":
            _quantize(node, emitter, known)
            continue
        layer = layer_of(node, known)
        _EMITTED[node.op_type](layer, emitter)
        done.update(layer.done)
        if not layer.quantized and node.op_type != "Cast" and layer.computes_float:
            in_float.append(node.name or node.op_type)
    ports = tuple(_output(value, emitter, known, turn=outputs_last) for value in inner.outputs)
    findings = (
        *_of_layers(
            in_float,
            "tflite-float-layers",
            "Float in the TFLite file (layers: {count})",
            "The build computes them in float16, which is float32 in the file.",
            "A driver for int8 runs them on the CPU; cut the model before them, or quantize them "
            "with the hybrid table.",
        ),
        *_of_layers(
            emitter.stateful,
            "tflite-state",
            "The state of an LSTM stays between runs of the TFLite file",
            "TFLite's LSTM keeps it in the interpreter; here each run starts from zero.",
            "Call reset_all_variables() of the interpreter before each run.",
        ),
    )
    return TfliteModel(emitter.to_bytes(), inputs, ports, findings)


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


def _input(
    value: ir.Value, emitter: Emitter, done: set[ir.Node], known: Known, *, turn: bool
) -> Port:
    """An input: on 8 bits where nothing but a Q reads it, or where it is there so."""
    readers = [use.node for use in value.uses()]
    reader = readers[0] if readers else ir.Node("", "Input", [])
    shape = shape_of(value, reader)
    name = value.name or "input"
    stored, quant = value, None
    kind = kind_of(value)
    if len(readers) == 1 and reader.op_type == "QuantizeLinear" and kind == "float32":
        quant, stored = quant_of(reader), reader.outputs[0]
        done.add(reader)
    else:
        quant = known.quants.get(value)
    if quant is not None:
        kind = "int8"
    real = quant is not None or kind == "float32"
    turned = turn and real and len(shape) == 4 and not _is_turned_behind(stored)
    form: Form = LAST if turned else PLAIN
    tensor = emitter.tensor(name, in_form(shape, form), kind, quant)
    emitter.given(stored, form, tensor)
    emitter.inputs.append(tensor)
    return Port(name, value.name or "", emitter.shape(tensor), quant, form)


def _is_turned_behind(value: ir.Value) -> bool:
    """Whether the graph itself brings a tensor of channels last to channels first, and reads it
    in no other order.
    """
    readers = [use.node for use in value.uses()]
    if readers and all(reader.op_type in _PAIRS for reader in readers):
        return all(_is_turned_behind(reader.outputs[0]) for reader in readers)
    perms = [
        tuple(reader.attributes.get_ints("perm", ())) if reader.op_type == "Transpose" else ()
        for reader in readers
    ]
    return bool(perms) and all(perm == (0, 3, 1, 2) for perm in perms)


def _quantize(node: ir.Node, emitter: Emitter, known: Known) -> None:
    """A Q that no layer has taken in: of a float tensor, or from other parameters."""
    value, stored = node.inputs[0], node.outputs[0]
    if value is None:
        return
    quant = quant_of(node)
    if len(quant.scale) > 1:
        raise UnsupportedOperatorError(
            f"The tensor {sanitize(value.name or '')!r} has a scale for each channel.",
            cause="TFLite has one scale for each computed tensor.",
            remedy="Build with quantized activations per tensor.",
        )
    operand = operand_of(value, node, known)
    form = emitter.form_of([operand])
    source = emitter.read(operand, form)
    if operand.quant == quant:
        emitter.given(stored, form, source)
        return
    name = (stored.name or "tensor").removesuffix("/quantized")
    if operand.quant is not None:
        tensor = emitter.requantized(source, quant, name)
    else:
        tensor = emitter.tensor(name, emitter.shape(source), "int8", quant)
        emitter.emit("QUANTIZE", [source], [tensor])
    emitter.given(stored, form, tensor)


def _output(value: ir.Value, emitter: Emitter, known: Known, *, turn: bool) -> Port:
    """An output: on 8 bits where a DQ gives it, or where it is stored so."""
    operand = operand_of(value, value.producer() or ir.Node("", "Input", []), known)
    stored, quant, shape = operand.value, operand.quant, operand.shape
    array = known.array(stored)
    if array is not None and not (emitter.has(stored, PLAIN) or emitter.has(stored, LAST)):
        emitter.given(stored, PLAIN, emitter.constant(value.name or "constant", array, quant))
    form = emitter.form_of([operand]) if turn and len(shape) == 4 else PLAIN
    tensor = emitter.read(operand, form)
    emitter.outputs.append(tensor)
    return Port(emitter.name(tensor), value.name or "", emitter.shape(tensor), quant, form)


def _of_layers(
    names: list[str], code: str, what: str, cause: str, remedy: str
) -> tuple[Finding, ...]:
    """A warning with the first names of layers in it; none where there are none."""
    if not names:
        return ()
    shown = some_of([*map(sanitize, names)], _SHOWN)
    what = f"{what.format(count=len(names))}: {shown}."
    return (Finding(code, "warning", names[0], what, cause=cause, remedy=remedy),)
