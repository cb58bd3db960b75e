"""The wire format of a ``.caffemodel``, read in place: names and blobs of its layers.

Numbers of fields are those of ``caffe.proto`` (BVLC/caffe): NetParameter name 1, layers 2 (V1),
layer 100; LayerParameter name 1, type 2, blobs 7; V1LayerParameter name 4, type 5, blobs 6;
BlobProto num, channels, height, width 1 to 4, data 5, shape 7, double_data 8; BlobShape dim 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.text import printable

__all__ = ["Blob", "StoredLayer", "StoredNet", "read_caffemodel"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_FIELDS = 300_000
_MAX_AXES = 32  # kMaxBlobAxes of caffe/blob.hpp
_NET_LAYER, _NET_V1_LAYER = 100, 2


@dataclass(frozen=True)
class Blob:
    """One array of weights: its shape as stored, and float32 numbers that share the file's bytes.

    ``legacy`` says that the shape is the old one of num, channels, height and width.
    """

    shape: tuple[int, ...]
    data: np.ndarray
    legacy: bool


@dataclass(frozen=True)
class StoredLayer:
    """A layer of the file; ``type`` is its word, or its number where it is a V1 layer."""

    name: str
    type: str
    blobs: tuple[Blob, ...]


@dataclass(frozen=True)
class StoredNet:
    """What a caffemodel holds; ``v1`` says that layers of the old kind are among them."""

    name: str
    layers: tuple[StoredLayer, ...]
    v1: bool


@dataclass
class _Reader:
    """Bounds shared by all messages of one file."""

    source: str
    left: int = field(default_factory=lambda: _MAX_FIELDS)

    def fault(self, what: str) -> SourceModelError:
        return SourceModelError(
            f"{printable(self.source)} is a damaged caffemodel: {what}.",
            cause="A download or copy was cut short, or the file was changed.",
            remedy="Copy or download it again.",
        )

    def fields(self, data: memoryview) -> Iterator[tuple[int, int, int, memoryview]]:
        """(field number, wire type, value of a varint, payload) of one message."""
        position, size = 0, len(data)
        while position < size:
            self.left -= 1
            if self.left < 0:
                raise self.fault(f"it has more than {_MAX_FIELDS} fields")
            key, position = self.varint(data, position)
            number, wire = key >> 3, key & 7
            value = 0
            start = position
            if wire == _VARINT:
                value, position = self.varint(data, position)
            elif wire == _BYTES:
                length, start = self.varint(data, position)
                position = start + length
            elif wire in (_FIXED64, _FIXED32):
                position += 8 if wire == _FIXED64 else 4
            else:
                raise self.fault(f"a field has the unknown wire type {wire}")
            if position > size:
                missing = position - size
                raise self.fault(f"field {number} needs {missing} more bytes than there are")
            yield number, wire, value, data[start:position]

    def varint(self, data: memoryview, position: int) -> tuple[int, int]:
        """A number of base 128, and where the next field begins."""
        value = 0
        for shift in range(0, 70, 7):
            if position >= len(data):
                raise self.fault("a number is cut")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
        raise self.fault("a number is too long")

    def text(self, payload: memoryview, what: str) -> str:
        """A text of at most 4096 bytes; bytes that are no UTF-8 become replacement characters."""
        if len(payload) > 4096:
            raise self.fault(f"the {what} has {len(payload)} bytes")
        return bytes(payload).decode("utf-8", "replace")


def read_caffemodel(data: memoryview, source: str) -> StoredNet:
    """Read a whole file; weights stay where they are.

    Args:
        data: the file's bytes.
        source: its name, for errors.

    Raises:
        SourceModelError: truncated or damaged; the shape of a blob and its data do not fit; the
            weights are of a kind that is not read (half floats of a fork).
    """
    reader = _Reader(source)
    name, layers, v1 = "", [], False
    for number, wire, _, payload in reader.fields(data):
        if number == 1 and wire == _BYTES:
            name = reader.text(payload, "net's name")
        elif number in (_NET_LAYER, _NET_V1_LAYER) and wire == _BYTES:
            layers.append(_layer(reader, payload, v1=number == _NET_V1_LAYER))
            v1 = v1 or number == _NET_V1_LAYER
    return StoredNet(name, tuple(layers), v1)


def _layer(reader: _Reader, data: memoryview, *, v1: bool) -> StoredLayer:
    name_field, type_field, blobs_field = (4, 5, 6) if v1 else (1, 2, 7)
    name, kind = "", ""
    payloads = []
    for number, wire, value, payload in reader.fields(data):
        if number == name_field and wire == _BYTES:
            name = reader.text(payload, "name of a layer")
        elif number == type_field:
            kind = reader.text(payload, "type of a layer") if wire == _BYTES else str(value)
        elif number == blobs_field and wire == _BYTES:
            payloads.append(payload)
    blobs = tuple(_blob(reader, payload, name) for payload in payloads)
    return StoredLayer(name, kind, blobs)


def _blob(reader: _Reader, data: memoryview, layer: str) -> Blob:
    old = [1, 1, 1, 1]
    legacy = shaped = False
    dims: list[int] = []
    singles: list[memoryview] = []
    doubles: list[memoryview] = []
    others: set[int] = set()
    for number, wire, value, payload in reader.fields(data):
        if 1 <= number <= 4 and wire == _VARINT:
            old[number - 1], legacy = value, True
        elif number == 5 and wire in (_BYTES, _FIXED32):
            singles.append(payload)
        elif number == 7 and wire == _BYTES:
            dims, shaped = _dims(reader, payload), True
        elif number == 8 and wire in (_BYTES, _FIXED64):
            doubles.append(payload)
        elif number not in (6, 9):  # gradients
            others.add(number)
    array = _numbers(reader, singles, doubles, layer)
    shape = tuple(dims) if shaped and not legacy else tuple(old)
    if not legacy and not shaped:
        shape = (array.size,)  # a blob without any shape is read as what it holds
    count = math.prod(shape)
    if array.size != count:
        kind = f" (fields {sorted(others)} may hold another kind of numbers)" if others else ""
        raise reader.fault(
            f"a blob of layer {printable(layer, 100)!r} has the shape "
            f"{'x'.join(map(str, shape))} and {array.size} numbers{kind}"
        )
    return Blob(shape, array, legacy)


def _dims(reader: _Reader, data: memoryview) -> list[int]:
    dims: list[int] = []
    for number, wire, value, payload in reader.fields(data):
        if number != 1:
            continue
        if wire == _VARINT:
            dims.append(value)
        position = 0
        while wire == _BYTES and position < len(payload) and len(dims) <= _MAX_AXES:
            size, position = reader.varint(payload, position)
            dims.append(size)
    if len(dims) > _MAX_AXES:
        raise reader.fault(f"a blob has more than {_MAX_AXES} axes")
    return dims


def _numbers(
    reader: _Reader, singles: list[memoryview], doubles: list[memoryview], layer: str
) -> np.ndarray:
    """The one array of a blob as float32; packed data (the rule) are not copied."""
    pieces, dtype = (doubles, "<f8") if doubles else (singles, "<f4")
    size = np.dtype(dtype).itemsize
    if any(len(piece) % size for piece in pieces):
        raise reader.fault(f"a blob of layer {printable(layer, 100)!r} holds broken numbers")
    if not pieces:
        return np.empty(0, np.float32)
    whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return np.frombuffer(whole, dtype).astype(np.float32, copy=False)
