"""The memory of a lowered graph on one chip: buffers, lifetimes, internal and weights."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor
from engine.cost.memory.allocator import Buffer, place, placing_order
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


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of a model on a chip, estimated.

    Attributes:
        internal: of all feature tensors, those that are needed at different times above each other.
        weight: of all constants.
        spans: feature tensors in the order in which they are placed; behind them those that lie
            where another one does, a Reshape's output in the place of its input.
    """

    internal: int
    weight: int
    spans: tuple[TensorSpan, ...]

    @property
    def total(self) -> int:
        """Internal and weights together."""
        return self.internal + self.weight

    def cost(self, *, spans: bool = False) -> MemoryCost:
        """As the wire has it; with the tensors over time where ``spans``."""
        return MemoryCost(self.internal, self.weight, self.total, self.spans if spans else ())


def plan_memory(lowered: Lowered, npu: NpuProfile) -> MemoryPlan:
    """Place every tensor as the vendor's compiler does."""
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
    return MemoryPlan(internal, weight_bytes(lowered, npu), spans)


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
