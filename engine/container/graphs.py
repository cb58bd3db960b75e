"""Graphs as two sections: the structure as ONNX, the weights once, as raw bytes behind each other.

In the structure a tensor of 64 bytes or more says ``EXTERNAL`` with location ``weights``, an offset
(a multiple of 64) and a length. That is ONNX's own idiom; no file of that name is ever opened.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.container.blob import aligned, corrupt_error
from engine.graph.ir import Graph
from engine.graph.ir.graph import parse_proto

_LOCATION = "weights"
_SMALL = 64
_DEPTH = 16

StoredGraph = tuple[bytes, bytearray, dict[str, tuple[int, int]]]


def split_graph(graph: Graph) -> StoredGraph:
    """A graph as (structure, weights, tensor name -> (offset, size) within the weights)."""
    proto = graph.to_proto()
    weights = bytearray()
    places: dict[str, tuple[int, int]] = {}
    for tensor in proto.graph.initializer:
        if tensor.data_type == onnx.TensorProto.STRING:
            continue
        _make_raw(tensor)
        size = len(tensor.raw_data)
        if size < _SMALL:
            continue
        offset = aligned(len(weights))
        weights += bytes(offset - len(weights))
        weights += tensor.raw_data
        places[tensor.name] = (offset, size)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", _LOCATION), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
    return proto.SerializeToString(deterministic=True), weights, places


def _make_raw(tensor: onnx.TensorProto) -> None:
    """Values from the typed fields of a tensor to raw little-endian bytes."""
    if tensor.HasField("raw_data"):
        return
    raw = ir.serde.TensorProtoTensor(tensor).tobytes()
    for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(field)
    tensor.raw_data = raw


def join_graph(structure: memoryview, weights: memoryview, name: str, section: str) -> Graph:
    """Put :func:`split_graph`'s parts together.

    Raises:
        ContainerError: not a graph, or a tensor that does not lie where it must.
    """
    try:
        proto = parse_proto(bytes(structure))
    except GraphError as error:
        raise corrupt_error(name, f"section {section} (no ONNX graph)") from error
    end = 0
    for tensor in proto.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        offset, size = aligned(end), _size_of(tensor)
        expected = {"location": _LOCATION, "offset": str(offset), "length": str(size)}
        if entries != expected or size is None or offset + size > len(weights):
            raise corrupt_error(name, f"the place of a tensor in section {section}")
        end = offset + size
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        tensor.raw_data = bytes(weights[offset:end])
    if end != len(weights):
        raise corrupt_error(name, f"the size of the weights of section {section}")
    # a tensor anywhere else that names a file would be read from the reader's disk
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in _all_tensors(proto)):
        raise corrupt_error(name, f"a tensor of section {section} that names a file")
    try:
        return Graph.from_proto(proto)
    except GraphError as error:
        raise corrupt_error(name, f"section {section} ({error.what})") from error


def _size_of(tensor: onnx.TensorProto) -> int | None:
    """Bytes that a tensor's shape and type need; None where they make no sense."""
    count = 1
    for dim in tensor.dims:
        if dim < 0:
            return None
        count *= dim
    try:
        bits = int(ir.DataType(tensor.data_type).bitwidth)
    except (ValueError, TypeError, KeyError):
        return None
    return -(-count * bits // 8)


def _all_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors_of_graph(proto.graph, 0)
    for function in proto.functions:
        for node in function.node:
            yield from _tensors_of_node(node, 0)


def _tensors_of_graph(graph: onnx.GraphProto, depth: int) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _tensors_of_node(node, depth)


def _tensors_of_node(node: onnx.NodeProto, depth: int) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        yield attribute.t
        yield from attribute.tensors
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        if depth < _DEPTH:  # protobuf's own limit on nesting holds beyond it
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors_of_graph(inner, depth + 1)
