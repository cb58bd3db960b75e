"""The order in which the vendor's compiler runs the layers of a graph.

It orders twice. First, layers of one plain operator run as soon as what they read is there, depth
first. These wait their turn: layers with something fused into them, the Split of a grouped
convolution, and a convolution that the compiler made and int8 gave a bias, as if the bias were an
input that comes behind the first of them. Outputs run before those. Then layers that work on a copy
of a tensor are put off: one runs only where no other layer can, in the first order. Inputs of the
graph come before all.

Found by comparing with the printed tables of rknn-toolkit2 2.3.2, whose order of whole networks
this gives; the addresses of tensors follow from it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.memory.layout import converted_bytes
from engine.cost.memory.plan import shared_tensors
from engine.cost.memory.working import working_bytes
from engine.facts.npu import NpuProfile

_SCORE_STEPS = 6
"""So many layers between a product of queries and keys and its Softmax are looked through."""


def in_order(lowered: Lowered, npu: NpuProfile) -> Lowered:
    """The same layers as the compiler orders them; a cycle's layers come last, as they were."""
    scored = _scored(lowered)
    first = _Order(lowered, scored).run()
    late = [at for at in first if lowered.layers[at].late_bias]
    if late:
        first = _Order(lowered, scored, late).run()
    order = _copies_last(first, lowered, npu, scored)
    if len(order) < len(lowered.layers):
        seen = set(order)
        order += [at for at in range(len(lowered.layers)) if at not in seen]
    order.sort(key=lambda at: lowered.layers[at].op != "InputOperator")  # inputs come first
    return replace(lowered, layers=tuple(lowered.layers[at] for at in order))


class _Waiting:
    """What each layer still waits for."""

    def __init__(self, layers: Sequence[LoweredLayer], scored: Collection[str]) -> None:
        self._layers = layers
        self._readers: dict[str, list[int]] = defaultdict(list)
        written = {name for layer in layers for name in layer.outputs}
        self.missing: list[int] = []
        for at, layer in enumerate(layers):
            names = [name for name in dict.fromkeys(layer.inputs) if name in written]
            self.missing.append(len(names))
            for name in names:
                self._readers[name].append(at)
        for readers in self._readers.values():
            readers.sort(key=lambda at: layers[at].name in scored or _is_last_reader(layers[at]))

    def behind(self, at: int) -> Iterator[int]:
        """The layers that become ready when one has run."""
        readers = [reader for name in self._layers[at].outputs for reader in self._readers[name]]
        return iter([reader for reader in readers if self.arrived(reader)])  # all at once

    def arrived(self, at: int) -> bool:
        """Whether a layer is ready, since one more of its inputs is there."""
        self.missing[at] -= 1
        return not self.missing[at]


class _Order:
    """The first ordering: a walk from the inputs, and the layers that wait their turn."""

    def __init__(self, lowered: Lowered, scored: Collection[str], late: Sequence[int] = ()) -> None:
        self._layers = lowered.layers
        self._waiting = _Waiting(self._layers, scored)
        for at in late:
            self._waiting.missing[at] += 1
        self._late = late
        self._joins = {layer.name for layer in self._layers if layer.kind == "Concat"}
        self._done: list[int] = []
        self._turns: deque[int] = deque()
        self._ends: list[int] = []

    def run(self) -> list[int]:
        """The places of the layers that can run, in order."""
        starts = [at for at, missing in enumerate(self._waiting.missing) if not missing]
        starts.sort(key=lambda at: self._layers[at].op != "InputOperator")
        for at in starts:
            self._from(at)
        self._ends_first()
        self._turns.extend(~at for at in self._late)
        while self._turns:
            at = self._turns.popleft()
            if at >= 0:
                self._from(at)
            elif self._waiting.arrived(~at) and not self._waits(~at):  # its bias
                self._from(~at)
            self._ends_first()
        return self._done

    def _ends_first(self) -> None:
        self._turns.extendleft(sorted(self._ends, reverse=True))
        self._ends = []

    def _from(self, start: int) -> None:
        """Run a layer, and at once each plain one that becomes ready by it, depth first."""
        stack = [self._ready(start)]
        while stack:
            at = next(stack[-1], None)
            if at is None:
                stack.pop()
            elif not self._waits(at):
                stack.append(self._ready(at))

    def _ready(self, at: int) -> Iterator[int]:
        self._done.append(at)
        return self._waiting.behind(at)

    def _waits(self, at: int) -> bool:
        """Whether a layer that became ready waits its turn; it is put where it waits."""
        layer = self._layers[at]
        if layer.op == "OutputOperator":
            self._ends.append(at)
        elif layer.op != layer.kind or (layer.kind == "Split" and layer.name in self._joins):
            self._turns.append(at)
        else:
            return False
        return True


def _copies_last(
    first: Sequence[int], lowered: Lowered, npu: NpuProfile, scored: Collection[str]
) -> list[int]:
    """The second ordering: of the layers that are ready the first one that makes no copy."""
    layers, shared = lowered.layers, shared_tensors(lowered)
    rank = {at: (_copies(layers[at], lowered, npu, shared), n) for n, at in enumerate(first)}
    waiting = _Waiting(layers, scored)
    ready: list[tuple[bool, int, int]] = []
    for at in first:
        if not waiting.missing[at]:
            heappush(ready, (*rank[at], at))
    order = []
    while ready:
        *_, at = heappop(ready)
        order.append(at)
        for reader in waiting.behind(at):
            heappush(ready, (*rank[reader], reader))
    return order


def _copies(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, shared: frozenset[str]) -> bool:
    """Whether a layer needs room beside its tensors while it runs."""
    if layer.op == "OutputOperator":
        return bool(converted_bytes(layer, npu, lowered))
    if layer.kind == "Reshape" and layer.target == "NPU" and npu.family != "rk3566":
        return True  # it waits as they do, also where it is a view
    return bool(working_bytes(layer, npu, lowered, shared))


def _scored(lowered: Lowered) -> set[str]:
    """Convolutions that give the queries and keys of an attention: the compiler turns the product
    that they were, and so makes them anew behind that of the values.
    """
    names = set()
    for layer in lowered.layers:
        attends = layer.kind == "exSDPAttention"
        if not attends and not (layer.kind == "exMatMul" and _goes_to_softmax(layer, lowered)):
            continue
        for name in layer.inputs[:2] if attends else layer.inputs:
            maker = lowered.writers.get(name)
            while maker is not None and maker.kind in ("Reshape", "Transpose") and maker.inputs:
                maker = lowered.writers.get(maker.inputs[0])
            if maker is not None and maker.kind == "Conv":
                names.add(maker.name)
    return names


def _goes_to_softmax(layer: LoweredLayer, lowered: Lowered) -> bool:
    """Whether what a layer writes is scaled, masked and moved at most before a Softmax reads it."""
    for _ in range(_SCORE_STEPS):
        read = lowered.readers.get(layer.outputs[0], ())
        if len(read) != 1:
            return False
        (layer,) = read
        if "oftmax" in layer.kind:
            return True
        if layer.kind not in ("Mul", "Div", "Add", "Sub", "Reshape", "Transpose"):
            return False
    return False


def _is_last_reader(layer: LoweredLayer) -> bool:
    """Whether the compiler makes a layer of others so late that it is the last reader."""
    return layer.kind == "exSDPAttention" or "_2dw" in layer.name
