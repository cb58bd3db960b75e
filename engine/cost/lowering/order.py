"""The order in which the vendor's compiler runs the layers of a graph.

Layers of one plain operator run as soon as what they read is there. Layers with something fused
into them wait their turn behind those that became ready before; layers that work on a copy of a
tensor wait until nothing else is left. A convolution that int8 gave a bias waits until the layers
behind the inputs have run, as if the bias were one more input. Found by comparing with the printed
tables, whose order of whole networks this gives; the addresses of tensors follow from it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.chips.npu import NpuProfile
from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.memory.layout import converted_bytes
from engine.cost.memory.lifetime import shared_tensors
from engine.cost.memory.working import working_bytes

__all__ = ["in_order"]


def in_order(lowered: Lowered, npu: NpuProfile) -> Lowered:
    """The same layers as the compiler orders them; a cycle's layers come last, as they were."""
    order = _Order(lowered, npu).run()
    late = [at for at in order if lowered.layers[at].added_bias]
    if late:
        order = _Order(lowered, npu, late).run()
    if len(order) < len(lowered.layers):
        seen = set(order)
        order += [at for at in range(len(lowered.layers)) if at not in seen]
    return replace(lowered, layers=tuple(lowered.layers[at] for at in order))


class _Order:
    """One ordering: what each layer still waits for, and the layers that wait their turn."""

    def __init__(self, lowered: Lowered, npu: NpuProfile, late: Sequence[int] = ()) -> None:
        self._lowered, self._npu, self._late = lowered, npu, late
        self._layers = lowered.layers
        self._shared = shared_tensors(lowered)
        self._readers: dict[str, list[int]] = defaultdict(list)
        written = {name for layer in self._layers for name in layer.outputs}
        self._missing: list[int] = []
        for at, layer in enumerate(self._layers):
            names = [name for name in dict.fromkeys(layer.inputs) if name in written]
            self._missing.append(len(names))
            for name in names:
                self._readers[name].append(at)
        for at in late:
            self._missing[at] += 1
        for readers in self._readers.values():
            readers.sort(key=lambda at: _is_late(self._layers[at]))
        self._done: list[int] = []
        self._fused: deque[int] = deque()
        self._copying: deque[int] = deque()
        self._found: list[int] = []

    def run(self) -> list[int]:
        """The places of the layers that can run, in order."""
        starts = [at for at, missing in enumerate(self._missing) if not missing]
        inputs = [at for at in starts if self._layers[at].op == "InputOperator"]
        for at in inputs:
            self._from(at)
        for at in starts:
            if self._layers[at].op != "InputOperator":
                self._from(at)
        for at in self._late:
            self._missing[at] -= 1
            if not self._missing[at]:
                self._visit(at)
        while True:
            while self._fused:
                self._from(self._fused.popleft())
            # what a copying layer made ready comes before the copying layers that waited already
            self._copying.extendleft(reversed(self._found))
            self._found = []
            if not self._copying:
                return self._done
            self._from(self._copying.popleft())

    def _visit(self, at: int) -> None:
        """Run a layer that became ready outside of a walk, or let it wait its turn."""
        if self._copies(self._layers[at]):
            self._found.append(at)
        elif self._layers[at].op != self._layers[at].kind:
            self._fused.append(at)
        else:
            self._from(at)

    def _from(self, start: int) -> None:
        """Run a layer, and at once each plain one that becomes ready by it, depth first."""
        stack = [self._ready(start)]
        while stack:
            at = next(stack[-1], None)
            if at is None:
                stack.pop()
            elif self._copies(self._layers[at]):
                self._found.append(at)
            elif self._layers[at].op != self._layers[at].kind:
                self._fused.append(at)
            else:
                stack.append(self._ready(at))

    def _ready(self, at: int) -> Iterator[int]:
        self._done.append(at)
        for name in self._layers[at].outputs:
            for reader in self._readers[name]:
                self._missing[reader] -= 1
                if not self._missing[reader]:
                    yield reader

    def _copies(self, layer: LoweredLayer) -> bool:
        if layer.op == "OutputOperator":
            tensor = self._lowered.tensors.get(layer.inputs[0])
            return tensor is not None and bool(converted_bytes(tensor, self._npu))
        return bool(working_bytes(layer, self._npu, self._lowered, self._shared))


def _is_late(layer: LoweredLayer) -> bool:
    """Whether the compiler makes a layer of others so late that it is the last reader."""
    return layer.kind == "exSDPAttention" or "_2dw" in layer.name
