"""Memory of a model on a chip of generation 1: weights, and the most that lives at one time.

Simple, and of low confidence: how the driver lays features out is not public.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod

from engine.cost.lowered import Lowered
from engine.wire.cost import MemoryCost, TensorSpan

__all__ = ["memory_of"]

_BIAS_BYTES = 4


def memory_of(lowered: Lowered) -> MemoryCost:
    """Bytes of weights and of the features that live together at the worst moment.

    Features are stacked by birth: sums that live together, which no planner can undercut.
    """
    size = 1 if lowered.dtype == "int8" else 2
    consts = {name for layer in lowered.layers for name in layer.consts if name in lowered.tensors}
    shapes = map(lowered.shape, consts)
    weight = sum(prod(each) * (size if len(each) > 1 else _BIAS_BYTES) for each in shapes)
    births, deaths = dict.fromkeys(lowered.inputs, 0), dict.fromkeys(lowered.inputs, 0)
    for at, layer in enumerate(lowered.layers):
        for name in (*layer.outputs, *layer.inputs):
            births.setdefault(name, at)
            deaths[name] = at
    last = len(lowered.layers) - 1
    deaths.update({name: last for name in lowered.outputs if name in births})
    starting, ending = defaultdict(list), defaultdict(list)
    for name, at in births.items():
        starting[at].append(name)
        ending[deaths[name]].append(name)
    sizes = {name: size * prod(lowered.shape(name)) for name in births if name in lowered.tensors}
    living = peak = 0
    spans: list[TensorSpan] = []
    for at in range(len(lowered.layers)):
        for name in starting.get(at, ()):
            end = living + sizes.get(name, 0)
            spans.append(TensorSpan(name, living, end, at, deaths[name]))
            living = end
        peak = max(peak, living)
        living -= sum(sizes.get(name, 0) for name in ending.get(at, ()))
    return MemoryCost(peak, weight, peak + weight, tuple(spans))
