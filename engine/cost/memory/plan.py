"""The memory of a lowered graph on one chip: buffers, lifetimes, addresses, totals."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from engine.cost.cycles import aligned
from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor
from engine.cost.memory.layout import (
    converted_bytes,
    element_bytes,
    feature_bytes,
    image_bytes,
    is_image,
    padded_bytes,
    settled,
    turned_image_bytes,
    widened,
)
from engine.cost.memory.movements import is_view
from engine.cost.memory.recurrent import RECURRENT, beside, in_rows, recurrent_working, row_bytes
from engine.cost.memory.weights import weight_bytes
from engine.cost.memory.working import working_bytes
from engine.facts.npu import NpuProfile
from engine.wire.cost import MemoryCost, TensorSpan

# Addresses of buffers that live for a while: best fit, as the vendor's compiler places them.
#
# Buffers that are needed from the same layer on are placed in an order of its own: it keeps all
# tensors of a model, constants included, in a map by name, and sorts them by the time from which
# they are needed. Its sort is that of libstdc++, which does not keep the order of equals: so the
# parts of a Split come in an order that depends on how many tensors there are, and on where their
# names stand among all. Found of 148 tables of feature tensors of graphs with Splits (asked,
# toolkit 2.3.2): names that sort alike change nothing, others do. With this sort 147 have the
# printed size, and 142 each address.


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


def plan_memory(lowered: Lowered, npu: NpuProfile) -> MemoryCost:
    """Place every tensor as the vendor's compiler does.

    The spans are of feature tensors in the order in which they are placed; behind them those that
    lie where another one does, a Reshape's output in the place of its input.
    """
    lowered = settled(lowered)
    needs = needed(lowered, npu)
    starts = place(needs.buffers)
    rows = [*zip(needs.buffers, starts, strict=True)]
    rows += [(view, starts[home]) for view, home in needs.views]
    spans = tuple(
        TensorSpan(buffer.name, start, start + buffer.size, buffer.first, buffer.last)
        for buffer, start in rows
    )
    internal = max((span.end for span in spans), default=0)
    weight = weight_bytes(lowered, npu)
    return MemoryCost(internal, weight, internal + weight, spans)


_CONVOLUTIONS = ("Conv", "ConvTranspose")


@dataclass(frozen=True, slots=True)
class Needed:
    """What a graph needs room for.

    Attributes:
        buffers: in the order in which the compiler places them.
        views: tensors that lie where another one lies, with the place of that buffer in the list.
    """

    buffers: list[Buffer]
    views: list[tuple[Buffer, int]]


def shared_tensors(lowered: Lowered) -> frozenset[str]:
    """Features that more than one layer reads: none of them can be changed in place."""
    return frozenset(name for name, readers in lowered.readers.items() if len(readers) > 1)


def needed(lowered: Lowered, npu: NpuProfile) -> Needed:
    """Buffers and views of all tensors.

    A tensor lives from the layer that writes it to the last that reads it; an input from the first
    layer; an output to the last one.
    """
    return _Collector(lowered, npu).run()


class _Collector:
    """The buffers as they are found, layer by layer."""

    def __init__(self, lowered: Lowered, npu: NpuProfile) -> None:
        self._lowered, self._npu = lowered, npu
        self._end = max(len(lowered.layers) - 1, 0)
        self._shared = shared_tensors(lowered)
        self._recurrent = any(layer.kind in RECURRENT for layer in lowered.layers)
        self._last: dict[str, int] = {}
        for index, layer in enumerate(lowered.layers):
            self._last.update(dict.fromkeys(layer.inputs, index))
        self._last.update(dict.fromkeys(lowered.outputs, self._end))
        self._buffers: list[Buffer] = []
        self._later: dict[int, list[Buffer]] = defaultdict(list)
        self._views: list[tuple[Buffer, int]] = []
        self._home: dict[str, int] = {}

    def run(self) -> Needed:
        for index, layer in enumerate(self._lowered.layers):
            self._buffers += self._later.pop(index, [])
            for working in self._working(layer):
                copy = f"{layer.inputs[0]}_exSecondary"
                self._buffers.append(Buffer(copy, working, index, index))
            self._written(index, layer)
            if layer.op == "OutputOperator":
                self._converted(index, layer)
        return self._in_order()

    def _in_order(self) -> Needed:
        views = [view for view, _ in self._views]
        order = placing_order(self._buffers, views, self._lowered)
        place_of = {at: place for place, at in enumerate(order)}
        return Needed(
            [self._buffers[at] for at in order],
            [(view, place_of[home]) for view, home in self._views],
        )

    def _working(self, layer: LoweredLayer) -> tuple[int, ...]:
        if layer.kind in RECURRENT:
            return recurrent_working(layer, self._npu, self._lowered)
        working = working_bytes(layer, self._npu, self._lowered, self._shared)
        return (working,) if working else ()

    def _written(self, index: int, layer: LoweredLayer) -> None:
        writer = None if layer.op == "InputOperator" else layer
        view = bool(layer.inputs) and self._in_place(layer)
        for name in layer.outputs:
            tensor = self._lowered.tensors.get(name)
            if tensor is None or tensor.const or name in self._home:
                continue
            if writer is None and is_image(tensor):
                self._image(index, tensor)
                continue
            size = self._size(tensor, writer)
            buffer = Buffer(name, size, index, max(self._last.get(name, index), index))
            home = self._home[layer.inputs[0]] if view else -1
            if not view and widened(name, self._npu, self._lowered):
                plain = padded_bytes(tensor.shape, element_bytes(tensor.dtype), self._npu)
                buffer = replace(buffer, size=2 * (plain if layer.kind == "Transpose" else size))
            if view and size <= self._buffers[home].size:
                held = self._buffers[home]
                self._buffers[home] = replace(held, last=max(held.last, buffer.last))
                self._views.append((buffer, home))
            else:
                home = len(self._buffers)
                self._buffers.append(buffer)
            self._home[name] = home

    def _size(self, tensor: LoweredTensor, writer: LoweredLayer | None) -> int:
        """Beside recurrent layers a feature of three axes is in rows or in groups."""
        shape, size = tensor.shape, element_bytes(tensor.dtype)
        readers = self._lowered.readers.get(tensor.name, ())
        if len(shape) != 3 or not self._recurrent or not beside(writer, readers):
            return feature_bytes(tensor, self._npu, writer, self._lowered)
        if in_rows(writer, readers, self._npu):
            return row_bytes(shape, size, self._npu)
        return padded_bytes((shape[0], shape[1], 1, shape[2]), size, self._npu)

    def _image(self, index: int, tensor: LoweredTensor) -> None:
        """An image is read as it is by convolutions; for others one turns it into channels."""
        layers = self._lowered.layers
        reads = [at for at, layer in enumerate(layers) if tensor.name in layer.inputs]
        others = [at for at in reads if layers[at].kind not in _CONVOLUTIONS]
        plain = [at for at in reads if layers[at].kind in _CONVOLUTIONS] + others[:1]
        size = image_bytes(tensor, self._npu)
        self._buffers.append(Buffer(tensor.name, size, index, max([index, *plain])))
        self._home[tensor.name] = len(self._buffers) - 1
        if others:
            turned = turned_image_bytes(tensor, self._npu)
            name = f"New_input_{tensor.name}"
            self._later[others[0]].append(Buffer(name, turned, others[0], others[-1]))

    def _in_place(self, layer: LoweredLayer) -> bool:
        source = layer.inputs[0]
        if source in self._shared or source not in self._home or source in self._lowered.inputs:
            return False
        return is_view(layer, self._npu, self._lowered)

    def _converted(self, index: int, layer: LoweredLayer) -> None:
        sizes = converted_bytes(layer, self._npu, self._lowered)
        for part, size in enumerate(sizes):
            copy = f"{layer.inputs[0]}_exSecondary{part if len(sizes) > 1 else ''}"
            self._buffers.append(Buffer(copy, size, index, self._end))
