"""Addresses of buffers that live for a while: best fit, as the vendor's compiler places them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["ALIGNMENT", "Buffer", "aligned", "place"]

ALIGNMENT = 64
"""Every tensor starts at a multiple of it, in bytes."""


def aligned(value: int, step: int = ALIGNMENT) -> int:
    """Rounded up to a multiple of ``step``."""
    return -(-value // step) * step


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that are needed from layer ``first`` to layer ``last``, both included."""

    name: str
    size: int
    first: int
    last: int


class _Memory:
    """Free room below the highest byte in use, by size and by address."""

    def __init__(self) -> None:
        self._top = 0
        self._by_size: list[tuple[int, int]] = []
        self._size_at: dict[int, int] = {}
        self._start_of: dict[int, int] = {}

    def take(self, size: int) -> int:
        """The start of the smallest gap that holds ``size`` bytes; of equal ones the lowest."""
        at = bisect_left(self._by_size, (size, -1))
        if at == len(self._by_size):
            start, self._top = self._top, self._top + size
            return start
        gap, start = self._by_size[at]
        self._forget(start, gap)
        if gap > size:
            self._keep(start + size, gap - size)
        return start

    def give_back(self, start: int, size: int) -> None:
        """Free what :meth:`take` gave, and join it with the free room beside it."""
        end = start + size
        after = self._size_at.get(end)
        if after is not None:
            self._forget(end, after)
            size += after
        before = self._start_of.get(start)
        if before is not None:
            length = start - before
            self._forget(before, length)
            start, size = before, size + length
        if start + size == self._top:
            self._top = start
        else:
            self._keep(start, size)

    def _keep(self, start: int, size: int) -> None:
        insort(self._by_size, (size, start))
        self._size_at[start] = size
        self._start_of[start + size] = start

    def _forget(self, start: int, size: int) -> None:
        del self._by_size[bisect_left(self._by_size, (size, start))]
        del self._size_at[start]
        del self._start_of[start + size]


def place(buffers: Sequence[Buffer]) -> list[int]:
    """The start of each buffer, in bytes.

    Buffers are placed in the order given, which must be that of ``first``: each into the smallest
    gap that holds it, above everything else where none does. What was last needed by an earlier
    layer is free by then. The vendor's compiler does so: of the tensors of its printed tables this
    gives the address of nearly every one (docs/estimates/derivation.md, "Memory").

    Raises:
        ValueError: the buffers are not in the order of ``first``.
    """
    memory = _Memory()
    ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
    starts: list[int] = []
    now = 0
    for buffer in buffers:
        if buffer.first < now:
            raise ValueError(f"{buffer.name} is placed after a buffer of a later layer.")
        for layer in _expired(ends, now, buffer.first):
            for start, size in ends.pop(layer):
                memory.give_back(start, size)
        now = buffer.first
        size = aligned(buffer.size)
        start = memory.take(size) if size else 0
        starts.append(start)
        if size:
            ends[max(buffer.last, buffer.first)].append((start, size))
    return starts


def _expired(ends: dict[int, list[tuple[int, int]]], now: int, first: int) -> Iterable[int]:
    if first == now:
        return ()
    if first - now <= len(ends):
        return [layer for layer in range(now, first) if layer in ends]
    return sorted(layer for layer in ends if layer < first)
