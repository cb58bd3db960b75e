"""FlatBuffers without a schema: tables by slot number, every offset checked before it is followed.

Form: https://flatbuffers.dev/internals/ - a table starts with the signed distance back to its
vtable; the vtable holds its own size, the table's size and one 16-bit offset per slot (0: absent).

The readers ask for fields of fixed depth and never follow data into unknown depth, and distances
lead forward only (they are unsigned and do not wrap here): offsets cannot go round. One table or
text that many offsets share could still multiply: a budget bounds what is read in all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from engine.container.vendor.span import Span

__all__ = ["FlatTable", "flat_root"]

_BUDGET = 48 << 20
_TABLE_COST = 160
_NUMBER_COST = 8
_INT = struct.Struct("<i")
_UINT = struct.Struct("<I")
_PAIR = struct.Struct("<HH")
_NUMBERS = {form: struct.Struct(f"<{form}") for form in "bBiIQf"}


class _Reader:
    """The buffer, the vtables seen (many tables share one), and how much of the budget is left.

    Places are those in the whole file. Each read looks at the bounds itself and asks nobody: a
    large model has a million of them.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        self.data = span.data
        self.start = span.start
        self.end = span.start + span.size
        self.left = _BUDGET
        self._vtables: dict[int, tuple[tuple[int, ...], int]] = {}

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise self.span.damaged("there are more tables and lists than a model can have")

    def check(self, place: int, size: int) -> None:
        if place < self.start or place + size > self.end:
            raise self.span.damaged(
                f"an offset leads to {place - self.start}, with {size} bytes to read, but there "
                f"are {self.span.size}"
            )

    def number(self, layout: struct.Struct, place: int) -> Any:
        self.check(place, layout.size)
        return layout.unpack_from(self.data, place)[0]

    def vtable(self, place: int) -> tuple[tuple[int, ...], int]:
        """(offset of each slot, size of the table) of the vtable there."""
        found = self._vtables.get(place)
        if found is None:
            self.check(place, _PAIR.size)
            length, size = _PAIR.unpack_from(self.data, place)
            if length < 4 or length % 2 or size < 4:
                raise self.span.damaged(f"a vtable has the sizes {length} and {size}")
            self.check(place, length)
            self.spend(length * _NUMBER_COST)
            slots = (length - 4) // 2
            found = struct.unpack_from(f"<{slots}H", self.data, place + _PAIR.size), size
            self._vtables[place] = found
        return found

    def vector(self, place: int, width: int) -> tuple[int, int]:
        """(place of the first item, number of items) of the vector that the field points to."""
        start = place + self.number(_UINT, place)
        count = self.number(_UINT, start)
        start += _UINT.size
        self.check(start, count * width)
        return start, count


class FlatTable:
    """One table; slots are counted from 0."""

    __slots__ = ("_offsets", "_place", "_reader", "_size")

    def __init__(self, reader: _Reader, place: int) -> None:
        reader.spend(_TABLE_COST)
        self._offsets, self._size = reader.vtable(place - reader.number(_INT, place))
        reader.check(place, self._size)
        self._reader = reader
        self._place = place

    def present(self, slot: int) -> bool:
        """Whether a slot has a value of its own."""
        return slot < len(self._offsets) and self._offsets[slot] != 0

    def _field(self, slot: int, width: int) -> int | None:
        offset = self._offsets[slot] if slot < len(self._offsets) else 0
        if not offset:
            return None
        if offset < 4 or offset + width > self._size:
            raise self._reader.span.damaged(f"slot {slot} of a table lies outside of it")
        return self._place + offset

    def number(self, slot: int, form: str = "i", default: int = 0) -> int:
        """An integer; its form is a letter of :mod:`struct` (``b B i I Q``)."""
        layout = _NUMBERS[form]
        place = self._field(slot, layout.size)
        return default if place is None else int(layout.unpack_from(self._reader.data, place)[0])

    def real(self, slot: int) -> float:
        """A float32; 0 where it is absent."""
        place = self._field(slot, 4)
        return (
            0.0 if place is None else float(_NUMBERS["f"].unpack_from(self._reader.data, place)[0])
        )

    def raw(self, slot: int) -> bytes:
        """A string or a vector of bytes."""
        place = self._field(slot, 4)
        if place is None:
            return b""
        start, count = self._reader.vector(place, 1)
        self._reader.spend(count)
        return self._reader.data[start : start + count]

    def text(self, slot: int) -> str:
        """A string; bytes that are no UTF-8 become replacement characters."""
        return self.raw(slot).decode("utf-8", "replace")

    def numbers(self, slot: int) -> tuple[int, ...]:
        """A vector of 32-bit integers."""
        return self._list(slot, "i")

    def reals(self, slot: int) -> tuple[float, ...]:
        """A vector of float32."""
        return self._list(slot, "f")

    def _list(self, slot: int, form: str) -> tuple[Any, ...]:
        place = self._field(slot, 4)
        if place is None:
            return ()
        start, count = self._reader.vector(place, 4)
        self._reader.spend(count * _NUMBER_COST)
        return struct.unpack_from(f"<{count}{form}", self._reader.data, start)

    def table(self, slot: int) -> FlatTable | None:
        """The table that a slot points to."""
        place = self._field(slot, 4)
        if place is None:
            return None
        return FlatTable(self._reader, place + self._reader.number(_UINT, place))

    def tables(self, slot: int) -> Iterator[FlatTable]:
        """A vector of tables, one at a time."""
        place = self._field(slot, 4)
        if place is None:
            return
        start, count = self._reader.vector(place, 4)
        for entry in range(start, start + 4 * count, 4):
            (distance,) = _UINT.unpack_from(self._reader.data, entry)
            yield FlatTable(self._reader, entry + distance)


def flat_root(span: Span, identifier: bytes = b"") -> FlatTable:
    """The root table of a FlatBuffer.

    Raises:
        ContainerError: the identifier at byte 4 is another one, or an offset leaves the buffer.
            Every method of a table raises it too.
    """
    if identifier and span.read(4, len(identifier), "its identifier") != identifier:
        raise span.damaged(f"the identifier {identifier.decode()} is missing")
    (distance,) = span.unpack("I", 0, "the root")
    return FlatTable(_Reader(span), span.start + distance)
