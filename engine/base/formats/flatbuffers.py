"""FlatBuffers without a schema: tables by slot number, every offset checked before it is followed.

Form: https://flatbuffers.dev/internals/ - a table starts with the signed distance back to its
vtable; the vtable holds its own size, the table's size and one 16-bit offset per slot (0: absent).
The accessors that ``flatc`` generates trust the file.

The readers ask for fields of fixed depth and never follow data into unknown depth, and distances
lead forward only (they are unsigned and do not wrap here): offsets cannot go round. One table or
text that many offsets share could still multiply: a budget bounds what is read in all.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from typing import Any

_TABLE_COST = 160
_NUMBER_COST = 8
_VIEW_COST = 1 << 16
_INT = struct.Struct("<i")
_UINT = struct.Struct("<I")
_PAIR = struct.Struct("<HH")
_NUMBERS = {form: struct.Struct(f"<{form}") for form in "?bBiIqQf"}


class FlatError(ValueError):
    """The bytes break a rule of the format; the text says which."""


class FlatBuffer:
    """The bytes, the vtables seen (many tables share one), and how much of the budget is left.

    Places are those in the whole file. Each read looks at the bounds itself and asks nobody: a
    large model has a million of them.

    Args:
        data: the file.
        budget: about how many bytes of memory everything that is read may take.
        start, size: where the buffer lies in the file; all of it by default.
        fault: makes the error that every method of the buffer and its tables raises.
    """

    def __init__(
        self,
        data: bytes | mmap.mmap,
        budget: int,
        *,
        start: int = 0,
        size: int | None = None,
        fault: Callable[[str], Exception] = FlatError,
    ) -> None:
        self.data = data
        self.start = start
        self.end = len(data) if size is None else start + size
        self.left = budget
        self.fault = fault
        self._vtables: dict[int, tuple[tuple[int, ...], int]] = {}

    def root(self) -> FlatTable:
        """The root table."""
        return FlatTable(self, self.start + self.number(_UINT, self.start))

    def spend(self, cost: int) -> None:
        """Count what is read against the budget."""
        self.left -= cost
        if self.left < 0:
            raise self.fault("there are more tables and lists than a model can have")

    def check(self, place: int, size: int) -> None:
        """Hold ``size`` bytes at ``place`` against the bounds."""
        if place < self.start or place + size > self.end:
            raise self.fault(
                f"an offset leads to {place - self.start}, with {size} bytes to read, but there "
                f"are {self.end - self.start}"
            )

    def number(self, layout: struct.Struct, place: int) -> Any:
        """The number at ``place``."""
        self.check(place, layout.size)
        return layout.unpack_from(self.data, place)[0]

    def vtable(self, place: int) -> tuple[tuple[int, ...], int]:
        """(offset of each slot, size of the table) of the vtable there."""
        table = self._vtables.get(place)
        if table is None:
            self.check(place, _PAIR.size)
            length, size = _PAIR.unpack_from(self.data, place)
            if length < 4 or length % 2 or size < 4:
                raise self.fault(f"a vtable has the sizes {length} and {size}")
            self.check(place, length)
            self.spend(length * _NUMBER_COST)
            slots = (length - 4) // 2
            table = struct.unpack_from(f"<{slots}H", self.data, place + _PAIR.size), size
            self._vtables[place] = table
        return table

    def vector(self, place: int, width: int) -> tuple[int, int]:
        """(place of the first item, number of items) of the vector that the field points to."""
        start = place + self.number(_UINT, place)
        count = self.number(_UINT, start)
        start += _UINT.size
        self.check(start, count * width)
        return start, count


class FlatTable:
    """One table; slots are counted from 0, as the fields of a schema."""

    __slots__ = ("_buffer", "_offsets", "_place", "_size")

    def __init__(self, buffer: FlatBuffer, place: int) -> None:
        buffer.spend(_TABLE_COST)
        self._offsets, self._size = buffer.vtable(place - buffer.number(_INT, place))
        buffer.check(place, self._size)
        self._buffer = buffer
        self._place = place

    def present(self, slot: int) -> bool:
        """Whether a slot has a value of its own."""
        return slot < len(self._offsets) and self._offsets[slot] != 0

    def _field(self, slot: int, width: int) -> int | None:
        offset = self._offsets[slot] if slot < len(self._offsets) else 0
        if not offset:
            return None
        if offset < 4 or offset + width > self._size:
            raise self._buffer.fault(f"slot {slot} of a table lies outside of it")
        return self._place + offset

    def number(self, slot: int, form: str = "i", default: int = 0) -> int:
        """An integer (or bool); its form is a letter of :mod:`struct` (``? b B i I q Q``)."""
        layout = _NUMBERS[form]
        place = self._field(slot, layout.size)
        return default if place is None else int(layout.unpack_from(self._buffer.data, place)[0])

    def real(self, slot: int) -> float:
        """A float32; 0 where it is absent."""
        place = self._field(slot, 4)
        return (
            0.0 if place is None else float(_NUMBERS["f"].unpack_from(self._buffer.data, place)[0])
        )

    def raw(self, slot: int) -> bytes:
        """A string or a vector of bytes."""
        place = self._field(slot, 4)
        if place is None:
            return b""
        start, count = self._buffer.vector(place, 1)
        self._buffer.spend(count)
        return self._buffer.data[start : start + count]

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
        start, count = self._buffer.vector(place, 4)
        self._buffer.spend(count * _NUMBER_COST)
        return struct.unpack_from(f"<{count}{form}", self._buffer.data, start)

    def view(self, slot: int, width: int) -> memoryview | None:
        """The bytes of a vector of items of ``width`` bytes, not copied; None where absent."""
        place = self._field(slot, 4)
        if place is None:
            return None
        start, count = self._buffer.vector(place, width)
        self._buffer.spend(min(count * width, _VIEW_COST))
        return memoryview(self._buffer.data)[start : start + count * width]

    def table(self, slot: int) -> FlatTable | None:
        """The table that a slot points to."""
        place = self._field(slot, 4)
        if place is None:
            return None
        return FlatTable(self._buffer, place + self._buffer.number(_UINT, place))

    def tables(self, slot: int) -> Iterator[FlatTable]:
        """A vector of tables, one at a time."""
        place = self._field(slot, 4)
        if place is None:
            return
        start, count = self._buffer.vector(place, 4)
        for entry in range(start, start + 4 * count, 4):
            (distance,) = _UINT.unpack_from(self._buffer.data, entry)
            yield FlatTable(self._buffer, entry + distance)
