"""In which order the compiler places buffers that are needed from the same layer on.

It keeps all tensors of a model, constants included, in a map by name, and sorts them by the time
from which they are needed. Its sort is that of libstdc++, which does not keep the order of equals:
so the parts of a Split come in an order that depends on how many tensors there are, and on where
their names stand among all. Found of 148 tables of feature tensors of graphs with Splits (asked,
toolkit 2.3.2): names that sort alike change nothing, others do. With this sort 147 have the printed
size, and 142 each address.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.cost.lowered import Lowered
from engine.cost.memory.allocator import Buffer

__all__ = ["placing_order", "unstable_order"]

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
        (each.first, each.name in written, 0 if each.name in written else at)
        for at, each in enumerate(buffers)
    ]
    if len(set(times)) == len(times):
        return list(range(len(buffers)))
    found = [
        (each.name, time, at) for at, (each, time) in enumerate(zip(buffers, times, strict=True))
    ]
    found += [(view.name, (view.first, True, 0), -1) for view in views]
    constants = {name for layer in lowered.layers for name in layer.consts}
    found += [(name, (-1, False, 0), -1) for name in constants]
    found.sort(key=lambda each: each[0])
    sorted_places = unstable_order([time for _, time, _ in found])
    return [found[at][2] for at in sorted_places if found[at][2] >= 0]


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
