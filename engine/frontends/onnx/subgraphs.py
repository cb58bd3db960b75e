"""The graphs inside nodes (branches of If, bodies of Loop and Scan)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx

__all__ = ["inner_graphs", "reads", "stored", "walk"]

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


def stored(
    graph: onnx.GraphProto, functions: Iterable[onnx.FunctionProto] = ()
) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Every constant that a model holds, with a name for messages: in graphs, inner graphs, nodes
    and functions, dense and sparse.
    """
    for part in walk(graph):
        for tensor in part.initializer:
            yield tensor.name, tensor
        for sparse in part.sparse_initializer:
            yield from _parts(sparse)
        yield from _held(part.node)
    for function in functions:
        yield from _held(function.node)
        for node in function.node:
            for inner in inner_graphs(node):
                yield from stored(inner)


def _held(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, onnx.TensorProto]]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t.name or f"{attribute.name} of {node.name}", attribute.t
            for tensor in attribute.tensors:
                yield tensor.name or f"{attribute.name} of {node.name}", tensor
            if attribute.HasField("sparse_tensor"):
                yield from _parts(attribute.sparse_tensor)


def _parts(sparse: onnx.SparseTensorProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    yield sparse.values.name, sparse.values
    yield f"indices of {sparse.values.name}", sparse.indices


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
