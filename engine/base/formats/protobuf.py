"""Protobuf's wire format without a schema (protobuf.dev, "Encoding"), read within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types: a number, 8 bytes, a length and so many bytes, 4 bytes."""

_HEAD = 20  # a key and a length, of at most 10 bytes each
_NOTHING = memoryview(b"")


class ProtobufError(ValueError):
    """The bytes are no protobuf, or no sensible one; the text says why."""


class TruncatedError(ProtobufError):
    """The message ends inside a field."""


def fields(data: memoryview) -> Iterator[tuple[int, int, int, memoryview]]:
    """The fields of a message in memory.

    Yields:
        (field number, wire type, value of a varint, payload of the others).

    Raises:
        ProtobufError: the bytes are no message.
    """
    position, size = 0, len(data)
    while position < size:
        number, wire, value, position = _head(data, position)
        if wire == VARINT:
            yield number, wire, value, _NOTHING
            continue
        start, position = position, position + value
        if position > size:
            raise _cut(number, position - size)
        yield number, wire, 0, data[start:position]


def file_fields(stream: BinaryIO, size: int, most: int) -> Iterator[tuple[int, int, int, int]]:
    """The outer fields of a file; what they hold is not read.

    Args:
        stream: the file.
        size: its bytes.
        most: how many fields it may have.

    Yields:
        (field number, wire type, where its payload starts, bytes of it).

    Raises:
        ProtobufError: the bytes are no message, or there are too many fields.
    """
    position = 0
    budget = FieldBudget(most)
    while position < size:
        budget.spend()
        stream.seek(position)
        number, wire, length, used = _head(memoryview(stream.read(_HEAD)), 0)
        position += used
        if wire == VARINT:
            length = 0
        if position + length > size:
            raise _cut(number, position + length - size)
        yield number, wire, position, length
        position += length


class FieldBudget:
    """Bounds how many fields the messages of one file have together.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def fields(self, data: memoryview) -> Iterator[tuple[int, int, int, memoryview]]:
        """As :func:`fields`; too many are an error too."""
        for field in fields(data):
            self.spend()
            yield field

    def spend(self) -> None:
        """Count a field.

        Raises:
            ProtobufError: it is one too many.
        """
        self._left -= 1
        if self._left < 0:
            raise ProtobufError(f"it has more than {self._most} fields")


def _cut(number: int, missing: int) -> TruncatedError:
    return TruncatedError(f"field {number} needs {missing} more bytes than there are")


def _head(data: memoryview, position: int) -> tuple[int, int, int, int]:
    """(number, wire type, value of a varint or length of the payload, where that starts)."""
    key, position = _varint(data, position)
    wire = key & 7
    if key < 8:
        raise ProtobufError("a field has the number 0")
    if wire in (LENGTH, VARINT):
        value, position = _varint(data, position)
        return key >> 3, wire, value, position
    if wire in (FIXED32, FIXED64):
        return key >> 3, wire, 4 if wire == FIXED32 else 8, position
    raise ProtobufError(f"a field has the unknown wire type {wire}")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number of base 128, and where it ends."""
    try:
        value = data[position]
        if value < 0x80:  # nearly all of them
            return value, position + 1
        value &= 0x7F
        for used in range(1, 10):
            byte = data[position + used]
            value |= (byte & 0x7F) << (7 * used)
            if byte < 0x80:
                return value, position + used + 1
    except IndexError:
        raise TruncatedError("a number is cut") from None
    raise ProtobufError("a number is too long")


def varints(data: memoryview) -> Iterator[int]:
    """The numbers of a packed field.

    Raises:
        ProtobufError: one is cut or too long.
    """
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def signed(value: int) -> int:
    """A varint as an int64: negative ones are 64 bits long."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
