"""The outer fields of a protobuf file, read without loading it (protobuf's encoding document)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

__all__ = ["TruncatedError", "looks_like_caffe", "looks_like_onnx", "model_fields"]

# field of onnx.ModelProto -> wire type (0 varint, 2 length-delimited); onnx.proto of onnx 1.23
_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_GRAPH = 7
# ModelProto has a dozen kinds of fields; repeated ones (metadata, functions) stay far below this
_MAX_FIELDS = 100_000


class TruncatedError(ValueError):
    """The file ends inside a field."""


def model_fields(stream: BinaryIO, size: int) -> Iterator[tuple[int, int, int]]:
    """The outer fields of a file of ``size`` bytes: (field number, wire type, bytes of payload).

    Raises:
        TruncatedError: the file ends inside a field; also when a length points past its end.
        ValueError: the bytes are no protobuf.
    """
    position = 0
    for _ in range(_MAX_FIELDS):
        if position == size:
            return
        key, used = _varint(stream)
        position += used
        field, wire = key >> 3, key & 7
        length = 0
        if wire == 0:
            _, length = _varint(stream)
        elif wire == 2:
            length, used = _varint(stream)
            position += used
            if position + length > size:
                raise TruncatedError(f"field {field} needs {position + length - size} more bytes")
            stream.seek(length, 1)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
            stream.seek(length, 1)
        else:
            raise ValueError(f"wire type {wire}")
        if field == 0:
            raise ValueError("field 0")
        position += length
        if position > size:
            raise TruncatedError(f"field {field} is cut")
        yield field, wire, length
    raise ValueError("too many fields")


def _varint(stream: BinaryIO) -> tuple[int, int]:
    value = 0
    for used in range(10):
        byte = stream.read(1)
        if not byte:
            raise TruncatedError("a number is cut")
        value |= (byte[0] & 0x7F) << (7 * used)
        if byte[0] < 0x80:
            return value, used + 1
    raise ValueError("a number is too long")


def looks_like_onnx(stream: BinaryIO, size: int) -> str:
    """Why a file looks like an ONNX model, also a truncated one; empty when it does not."""
    seen: set[int] = set()
    try:
        for field, wire, _ in model_fields(stream, size):
            if _MODEL_FIELDS.get(field) != wire:
                return ""
            seen.add(field)
    except TruncatedError:
        # a cut model still starts with its IR version; the loader then says what is missing
        return "begins like an ONNX model, but ends too early" if 1 in seen else ""
    except ValueError:
        return ""
    return "its protobuf fields are an ONNX model's" if _GRAPH in seen else ""


def looks_like_caffe(stream: BinaryIO, size: int) -> str:
    """Why a file looks like a caffemodel; empty when it does not."""
    # caffe.NetParameter: name = 1, layers = 2 (V1), layer = 100
    counts: dict[int, int] = {}
    begins = b""
    try:
        for field, wire, length in model_fields(stream, size):
            if field in (1, 2, 100) and wire != 2:
                return ""
            counts[field] = counts.get(field, 0) + 1
            if field == 2 and not begins:
                begins = _payload(stream, length)
    except TruncatedError:
        pass  # a cut file still starts with its name and layers; the reader says what is missing
    except ValueError:
        return ""
    if 100 in counts:
        return "its protobuf fields are a Caffe net's"
    # V1LayerParameter starts with bottom 2, top 3, name 4 or type 5; GraphDefs have many field 1
    old = counts.get(1, 0) <= 1 and counts.get(2, 0) > 0 and begins[:1] in b"\x12\x1a\x22\x28"
    return "its protobuf fields are an old Caffe net's (V1 layers)" if old and begins else ""


def looks_like_saved_model(stream: BinaryIO, size: int) -> str:
    """Why a file looks like ``saved_model.pb``; empty when it does not."""
    # tensorflow.SavedModel: saved_model_schema_version = 1 (number), meta_graphs = 2
    try:
        fields = [(field, wire) for field, wire, _ in model_fields(stream, size)]
    except ValueError:
        return ""
    found = fields[:1] == [(1, 0)] and set(fields[1:]) == {(2, 2)}
    return "its protobuf fields are a SavedModel's" if found else ""


def looks_like_graph_def(stream: BinaryIO, size: int) -> str:
    """Why a file looks like a TensorFlow GraphDef, also a damaged one; empty when not."""
    # tensorflow.GraphDef: node = 1, library = 2, version = 3 (number), versions = 4
    begins, nodes = b"", 0
    try:
        for field, wire, length in model_fields(stream, size):
            if {1: 2, 2: 2, 3: 0, 4: 2, 5: 2}.get(field) != wire:
                return ""
            if field == 1:
                nodes += 1
                begins = begins or _payload(stream, length)
    except ValueError:
        pass  # what begins with a node is told to be a damaged graph by its reader
    # a NodeDef starts with its name, field 1, which is text and never empty
    name = begins[2 : 2 + begins[1]] if len(begins) > 1 else b""
    named = begins[:1] == b"\x0a" and name.isascii() and name.decode("ascii").isprintable()
    return f"begins with {nodes} node messages" if name and named else ""


def _payload(stream: BinaryIO, length: int) -> bytes:
    """The first bytes of the field that was just passed."""
    end = stream.tell()
    stream.seek(end - length)
    found = stream.read(min(length, 16))
    stream.seek(end)
    return found
