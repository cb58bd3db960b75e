"""Inspects a frozen graph without TensorFlow."""

from __future__ import annotations

import math

from engine.base.errors import SourceModelError
from engine.base.files import sha256_of
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.source import SourceModel
from engine.frontends.summary import SourceLayer, SourceSummary, SourceTensor
from engine.frontends.tensorflow.graphdef import GraphFile, Node, read_graph, tensor_of
from engine.frontends.tensorflow.selection import (
    CONTROL_FLOW,
    Selection,
    candidates,
    needed,
    refused,
    select,
)
from engine.frontends.tensorflow.sizes import read_predef

_READ = "up to 2 GiB; written by TensorFlow 1 or 2"


def inspect(source: SourceModel) -> SourceSummary:
    """The graph's nodes, where it may begin and end, and what a load will refuse.

    Raises:
        SourceModelError: it cannot be read or is damaged.
    """
    graph = read_graph(source.model)
    findings: list[Finding] = []
    suited = candidates(graph)
    try:
        constants = read_predef(source.options.predef_file) if source.options.predef_file else {}
        selection = select(graph, source.options, constants)
    except SourceModelError as error:
        findings.append(Finding.of_error("name-unknown", "inputs and outputs", error))
        selection = Selection(*suited, frozenset(needed(graph, suited[1], suited[0])))
    why = refused(graph, selection)
    findings.extend(
        Finding("operator-refused", "error", sanitize(name), f"{op}: {reason}")
        for name, (op, reason) in why.items()
    )
    if _lowered(graph, selection):
        findings.append(
            Finding(
                code="control-flow-unrolled",
                severity="info",
                where=sanitize(source.model.name),
                what="Its loops and branches were lowered when it was frozen. They are written out "
                "where their conditions are constant, and refused where the data decide.",
            )
        )
    weights = [node for node in graph.nodes.values() if _is_weight(node)]
    return SourceSummary(
        framework="tensorflow",
        format=format_of(graph),
        version=(("GraphDef producer", str(graph.producer or "not specified"), _READ),),
        files=((source.model.name, sha256_of(source.model)),),
        inputs=tuple(_tensor(graph, name) for name in selection.inputs),
        outputs=tuple(_tensor(graph, name) for name in selection.outputs),
        layers=tuple(_layer(node, why) for node in graph.nodes.values()),
        candidates=suited,
        findings=tuple(findings),
        parameters=sum(math.prod(node.shape or ()) for node in weights),
        weights_bytes=sum(node.bytes for node in weights),
    )


def format_of(graph: GraphFile) -> str:
    """The file in words."""
    producer = f", version {graph.producer}" if graph.producer else ""
    return f"TensorFlow frozen graph (GraphDef{producer})"


def _lowered(graph: GraphFile, selection: Selection) -> bool:
    return any(graph.nodes[n].op in CONTROL_FLOW for n in selection.nodes if n in graph.nodes)


def _is_weight(node: Node) -> bool:
    return node.op == "Const" and node.dtype.startswith(("float", "bfloat"))


def _tensor(graph: GraphFile, name: str) -> SourceTensor:
    node = graph.nodes[tensor_of(name)[0]]
    known = node.op.startswith("Placeholder")
    return SourceTensor(name, node.shape if known else None, node.dtype)


def _layer(node: Node, why: dict[str, tuple[str, str]]) -> SourceLayer:
    op, reason = why.get(node.name, ("", ""))
    return SourceLayer(
        name=node.name,
        op=op or node.op,
        inputs=node.inputs,
        outputs=tuple(f"{node.name}:{i}" for i in range(min(node.outputs, 64))),
        attributes=tuple(node.attributes.items()),
        shape=node.shape,
        dtype=node.dtype,
        refused=reason,
    )
