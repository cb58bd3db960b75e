"""The graphs inside nodes (branches of If, bodies of Loop and Scan)."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

__all__ = ["inner_graphs", "reads", "walk"]


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node holds itself."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        elif attribute.graphs:
            yield from attribute.graphs


def walk(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and every graph inside it (protobuf allows about thirty of them in each other)."""
    yield graph
    for node in graph.node:
        for inner in inner_graphs(node) if node.attribute else ():
            yield from walk(inner)


def reads(node: onnx.NodeProto) -> list[str]:
    """The tensors that a node needs: its inputs, and what its graphs take from around them."""
    names = list(node.input)
    for graph in inner_graphs(node) if node.attribute else ():
        names += _captured(graph)
    return names


def _captured(graph: onnx.GraphProto) -> list[str]:
    own = {value.name for value in graph.input}
    own.update(tensor.name for tensor in graph.initializer)
    own.update(name for node in graph.node for name in node.output)
    taken = [name for node in graph.node for name in reads(node)]
    taken += [value.name for value in graph.output]
    return [name for name in taken if name and name not in own]
