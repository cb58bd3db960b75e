"""Addresses of buffers that live for a while: best fit, as the vendor's compiler places them.

Buffers that are needed from the same layer on are placed in an order of its own: it keeps all
tensors of a model, constants included, in a map by name, and sorts them by the time from which they
are needed. Its sort is that of libstdc++, which does not keep the order of equals: so the parts of
a Split come in an order that depends on how many tensors there are, and on where their names stand
among all. Found of 148 tables of feature tensors of graphs with Splits (asked, toolkit 2.3.2):
names that sort alike change nothing, others do. With this sort 147 have the printed size, and 142
each address.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from engine.cost.lowered import Lowered

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


_FEW = 16
"""Up to so many are sorted by insertion, which keeps the order of equals."""


def placing_order(
    buffers: Sequence[Buffer], views: Collection[Buffer], lowered: Lowered
) -> list[int]:
    """Places in ``buffers`` in the order in which the compiler places them.

    Working memory comes before what its layer writes; outputs of one layer as they are sorted.

    Args:
        buffers: in the order of ``first``, working memory of a layer before its outputs.
        views: tensors that lie where another one does; they take part in the sort.
        lowered: all layers and tensors.
    """
    written = {name for layer in lowered.layers for name in layer.outputs}
    times = [
        (buffer.first, buffer.name in written, 0 if buffer.name in written else at)
        for at, buffer in enumerate(buffers)
    ]
    if len(set(times)) == len(times):
        return list(range(len(buffers)))
    entries = [
        (buffer.name, time, at)
        for at, (buffer, time) in enumerate(zip(buffers, times, strict=True))
    ]
    entries += [(view.name, (view.first, True, 0), -1) for view in views]
    constants = {name for layer in lowered.layers for name in layer.consts}
    entries += [(name, (-1, False, 0), -1) for name in constants]
    entries.sort(key=lambda entry: entry[0])
    sorted_places = unstable_order([time for _, time, _ in entries])
    return [entries[at][2] for at in sorted_places if entries[at][2] >= 0]


def unstable_order(keys: Sequence[tuple[int, ...]]) -> list[int]:
    """Places of ``keys`` from the smallest on, equals in the order of ``std::sort`` of libstdc++.

    Quicksort around the median of three, down to parts of 16, and one insertion sort at the end.
    Where it would sort a part by a heap (too many halves that are none), equals stay in order.
    """
    order = list(range(len(keys)))
    _part(order, keys, 0, len(order), 2 * (len(order).bit_length() - 1))
    for at in range(1, len(order)):
        moved = order[at]
        place = at
        while place and keys[moved] < keys[order[place - 1]]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = moved
    return order


def _part(
    order: list[int], keys: Sequence[tuple[int, ...]], start: int, end: int, depth: int
) -> None:
    while end - start > _FEW:
        if not depth:
            order[start:end] = sorted(order[start:end], key=lambda at: keys[at])
            return
        depth -= 1
        three = (start + 1, (start + end) // 2, end - 1)
        median = _median(*(keys[order[at]] for at in three))
        order[start], order[three[median]] = order[three[median]], order[start]
        pivot = keys[order[start]]
        low, high = start + 1, end
        while True:
            while keys[order[low]] < pivot:
                low += 1
            high -= 1
            while pivot < keys[order[high]]:
                high -= 1
            if low >= high:
                break
            order[low], order[high] = order[high], order[low]
            low += 1
        _part(order, keys, low, end, depth)
        end = low


def _median(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> int:
    """Which of three lies between the others; of equals the one that libstdc++ takes."""
    if a < b:
        return 1 if b < c else 2 if a < c else 0
    return 0 if a < c else 2 if b < c else 1
