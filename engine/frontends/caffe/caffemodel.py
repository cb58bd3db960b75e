"""The wire format of a ``.caffemodel``, read in place: names and blobs of its layers.

Numbers of fields are those of ``caffe.proto`` (BVLC/caffe): NetParameter name 1, layers 2 (V1),
layer 100; LayerParameter name 1, type 2, blobs 7; V1LayerParameter name 4, type 5, blobs 6;
BlobProto num, channels, height, width 1 to 4, data 5, shape 7, double_data 8; BlobShape dim 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.formats.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    FieldBudget,
    ProtobufError,
    varints,
)
from engine.base.text import sanitize

__all__ = ["StoredLayer", "read_caffemodel"]

_MAX_FIELDS = 300_000
_MAX_AXES = 32  # kMaxBlobAxes of caffe/blob.hpp
_NET_LAYER, _NET_V1_LAYER = 100, 2


@dataclass(frozen=True)
class StoredLayer:
    """A layer of the file: its name, and its weights as float32 that share the file's bytes."""

    name: str
    blobs: tuple[np.ndarray, ...]


def read_caffemodel(data: memoryview, source: str) -> tuple[StoredLayer, ...]:
    """The layers of a file, V1 and V2; weights stay where they are.

    Args:
        data: the file's bytes.
        source: its name, for errors.

    Raises:
        SourceModelError: truncated or damaged; the shape of a blob and its data do not fit; the
            weights are of a kind that is not read (half floats of a fork).
    """
    try:
        budget = FieldBudget(_MAX_FIELDS)
        return tuple(_layers(budget, data))
    except ProtobufError as error:
        raise SourceModelError(
            f"{sanitize(source)} is a damaged caffemodel: {error}.",
            cause="A download or copy was cut short, or the file was changed.",
            remedy="Copy or download it again.",
        ) from error


def _layers(budget: FieldBudget, data: memoryview) -> Iterator[StoredLayer]:
    for number, wire, _, payload in budget.fields(data):
        if number == 1 and wire == LENGTH:
            _text(payload, "net's name")
        elif number in (_NET_LAYER, _NET_V1_LAYER) and wire == LENGTH:
            yield _layer(budget, payload, v1=number == _NET_V1_LAYER)


def _text(payload: memoryview, what: str) -> str:
    """A text of at most 4096 bytes; bytes that are no UTF-8 become replacement characters."""
    if len(payload) > 4096:
        raise ProtobufError(f"the {what} has {len(payload)} bytes")
    return bytes(payload).decode("utf-8", "replace")


def _layer(budget: FieldBudget, data: memoryview, *, v1: bool) -> StoredLayer:
    name_field, type_field, blobs_field = (4, 5, 6) if v1 else (1, 2, 7)
    name, payloads = "", []
    for number, wire, _, payload in budget.fields(data):
        if number == name_field and wire == LENGTH:
            name = _text(payload, "name of a layer")
        elif number == type_field and wire == LENGTH:
            _text(payload, "type of a layer")
        elif number == blobs_field and wire == LENGTH:
            payloads.append(payload)
    return StoredLayer(name, tuple(_blob(budget, payload, name) for payload in payloads))


def _blob(budget: FieldBudget, data: memoryview, layer: str) -> np.ndarray:
    old = [1, 1, 1, 1]
    legacy = shaped = False
    dims: list[int] = []
    singles: list[memoryview] = []
    doubles: list[memoryview] = []
    others: set[int] = set()
    for number, wire, value, payload in budget.fields(data):
        if 1 <= number <= 4 and wire == VARINT:
            old[number - 1], legacy = value, True
        elif number == 5 and wire in (LENGTH, FIXED32):
            singles.append(payload)
        elif number == 7 and wire == LENGTH:
            dims, shaped = _dims(budget, payload), True
        elif number == 8 and wire in (LENGTH, FIXED64):
            doubles.append(payload)
        elif number not in (6, 9):  # gradients
            others.add(number)
    array = _numbers(singles, doubles, layer)
    shape = tuple(dims) if shaped and not legacy else tuple(old)
    if not legacy and not shaped:
        shape = (array.size,)  # a blob without any shape is read as what it holds
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        kind = f" (fields {sorted(others)} may hold another kind of numbers)" if others else ""
        raise ProtobufError(
            f"a blob of layer {sanitize(layer, 100)!r} has the shape "
            f"{'x'.join(map(str, shape))} and {array.size} numbers{kind}"
        ) from error


def _dims(budget: FieldBudget, data: memoryview) -> list[int]:
    dims: list[int] = []
    for number, wire, value, payload in budget.fields(data):
        if number != 1:
            continue
        if wire == VARINT:
            dims.append(value)
        elif wire == LENGTH:
            dims.extend(islice(varints(payload), _MAX_AXES + 1))
    if len(dims) > _MAX_AXES:
        raise ProtobufError(f"a blob has more than {_MAX_AXES} axes")
    return dims


def _numbers(singles: list[memoryview], doubles: list[memoryview], layer: str) -> np.ndarray:
    """The one array of a blob as float32; packed data (the rule) are not copied."""
    pieces, dtype = (doubles, "<f8") if doubles else (singles, "<f4")
    size = np.dtype(dtype).itemsize
    if any(len(piece) % size for piece in pieces):
        raise ProtobufError(f"a blob of layer {sanitize(layer, 100)!r} holds broken numbers")
    if not pieces:
        return np.empty(0, np.float32)
    whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return np.frombuffer(whole, dtype).astype(np.float32, copy=False)
