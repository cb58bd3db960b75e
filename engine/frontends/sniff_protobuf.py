"""What a protobuf file is, by its outer fields alone: the message itself is not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from engine.base.formats.protobuf import (
    LENGTH,
    VARINT,
    ProtobufError,
    TruncatedError,
    file_fields,
)

__all__ = [
    "looks_like_caffe",
    "looks_like_graph_def",
    "looks_like_onnx",
    "looks_like_saved_model",
    "outer_fields",
]

# field of onnx.ModelProto -> wire type; onnx.proto of onnx 1.23
_MODEL_FIELDS = {
    **dict.fromkeys((1, 5), VARINT),
    **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), LENGTH),
}
_GRAPH = 7
# ModelProto has a dozen kinds of fields; repeated ones (metadata, functions) stay far below this
_MAX_FIELDS = 100_000


def outer_fields(stream: BinaryIO, size: int) -> Iterator[tuple[int, int, int, int]]:
    """See :func:`engine.base.formats.protobuf.file_fields`."""
    return file_fields(stream, size, _MAX_FIELDS)


def looks_like_onnx(stream: BinaryIO, size: int) -> str:
    """Why a file looks like an ONNX model, also a truncated one; empty when it does not."""
    seen: set[int] = set()
    try:
        for field, wire, _, _ in outer_fields(stream, size):
            if _MODEL_FIELDS.get(field) != wire:
                return ""
            seen.add(field)
    except TruncatedError:
        # a cut model still starts with its IR version; the loader then says what is missing
        return "begins like an ONNX model, but ends too early" if 1 in seen else ""
    except ProtobufError:
        return ""
    return "its protobuf fields are an ONNX model's" if _GRAPH in seen else ""


def looks_like_caffe(stream: BinaryIO, size: int) -> str:
    """Why a file looks like a caffemodel; empty when it does not."""
    # caffe.NetParameter: name = 1, layers = 2 (V1), layer = 100
    counts: dict[int, int] = {}
    begins = b""
    try:
        for field, wire, start, length in outer_fields(stream, size):
            if field in (1, 2, 100) and wire != LENGTH:
                return ""
            counts[field] = counts.get(field, 0) + 1
            if field == 2 and not begins:
                begins = _payload(stream, start, length)
    except TruncatedError:
        pass  # a cut file still starts with its name and layers; the reader says what is missing
    except ProtobufError:
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
        fields = [(field, wire) for field, wire, _, _ in outer_fields(stream, size)]
    except ProtobufError:
        return ""
    found = fields[:1] == [(1, VARINT)] and set(fields[1:]) == {(2, LENGTH)}
    return "its protobuf fields are a SavedModel's" if found else ""


def looks_like_graph_def(stream: BinaryIO, size: int) -> str:
    """Why a file looks like a TensorFlow GraphDef, also a damaged one; empty when not."""
    # tensorflow.GraphDef: node = 1, library = 2, version = 3 (number), versions = 4
    begins, nodes = b"", 0
    try:
        for field, wire, start, length in outer_fields(stream, size):
            if {1: LENGTH, 2: LENGTH, 3: VARINT, 4: LENGTH, 5: LENGTH}.get(field) != wire:
                return ""
            if field == 1:
                nodes += 1
                begins = begins or _payload(stream, start, length)
    except ProtobufError:
        pass  # what begins with a node is told to be a damaged graph by its reader
    # a NodeDef starts with its name, field 1, which is text and never empty
    name = begins[2 : 2 + begins[1]] if len(begins) > 1 else b""
    named = begins[:1] == b"\x0a" and name.isascii() and name.decode("ascii").isprintable()
    return f"begins with {nodes} node messages" if name and named else ""


def _payload(stream: BinaryIO, start: int, length: int) -> bytes:
    """The first bytes of a field."""
    stream.seek(start)
    return stream.read(min(length, 16))
