"""Inspects a TFLite file without converting it: the pre-flight of a load."""

from __future__ import annotations

import math

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.source import SourceModel
from engine.frontends.summary import SourceLayer, SourceSummary, SourceTensor
from engine.frontends.tflite.load import File, read_file
from engine.frontends.tflite.ops import TABLES
from engine.frontends.tflite.schema import Operator, Subgraph, Tensor
from engine.graph.ir.naming import UniqueNames

__all__ = ["inspect"]

_UNKNOWN = "this version does not know it"


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
        notes=_notes(file),
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
                refused=_refused(operator),
            )
        )
    return tuple(layers)


def _refused(operator: Operator) -> str:
    """Why a load will surely refuse the operator; other reasons need its conversion."""
    if operator.type in TABLES.handlers or operator.type in TABLES.folds:
        return ""
    return TABLES.refusals.get(operator.type, _UNKNOWN)


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


def _notes(file: File) -> tuple[str, ...]:
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
