"""Graphs and the quant table, each as a section for the structure and one of raw numbers.

Graphs: the structure as ONNX, the weights once, as raw bytes behind each other.

In the structure a tensor of 64 bytes or more says ``EXTERNAL`` with location ``weights``, an offset
(a multiple of 64) and a length. That is ONNX's own idiom; no file of that name is ever opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import Message

from engine.base.errors import GraphError, QuantizationError
from engine.base.plain import JsonObject
from engine.container.blob import aligned, corrupt_error
from engine.graph.ir import Graph, QuantTable
from engine.graph.ir.graph import parse_proto

_LOCATION = "weights"
_SMALL = 64
_WITHOUT = {"ValueInfoProto", "StringStringEntryProto", "OperatorSetIdProto"}
"""Messages of a model in which no tensor is, by the thousand."""

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
    try:
        bits = int(ir.DataType(tensor.data_type).bitwidth)
    except (ValueError, TypeError, KeyError):
        return None
    if any(dim < 0 for dim in tensor.dims):
        return None
    return -(-math.prod(tensor.dims) * bits // 8)


def _all_tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """The tensors in a message of protobuf, which bounds itself how deep one is nested."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.name not in _WITHOUT:
            for part in [value] if isinstance(value, Message) else value:
                yield from _all_tensors(part)


# The quant table as two sections: JSON for what is short, raw numbers for what is per channel.
#
# ``quant_table`` is a list of ``[tensor, parameters]`` in the table's order. A list of more than
# ``INLINE`` numbers stands there as ``{"at": offset, "count": n, "type": t}`` and lies in
# ``quant_values`` as little-endian ``f4`` (where float32 holds every value), ``f8``, ``i1``, ``i2``
# or ``i4``; the lists follow each other without gaps. It takes a third of the room of JSON alone.

INLINE = 4
_LISTS = ("scale", "zero_point", "minimum", "maximum")
_TYPES = ("f4", "f8", "i1", "i2", "i4")


def split_table(table: QuantTable) -> tuple[list[Any], bytearray]:
    """A table as (JSON data, raw numbers)."""
    raw = bytearray()
    entries: list[Any] = []
    for tensor, params in table.items():
        entry = dict(params.to_json())
        for field in _LISTS:
            values: Sequence[float] = getattr(params, field) or ()
            if len(values) > INLINE:
                kind, content = _stored(values, whole=field == "zero_point")
                entry[field] = {"at": len(raw), "count": len(values), "type": kind}
                raw += content
        entries.append([tensor, entry])
    return entries, raw


def _stored(values: Sequence[float], *, whole: bool) -> tuple[str, bytes]:
    """The smallest type that holds the values exactly, and their bytes."""
    wide = np.asarray(values, dtype=np.int64 if whole else np.float64)
    for kind in ("i1", "i2", "i4") if whole else ("f4",):
        with np.errstate(over="ignore"):
            narrow = wide.astype(f"<{kind}")
        if np.array_equal(narrow, wide):
            return kind, narrow.tobytes()
    return "f8", wide.astype("<f8").tobytes()


def join_table(data: Any, raw: memoryview) -> QuantTable:
    """Put :func:`split_table`'s parts together.

    Raises:
        QuantizationError: they do not fit together; parameters that break a rule.
    """
    end = 0
    entries: dict[str, JsonObject] = {}
    for pair in _list(data):
        tensor, params = _pair(pair)
        entry = dict(params)
        for field in _LISTS:
            place = entry.get(field)
            if isinstance(place, Mapping):
                entry[field], end = _values(place, raw, end)
        entries[tensor] = entry
    if end != len(raw) or len(entries) != len(data):
        raise _malformed()
    return QuantTable.from_json(entries)


def _values(place: JsonObject, raw: memoryview, end: int) -> tuple[list[Any], int]:
    at, count, kind = place.get("at"), place.get("count"), place.get("type")
    if at != end or kind not in _TYPES or type(count) is not int or count <= INLINE:
        raise _malformed()
    size = count * int(kind[1])
    if size > len(raw) - end:
        raise _malformed()
    return np.frombuffer(raw[end : end + size], dtype=f"<{kind}").tolist(), end + size


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise _malformed()
    return data


def _pair(pair: Any) -> tuple[str, JsonObject]:
    if not (isinstance(pair, list) and len(pair) == 2):
        raise _malformed()
    tensor, params = pair
    if not isinstance(tensor, str) or not isinstance(params, Mapping):
        raise _malformed()
    return tensor, params


def _malformed() -> QuantizationError:
    return QuantizationError(
        "The quant table is malformed.", remedy="Export the container again from its model."
    )
