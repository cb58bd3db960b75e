"""The graphs inside nodes (branches of If, bodies of Loop and Scan)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

__all__ = ["inner_graphs", "reads", "walk"]

# the operators of ONNX that hold graphs; in any other one of its own the checker refuses a graph
_HOLDERS = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def inner_graphs(node: onnx.NodeProto) -> Sequence[onnx.GraphProto]:
    """The graphs that a node holds itself; asked of every node, so most are told apart quickly."""
    if node.op_type not in _HOLDERS and not node.domain:
        return ()
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.append(attribute.g)
        found.extend(attribute.graphs)
    return found


def walk(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and every graph inside it (protobuf allows about thirty of them in each other)."""
    yield graph
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from walk(inner)


def reads(node: onnx.NodeProto) -> Sequence[str]:
    """The tensors that a node needs: its inputs, and what its graphs take from around them."""
    inner = inner_graphs(node)
    own: Sequence[str] = node.input
    if not inner:
        return own
    return [*own, *(name for graph in inner for name in _captured(graph))]


def _captured(graph: onnx.GraphProto) -> list[str]:
    own = {value.name for value in graph.input}
    own.update(tensor.name for tensor in graph.initializer)
    own.update(name for node in graph.node for name in node.output)
    taken = [name for node in graph.node for name in reads(node)]
    taken += [value.name for value in graph.output]
    return [name for name in taken if name and name not in own]
