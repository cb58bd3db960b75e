"""A source model as the wire tells it, before anything is converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from engine.base.errors import GraphError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.frontends.source import SourceLayer, SourceModel, SourceSummary, SourceTensor
from engine.graph.ir.views import Groups, edges_of
from engine.wire.model import (
    Candidates,
    FileKind,
    GraphView,
    ModelView,
    NodeDetail,
    Preflight,
    Tensor,
    TensorEnd,
)

_SHOWN_CANDIDATES = 50


def preflight(source: SourceModel, summary: SourceSummary) -> Preflight:
    """What a load is going to meet."""
    refused = {op: why for op, _, why in reversed(summary.refused)}
    seen = source.recognised
    inputs, outputs = (tuple(names[:_SHOWN_CANDIDATES]) for names in summary.candidates)
    return Preflight(
        recognised=FileKind(seen.kind, seen.format, seen.why),
        files=tuple(sanitize(name, 200) for name, _ in summary.files),
        versions=summary.version,
        inputs=tuple(map(_tensor, summary.inputs)),
        outputs=tuple(map(_tensor, summary.outputs)),
        candidates=Candidates(inputs, outputs),
        operators=tuple((op, n, refused.get(op, "")) for op, n in summary.operators.items()),
        notes=tuple(summary.notes),
    )


def source_model(source: SourceModel, summary: SourceSummary) -> ModelView:
    """The model view, with what a load is going to meet."""
    return replace(model_view(source.model, summary), preflight=preflight(source, summary))


def model_view(path: Path, summary: SourceSummary) -> ModelView:
    """The model view of a file, whatever is said of it."""
    return ModelView(
        kind=summary.framework,
        path=str(path),
        name=path.name,
        format=summary.format,
        sha256=summary.files[0][1],
        inputs=tuple(map(_tensor, summary.inputs)),
        outputs=tuple(map(_tensor, summary.outputs)),
        nodes=len(summary.layers),
        operators=summary.operators,
        parameters=summary.parameters,
        weights_bytes=summary.weights_bytes,
        findings=source_findings(summary),
        recipe=None,
        summary=None,
    )


def source_findings(summary: SourceSummary) -> tuple[Finding, ...]:
    """What a look noticed; an operator that will be refused is told once, with its first layer."""
    told = {finding.where for finding in summary.findings if finding.severity == "error"}
    findings = list(summary.findings)
    seen = {(op, why) for op, layer, why in summary.refused if sanitize(layer) in told}
    for op, layer, why in summary.refused:
        if (op, why) in seen:
            continue
        seen.add((op, why))
        findings.append(
            Finding(
                code="unsupported-operator",
                severity="error",
                where=sanitize(layer, 200),
                what=f"{sanitize(op, 100)} is not supported: {why}.",
                remedy="Cut the model before it with 'outputs', or after it with 'inputs'.",
            )
        )
    return tuple(findings)


def source_graph(summary: SourceSummary) -> GraphView:
    """The graph view of the layers as the file has them."""
    groups = Groups()
    rows = tuple(
        (
            layer.name,
            layer.op,
            layer.outputs[0] if layer.outputs else "",
            "?" if layer.shape is None else shape_text(layer.shape),
            layer.dtype,
            groups.number(layer.name),
        )
        for layer in summary.layers
    )
    return GraphView(
        nodes=rows,
        groups=groups.names(),
        inputs=tuple(map(_tensor, summary.inputs)),
        outputs=tuple(map(_tensor, summary.outputs)),
        edges=edges_of((layer.inputs, layer.outputs) for layer in summary.layers),
    )


def layer_detail(summary: SourceSummary, name: str) -> NodeDetail:
    """Everything that the file says of one layer.

    Raises:
        GraphError: no layer has this name.
    """
    layers = {layer.name: layer for layer in summary.layers}
    layer = layers.get(name)
    if layer is None:
        raise GraphError(
            f"The model has no layer {sanitize(name)!r}.",
            remedy=did_you_mean(name, layers) or "Look the name up in the graph view.",
        )
    known: dict[str, SourceLayer | SourceTensor] = {t.name: t for t in summary.inputs}
    known.update((out, one) for one in summary.layers for out in one.outputs[:1])
    refused = [("refused", layer.refused)] if layer.refused else []
    return NodeDetail(
        name=layer.name,
        op=layer.op,
        domain="",
        attributes=tuple((key, sanitize(text, 400)) for key, text in (*refused, *layer.attributes)),
        inputs=tuple(_end(tensor, known) for tensor in layer.inputs),
        outputs=tuple(_end(tensor, known) for tensor in layer.outputs),
        origin=(),
    )


def _tensor(tensor: SourceTensor) -> Tensor:
    return Tensor(
        tensor.name, (-1,) if tensor.shape is None else tensor.shape, tensor.dtype or "unknown"
    )


def _end(name: str, known: Mapping[str, SourceLayer | SourceTensor]) -> TensorEnd:
    tensor = known.get(name)
    shape = None if tensor is None else tensor.shape
    return TensorEnd(
        name=name,
        shape=(-1,) if shape is None else shape,
        dtype=(tensor.dtype if tensor is not None else "") or "unknown",
        kind="input" if isinstance(tensor, SourceTensor) else "activation",
        quant=None,
    )
