"""What the estimates take from the build: which layer a node is, and the graph without Q/DQ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.graph.layers import LayerMap

__all__ = ["ids_of_sources", "nodes_of_layers", "without_qdq"]

T = TypeVar("T")

_QDQ = ("QuantizeLinear", "DequantizeLinear")


def ids_of_sources(layers: LayerMap) -> dict[str, str]:
    """Node of the loaded graph -> ``layer.id``; the first layer where a node became several."""
    found: dict[str, str] = {}
    for layer in layers.layers:
        for name in (*layer.nodes, *layer.sources):
            found.setdefault(name, layer.id)
    return found


def nodes_of_layers(layers: LayerMap, values: Mapping[str, T]) -> dict[str, T]:
    """Entries by ``layer.id`` as entries by each node that the layer comes from.

    An id is the name of a node nearly always, so that it stands for that node as well.
    """
    found: dict[str, T] = dict(values)
    for layer in layers.layers:
        value = values.get(layer.id)
        if value is not None:
            found.update(dict.fromkeys((*layer.nodes, *layer.sources), value))
    return found


def without_qdq(graph: LoweringGraph) -> LoweringGraph:
    """The float graph of a quantized source model: what reads a Q or DQ reads what is before it.

    A weight that is stored in int8 is a constant still. The graph itself is left as it is; it is
    returned where it has no such node.
    """
    if not any(node.op in _QDQ for node in graph.nodes):
        return graph
    tensors = dict(graph.tensors)
    before: dict[str, str] = {}
    outputs = set(graph.outputs)
    kept: list[Node] = []
    for node in graph.copy().nodes:
        node.inputs = [before.get(name, name) for name in node.inputs]
        if node.op not in _QDQ or not node.inputs or not node.outputs:
            kept.append(node)
            continue
        source, target = node.inputs[0], node.outputs[0]
        if target in outputs and not _renamed(kept, source, target, graph.inputs):
            kept.append(node)  # the graph's input is its output: the node stays
            continue
        if target in outputs:
            tensors[target] = tensors.get(source, tensors[target])
            before[source] = before[target] = target
        else:
            before[target] = source
    # what stood before an output was renamed may have been read already
    for node in kept:
        node.inputs = [before.get(name, name) for name in node.inputs]
    return LoweringGraph(kept, tensors, graph.inputs, graph.outputs)


def _renamed(nodes: Iterable[Node], old: str, new: str, inputs: list[str]) -> bool:
    """Whether the node that writes ``old`` writes ``new`` instead."""
    if old in inputs:
        return False
    for node in nodes:
        if old in node.outputs:
            node.outputs = [new if each == old else each for each in node.outputs]
            return True
    return False
