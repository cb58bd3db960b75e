"""FlatBuffers without a schema: tables by slot number, every offset checked before it is followed.

Form: https://flatbuffers.dev/internals/ - a table starts with the signed distance back to its
vtable; the vtable holds its own size, the table's size and one 16-bit offset per slot (0: absent).

The readers ask for fields of fixed depth and never follow data into unknown depth, so a cycle of
offsets cannot hang them. One table or text that many offsets share could still multiply: a budget
bounds what is read in all.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.container.vendor.span import Span

__all__ = ["FlatTable", "flat_root"]

_BUDGET = 48 << 20
_TABLE_COST = 256
_NUMBER_COST = 8
_WIDTHS = {"b": 1, "B": 1, "i": 4, "I": 4, "Q": 8}


class _Reader:
    """The buffer, the vtables seen (many tables share one), and how much of the budget is left."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.left = _BUDGET
        self._vtables: dict[int, tuple[tuple[int, ...], int]] = {}

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise self.span.damaged("there are more tables and lists than a model can have")

    def vtable(self, place: int) -> tuple[tuple[int, ...], int]:
        """(offset of each slot, size of the table) of the vtable there."""
        found = self._vtables.get(place)
        if found is None:
            length, size = self.span.unpack("HH", place, "a vtable")
            if length < 4 or length % 2 or size < 4:
                raise self.span.damaged(f"a vtable has the sizes {length} and {size}")
            self.spend(length * _NUMBER_COST)
            offsets = self.span.unpack(f"{(length - 4) // 2}H", place + 4, "a vtable")
            found = self._vtables[place] = (offsets, size)
        return found

    def vector(self, place: int, width: int, what: str) -> tuple[int, int]:
        """(place of the first item, number of items) of the vector that the field points to."""
        start = place + self.span.unpack("I", place, what)[0]
        (count,) = self.span.unpack("I", start, what)
        self.span.check(start + 4, count * width, what)
        return start + 4, count


class FlatTable:
    """One table; slots are counted from 0."""

    __slots__ = ("_offsets", "_place", "_reader", "_size")

    def __init__(self, reader: _Reader, place: int) -> None:
        reader.spend(_TABLE_COST)
        span = reader.span
        (back,) = span.unpack("i", place, "a table")
        self._offsets, self._size = reader.vtable(place - back)
        span.check(place, self._size, "a table")
        self._reader = reader
        self._place = place

    @property
    def slots(self) -> int:
        """How many slots its vtable has, present or not."""
        return len(self._offsets)

    def present(self, slot: int) -> bool:
        """Whether a slot has a value of its own."""
        return slot < len(self._offsets) and self._offsets[slot] != 0

    def _field(self, slot: int, width: int) -> int | None:
        if not self.present(slot):
            return None
        offset = self._offsets[slot]
        if offset < 4 or offset + width > self._size:
            raise self._reader.span.damaged(f"slot {slot} of a table lies outside of it")
        return int(self._place + offset)

    def number(self, slot: int, form: str = "i", default: int = 0) -> int:
        """An integer; its form is a letter of :mod:`struct` (``b B i I Q``)."""
        place = self._field(slot, _WIDTHS[form])
        if place is None:
            return default
        return int(self._reader.span.unpack(form, place, "a number")[0])

    def real(self, slot: int) -> float:
        """A float32; 0 where it is absent."""
        place = self._field(slot, 4)
        return 0.0 if place is None else float(self._reader.span.unpack("f", place, "a number")[0])

    def raw(self, slot: int) -> bytes:
        """A string or a vector of bytes."""
        place = self._field(slot, 4)
        if place is None:
            return b""
        start, count = self._reader.vector(place, 1, "a text")
        self._reader.spend(count)
        return self._reader.span.read(start, count)

    def text(self, slot: int) -> str:
        """A string; bytes that are no UTF-8 become replacement characters."""
        return self.raw(slot).decode("utf-8", "replace")

    def size_of(self, slot: int) -> int:
        """Number of bytes of a vector of bytes, without reading them."""
        place = self._field(slot, 4)
        return 0 if place is None else self._reader.vector(place, 1, "a list")[1]

    def numbers(self, slot: int) -> tuple[int, ...]:
        """A vector of 32-bit integers."""
        return self._list(slot, "i")

    def reals(self, slot: int) -> tuple[float, ...]:
        """A vector of float32."""
        return self._list(slot, "f")

    def _list(self, slot: int, form: str) -> tuple[int, ...]:
        place = self._field(slot, 4)
        if place is None:
            return ()
        start, count = self._reader.vector(place, 4, "a list")
        self._reader.spend(count * _NUMBER_COST)
        return self._reader.span.unpack(f"{count}{form}", start, "a list")

    def table(self, slot: int) -> FlatTable | None:
        """The table that a slot points to."""
        place = self._field(slot, 4)
        if place is None:
            return None
        (distance,) = self._reader.span.unpack("I", place, "a table")
        return FlatTable(self._reader, place + distance)

    def tables(self, slot: int) -> Iterator[FlatTable]:
        """A vector of tables, one at a time."""
        place = self._field(slot, 4)
        if place is None:
            return
        start, count = self._reader.vector(place, 4, "a list of tables")
        for entry in range(start, start + 4 * count, 4):
            (distance,) = self._reader.span.unpack("I", entry, "a list of tables")
            yield FlatTable(self._reader, entry + distance)


def flat_root(span: Span, identifier: bytes = b"") -> FlatTable:
    """The root table of a FlatBuffer.

    Raises:
        ContainerError: the identifier at byte 4 is another one, or an offset leaves the buffer.
            Every method of a table raises it too.
    """
    if identifier and span.read(4, len(identifier), "its identifier") != identifier:
        raise span.damaged(f"the identifier {identifier.decode()} is missing")
    (place,) = span.unpack("I", 0, "the root")
    return FlatTable(_Reader(span), place)
