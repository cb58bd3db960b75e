"""Load a TFLite file: read, choose inputs and outputs, convert what they need; or inspect it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.events import Reporter
from engine.base.files import read_bounded
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.frontends.emit import element_type
from engine.frontends.ends import require_once, unused_input
from engine.frontends.loaded import Loaded, SourceInfo, digest, told_of
from engine.frontends.onnx.axes import fix_inputs
from engine.frontends.source import (
    LoadOptions,
    SourceLayer,
    SourceModel,
    SourceSummary,
    SourceTensor,
)
from engine.frontends.tflite.convert import (
    Converter,
    State,
    join_dilated,
    state_findings,
    with_states,
)
from engine.frontends.tflite.ops import refusal_of
from engine.frontends.tflite.schema import Model, Operator, Subgraph, Tensor, parse_model
from engine.frontends.tflite.tensors import (
    FIRST,
    LAST,
    NUMBERS,
    Frame,
    Tensors,
    Value,
    checked_shape,
    quantization_of,
    to_first,
)
from engine.graph.ir.naming import MAX_PROTO_BYTES, UniqueNames


@dataclass(frozen=True)
class File:
    """A TFLite file that was read, with its variables as inputs and outputs (``states``)."""

    name: str
    sha256: str
    model: Model
    states: tuple[State, ...] = ()

    @property
    def format(self) -> str:
        """What it is, in words."""
        return f"TensorFlow Lite, schema version {self.model.version}"


@dataclass(frozen=True)
class Ends:
    """Tensor numbers where a conversion begins and ends."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_file(source: SourceModel) -> File:
    """Read and parse.

    Raises:
        SourceModelError: missing, unreadable, no TFLite file, or damaged.
    """
    data = read_bounded(source.model, MAX_PROTO_BYTES, "a TFLite model")
    model, states = with_states(parse_model(data, source.model.name))
    return File(*digest(source.model, data), model, states)


def load(source: SourceModel, reporter: Reporter) -> Loaded:
    """The graph of a TFLite file, cut and sized as its options say.

    Inputs and outputs keep name, type, shape and order of the file (NHWC; inputs of four
    dimensions are NCHW with ``input_is_nchw``). Names of a signature stand for its tensors.

    Raises:
        SourceModelError: the file cannot be read, a name is unknown, or sizes do not fit.
        UnsupportedOperatorError: an operator that the outputs need cannot be converted.
    """
    file = read_file(source)
    options = source.options
    graph = file.model.subgraphs[0]
    ends = choose_ends(file.model, graph, options)
    names = [graph.tensors[index].name for index in ends.outputs]
    converter = Converter(file.model, file.name, names, reporter)
    frame = Frame(graph)
    with told_of(sanitize(file.name)):
        findings = _declare_inputs(converter.tensors, frame, ends.inputs, options)
        operators = needed(graph, ends)
        converter.run(frame, join_dilated(graph, operators, ends.outputs))
        _declare_outputs(converter.tensors, frame, ends.outputs)
        reporter.check_cancelled()
        converted = converter.tensors.emit.finish(sanitize(file.name))
    producer = sanitize(file.model.description, 100)
    info = SourceInfo("tflite", file.format, ((file.name, file.sha256),), producer)
    fed = state_findings(file.states)
    tensor_findings = converter.tensors.findings
    notes = (*findings, *fed, *tensor_findings, *_notes(file.model, graph, ends, operators))
    return Loaded(converted, notes, info)


# ------------------------------------------------------------------------------- the ends


def choose_ends(model: Model, graph: Subgraph, options: LoadOptions) -> Ends:
    """The tensors that the options name, else the model's own inputs and outputs.

    Raises:
        SourceModelError: an unknown name, a constant, or a name twice.
    """
    known: dict[str, int] = {}
    for signature in model.signatures:
        if signature.subgraph == 0:
            known.update((*signature.inputs, *signature.outputs))
    computed = {index for operator in graph.operators for index in operator.outputs}
    for index in (*sorted(computed, reverse=True), *reversed(graph.inputs)):
        known[graph.tensors[index].name] = index
    ends = Ends(
        _chosen(options.inputs, graph.inputs, known, "inputs"),
        _chosen(options.outputs, graph.outputs, known, "outputs"),
    )
    if not ends.outputs:
        raise SourceModelError(
            "The model has no outputs.", remedy="Name the tensors wanted in 'outputs'."
        )
    return ends


def _chosen(
    names: Sequence[str] | None, own: tuple[int, ...], known: dict[str, int], what: str
) -> tuple[int, ...]:
    if not names:
        return tuple(dict.fromkeys(own))
    chosen: list[int] = []
    for name in names:
        if name not in known:
            raise SourceModelError(
                f"The model has no computed tensor {sanitize(name)!r}, which {what} names.",
                remedy=did_you_mean(name, known) or "Look tensor names up in the graph view.",
            )
        chosen.append(known[name])
    require_once(what, names, chosen)
    return tuple(chosen)


def needed(graph: Subgraph, ends: Ends) -> list[Operator]:
    """The operators between the ends, in order."""
    tensors = set(ends.outputs) - set(ends.inputs)
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if tensors.isdisjoint(operator.outputs):
            continue
        kept.append(operator)
        tensors.difference_update(operator.outputs)
        tensors.update(set(operator.inputs) - set(ends.inputs) - {-1})
    kept.reverse()
    return kept


def _declare_inputs(
    tensors: Tensors, frame: Frame, numbers: tuple[int, ...], options: LoadOptions
) -> list[Finding]:
    """Give every input its size, its name and its place in the graph."""
    if not numbers:
        raise SourceModelError(
            f"{sanitize(tensors.file)} has no inputs.",
            remedy="Give a model that computes something from an input.",
        )
    infos, names = onnx.GraphProto(), UniqueNames(set())
    # the file's names, or one by its number where that is empty
    labels = [names.claim(frame.graph.tensors[n].name or f"input_{n}") for n in numbers]
    for number, label in zip(numbers, labels, strict=True):
        tensor = frame.graph.tensors[number]
        infos.input.append(_info(tensors.file, tensor, label, options.input_is_nchw))
    findings = fix_inputs(infos, options.input_size_list, options.input_initial_val)
    constants = {tensor.name: tensor for tensor in infos.initializer}
    sizes = {
        info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        for info in infos.input
    }
    for number, name in zip(numbers, labels, strict=True):
        tensor = frame.graph.tensors[number]
        nchw = options.input_is_nchw and len(tensor.shape) == 4
        constant = None
        if name in constants:
            constant = onnx.numpy_helper.to_array(constants[name])
            constant = constant.transpose(0, 2, 3, 1) if nchw else constant
        dims = constant.shape if constant is not None else tuple(sizes[name])
        layout = FIRST if nchw else LAST
        last = tuple(dims[axis] for axis in (0, 2, 3, 1)) if nchw and constant is None else dims
        shape = checked_shape(last, tensor.name)
        value = Value(tensor.name, shape, tensor.dtype, quantization_of(tensor, shape), constant)
        if constant is None:
            value.forms[layout] = tensors.emit.input(name, dims, tensor.dtype)
        frame.values[number] = value
    return findings


def _info(file: str, tensor: Tensor, label: str, nchw: bool) -> onnx.ValueInfoProto:
    if tensor.dtype not in NUMBERS:
        raise UnsupportedOperatorError(
            f"{sanitize(file)}: input {sanitize(tensor.name, 120)!r} holds "
            f"{tensor.dtype}, no numbers that a graph can take.",
            remedy="Begin behind it: name inner tensors in 'inputs'.",
        )
    signature: list[int] = list(tensor.signature)
    if nchw and len(signature) == 4:
        signature = [signature[axis] for axis in to_first(4)]
    dims = [size if size >= 0 else None for size in signature]
    return onnx.helper.make_tensor_value_info(label, element_type(tensor.dtype), dims)


def _declare_outputs(tensors: Tensors, frame: Frame, numbers: tuple[int, ...]) -> None:
    emit = tensors.emit
    declared: set[str] = set()
    for number in numbers:
        value = tensors.value(frame, number)
        stored = tensors.stored(value)
        hint = value.name or f"output_{number}"
        inputs = {
            form
            for index in frame.graph.inputs
            if index in frame.values
            for form in frame.values[index].forms.values()
        }
        if value.array is not None or stored in declared or stored in inputs:
            emit.origin = ""
            stored = emit.node("Identity", [stored], hint)
        declared.add(stored)
        emit.output(stored, value.dtype, hint if stored != hint else None)


def _notes(
    model: Model, graph: Subgraph, ends: Ends, operators: Sequence[Operator]
) -> list[Finding]:
    read = {index for operator in operators for index in operator.inputs} | set(ends.outputs)
    findings = [unused_input(graph.tensors[i].name) for i in ends.inputs if i not in read]
    hybrid = sum(_is_hybrid(graph, operator) for operator in operators)
    if hybrid:
        findings.append(
            Finding(
                code="hybrid-in-float",
                severity="info",
                where="model",
                what=f"{hybrid} layers have 8-bit weights and float inputs; they compute in float.",
                cause="TFLite rounds the inputs of such layers to 8 bits by each run's own range.",
                remedy="Expect differences of that rounding from TFLite's own results.",
            )
        )
    others = [signature for signature in model.signatures if signature.subgraph != 0]
    if others:
        keys = ", ".join(repr(sanitize(signature.key, 60)) for signature in others[:5])
        findings.append(
            Finding(
                code="other-signatures",
                severity="info",
                where=sanitize(others[0].key),
                what=f"The file has further entries that are not loaded: {keys}.",
                remedy="Convert a file with the one entry that is wanted.",
            )
        )
    return findings


def _is_hybrid(graph: Subgraph, operator: Operator) -> bool:
    """Whether TFLite's kernel would quantize the float input for the sake of integer weights."""
    if operator.type not in _WEIGHTED or len(operator.inputs) < 2 or min(operator.inputs[:2]) < 0:
        return False
    data, weights = (graph.tensors[index] for index in operator.inputs[:2])
    return data.dtype == "float32" and weights.dtype == "int8" and weights.data is not None


_WEIGHTED = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL"})


# -------------------------------------------------------------------------------- the pre-flight


def inspect(source: SourceModel) -> SourceSummary:
    """Layers, tensors and signatures of a file; what a load will refuse stands at its layer.

    Raises:
        SourceModelError: missing, unreadable, no TFLite file, or damaged.
    """
    file = read_file(source)
    graph = file.model.subgraphs[0]
    layers = _layers(graph)
    weights = [tensor for tensor in graph.tensors if tensor.data is not None]
    return SourceSummary(
        framework="tflite",
        format=file.format,
        version=(("schema", str(file.model.version), "3"),),
        files=((file.name, file.sha256),),
        inputs=tuple(_tensor(graph.tensors[index]) for index in graph.inputs),
        outputs=tuple(_tensor(graph.tensors[index]) for index in graph.outputs),
        layers=layers,
        findings=_findings(layers),
        parameters=sum(math.prod(tensor.shape) for tensor in weights),
        weights_bytes=sum(len(tensor.data) for tensor in weights if tensor.data is not None),
        notes=_told(file),
    )


def _tensor(tensor: Tensor) -> SourceTensor:
    return SourceTensor(tensor.name, tensor.signature, tensor.dtype)


def _layers(graph: Subgraph) -> tuple[SourceLayer, ...]:
    names = UniqueNames(set())

    def called(numbers: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(graph.tensors[index].name for index in numbers if index >= 0)

    layers = []
    for operator in graph.operators:
        first = graph.tensors[operator.outputs[0]] if operator.outputs else None
        hint = first.name if first is not None and first.name else operator.type.lower()
        layers.append(
            SourceLayer(
                name=names.claim(hint),
                op=operator.label,
                inputs=called(operator.inputs),
                outputs=called(operator.outputs),
                attributes=tuple((name, str(v)) for name, v in operator.options.items()),
                shape=first.signature if first is not None else None,
                dtype=first.dtype if first is not None else "",
                refused=refusal_of(operator.type),
            )
        )
    return tuple(layers)


def _findings(layers: tuple[SourceLayer, ...]) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            code="operator-refused",
            severity="error",
            where=sanitize(layer.name),
            what=f"Layer {sanitize(layer.name, 120)!r} is the operator {sanitize(layer.op, 80)}, "
            f"which is not converted: {layer.refused}.",
            remedy=f"Cut the graph before it: outputs: {[sanitize(n) for n in layer.inputs[:3]]}.",
        )
        for layer in layers
        if layer.refused
    )


def _told(file: File) -> tuple[str, ...]:
    notes = [sanitize(file.model.description, 200)] if file.model.description else []
    notes += [
        f"signature {sanitize(signature.key, 80)}: "
        f"{', '.join(sanitize(name, 60) for name, _ in signature.inputs)} -> "
        f"{', '.join(sanitize(name, 60) for name, _ in signature.outputs)}"
        for signature in file.model.signatures
    ]
    if len(file.model.subgraphs) > 1:
        notes.append(f"{len(file.model.subgraphs)} graphs; the first is loaded")
    return tuple(notes)
