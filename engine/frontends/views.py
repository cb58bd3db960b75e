"""A source model as plain data for screens, before anything is converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.base.errors import GraphError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, printable, shape_text
from engine.frontends.source import SourceModel
from engine.frontends.summary import SourceLayer, SourceSummary, SourceTensor
from engine.graph.ir.views import Groups

__all__ = ["layer_detail", "preflight", "source_findings", "source_graph", "source_model"]

_SHOWN_CANDIDATES = 50


def preflight(source: SourceModel, summary: SourceSummary) -> dict[str, Any]:
    """What a load is going to meet, as JSON has it.

    Returns:
        ``{recognised: {kind, format, why}, files: [name], versions: [[name, found, read]],
        inputs, outputs, candidates: {inputs, outputs}, operators: [[operator, count, why refused]],
        notes}``
    """
    refused = {op: why for op, _, why in reversed(summary.refused)}
    seen = source.recognised
    return {
        "recognised": {"kind": seen.kind, "format": seen.format, "why": seen.why},
        "files": [printable(name, 200) for name, _ in summary.files],
        "versions": [list(row) for row in summary.version],
        "inputs": [_tensor(tensor) for tensor in summary.inputs],
        "outputs": [_tensor(tensor) for tensor in summary.outputs],
        "candidates": {
            "inputs": list(summary.candidates[0][:_SHOWN_CANDIDATES]),
            "outputs": list(summary.candidates[1][:_SHOWN_CANDIDATES]),
        },
        "operators": [[op, n, refused.get(op, "")] for op, n in summary.operators.items()],
        "notes": list(summary.notes),
    }


def source_model(source: SourceModel, summary: SourceSummary) -> dict[str, Any]:
    """The model view: the same keys as of an ONNX file, and the ``preflight``."""
    return {
        "kind": summary.framework,
        "path": str(source.model),
        "name": source.model.name,
        "format": summary.format,
        "sha256": summary.files[0][1],
        "inputs": [_tensor(tensor) for tensor in summary.inputs],
        "outputs": [_tensor(tensor) for tensor in summary.outputs],
        "nodes": len(summary.layers),
        "operators": summary.operators,
        "parameters": summary.parameters,
        "weights_bytes": summary.weights_bytes,
        "findings": [finding.to_dict() for finding in source_findings(summary)],
        "recipe": None,
        "summary": None,
        "preflight": preflight(source, summary),
    }


def source_findings(summary: SourceSummary) -> tuple[Finding, ...]:
    """What a look noticed; an operator that will be refused is told once, with its first layer."""
    told = {finding.where for finding in summary.findings if finding.severity == "error"}
    found = list(summary.findings)
    seen: set[tuple[str, str]] = set()
    for op, layer, why in summary.refused:
        if (op, why) in seen or layer in told:
            continue
        seen.add((op, why))
        found.append(
            Finding(
                code="unsupported-operator",
                severity="error",
                where=printable(layer, 200),
                what=f"{printable(op, 100)} is not supported: {why}.",
                remedy="Cut the model before it with 'outputs', or after it with 'inputs'.",
            )
        )
    return tuple(found)


def source_graph(summary: SourceSummary) -> dict[str, Any]:
    """The graph view of the layers as the file has them."""
    groups = Groups()
    rows = [
        [
            layer.name,
            layer.op,
            layer.outputs[0] if layer.outputs else "",
            "?" if layer.shape is None else shape_text(layer.shape),
            layer.dtype,
            groups.number(layer.name),
        ]
        for layer in summary.layers
    ]
    return {
        "nodes": rows,
        "groups": groups.names(),
        "inputs": [_tensor(tensor) for tensor in summary.inputs],
        "outputs": [_tensor(tensor) for tensor in summary.outputs],
    }


def layer_detail(summary: SourceSummary, name: str) -> dict[str, Any]:
    """Everything that the file says of one layer, in the form of a node's detail.

    Raises:
        GraphError: no layer has this name.
    """
    layers = {layer.name: layer for layer in summary.layers}
    layer = layers.get(name)
    if layer is None:
        raise GraphError(
            f"The model has no layer {printable(name)!r}.",
            remedy=did_you_mean(name, layers) or "Look the name up in the graph view.",
        )
    known: dict[str, SourceLayer | SourceTensor] = {t.name: t for t in summary.inputs}
    known.update((out, one) for one in summary.layers for out in one.outputs[:1])
    attributes = [[key, printable(text, 400)] for key, text in layer.attributes]
    if layer.refused:
        attributes.insert(0, ["refused", printable(layer.refused, 400)])
    return {
        "name": layer.name,
        "op": layer.op,
        "domain": "",
        "attributes": attributes,
        "inputs": [_end(tensor, known) for tensor in layer.inputs],
        "outputs": [_end(tensor, known) for tensor in layer.outputs],
        "origin": [],
    }


def _tensor(tensor: SourceTensor) -> dict[str, Any]:
    shape = [-1] if tensor.shape is None else list(tensor.shape)
    return {"name": tensor.name, "shape": shape, "dtype": tensor.dtype or "unknown"}


def _end(name: str, known: Mapping[str, SourceLayer | SourceTensor]) -> dict[str, Any]:
    found = known.get(name)
    shape = None if found is None else found.shape
    return {
        "name": name,
        "shape": [-1] if shape is None else list(shape),
        "dtype": (found.dtype if found is not None else "") or "unknown",
        "kind": "input" if isinstance(found, SourceTensor) else "activation",
        "quant": None,
    }
