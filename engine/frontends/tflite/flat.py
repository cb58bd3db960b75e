"""FlatBuffers tables, read with every offset checked (flatbuffers.dev, "Internals").

The accessors that ``flatc`` generates trust the file. Here each offset, vector length and vtable is
held against the buffer before it is followed, and what all vectors hold together is bounded, since
a small file may point at one vector many times.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

__all__ = ["FlatBuffer", "FlatError", "Table"]

_SCALARS = {
    "?": struct.Struct("<?"),
    "b": struct.Struct("<b"),
    "B": struct.Struct("<B"),
    "i": struct.Struct("<i"),
    "I": struct.Struct("<I"),
    "q": struct.Struct("<q"),
    "Q": struct.Struct("<Q"),
    "f": struct.Struct("<f"),
}
_U16 = struct.Struct("<H")
_U32 = _SCALARS["I"]
_I32 = _SCALARS["i"]
_MAX_STRING = 1 << 16
# Vectors may be shared, and are: exporters write equal ones once. Files of exporters stay below 2.
_SHARING = 8


class FlatError(ValueError):
    """The bytes break a rule of the format; the text says which."""


class FlatBuffer:
    """The bytes of one file, and how much of them was handed out.

    Args:
        data: the whole file.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._budget = _SHARING * len(data) + (1 << 16)

    def root(self) -> Table:
        """The root table.

        Raises:
            FlatError: as every method here: an offset or a length points outside the file.
        """
        return self.table(self.number(0, _U32))

    def number(self, position: int, kind: struct.Struct) -> int:
        """The integer at ``position``."""
        if position < 0 or position + kind.size > len(self.data):
            raise FlatError(f"an offset points to byte {position} of {len(self.data)}")
        return int(kind.unpack_from(self.data, position)[0])

    def spend(self, count: int) -> None:
        """Count what is read against what the file can honestly hold."""
        self._budget -= count
        if self._budget < 0:
            raise FlatError("its vectors hold many times the size of the file")

    def table(self, position: int) -> Table:
        """The table that starts at ``position``."""
        vtable = position - self.number(position, _I32)
        size = self.number(vtable, _U16)
        if size < 4 or size % 2 or vtable + size > len(self.data):
            raise FlatError(f"the table at byte {position} has a broken vtable")
        self.spend(size)
        fields = struct.unpack_from(f"<{size // 2 - 2}H", self.data, vtable + 4)
        return Table(self, position, fields)

    def span(self, position: int, item: int) -> tuple[int, int]:
        """Start and count of the vector at ``position`` with items of ``item`` bytes."""
        count = self.number(position, _U32)
        start = position + 4
        if count * item > len(self.data) - start:
            raise FlatError(f"a vector at byte {position} has {count} entries")
        self.spend(4 + min(count * item, 1 << 16))
        return start, count


class Table:
    """One table; fields by their number in the schema."""

    __slots__ = ("_buffer", "_fields", "_position")

    def __init__(self, buffer: FlatBuffer, position: int, fields: tuple[int, ...]) -> None:
        self._buffer = buffer
        self._position = position
        self._fields = fields

    def _at(self, field: int) -> int:
        """Where a field lies; 0 where the file leaves it out."""
        offset = self._fields[field] if field < len(self._fields) else 0
        return self._position + offset if offset else 0

    def _target(self, field: int) -> int:
        at = self._at(field)
        return at + self._buffer.number(at, _U32) if at else 0

    def number(self, field: int, kind: str, default: int = 0) -> int:
        """An integer (or bool, as 0 and 1) field."""
        at = self._at(field)
        return self._buffer.number(at, _SCALARS[kind]) if at else default

    def real(self, field: int, default: float = 0.0) -> float:
        """A float32 field."""
        at = self._at(field)
        if not at:
            return default
        if at + 4 > len(self._buffer.data):
            raise FlatError(f"a field lies at byte {at}, behind the end")
        return float(_SCALARS["f"].unpack_from(self._buffer.data, at)[0])

    def table(self, field: int) -> Table | None:
        """A table that this one refers to."""
        target = self._target(field)
        return self._buffer.table(target) if target else None

    def vector(self, field: int, dtype: str) -> np.ndarray | None:
        """A vector of numbers, as a view on the file."""
        target = self._target(field)
        if not target:
            return None
        kind = np.dtype(dtype)
        start, count = self._buffer.span(target, kind.itemsize)
        return np.frombuffer(self._buffer.data, kind, count, start)

    def ints(self, field: int) -> tuple[int, ...] | None:
        """A vector of int32 as a tuple; None where it is left out."""
        found = self.vector(field, "<i4")
        if found is None:
            return None
        self._buffer.spend(4 * len(found))
        return tuple(found.tolist())

    def tables(self, field: int) -> Iterator[Table]:
        """A vector of tables."""
        target = self._target(field)
        if not target:
            return
        start, count = self._buffer.span(target, 4)
        for position in range(start, start + 4 * count, 4):
            yield self._buffer.table(position + self._buffer.number(position, _U32))

    def text(self, field: int) -> str:
        """A string; bytes that are no UTF-8 are replaced."""
        target = self._target(field)
        if not target:
            return ""
        start, count = self._buffer.span(target, 1)
        if count > _MAX_STRING:
            raise FlatError(f"a name has {count} bytes")
        self._buffer.spend(count)
        return self._buffer.data[start : start + count].decode("utf-8", "replace")
