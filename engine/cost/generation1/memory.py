"""Memory of a model on a chip of generation 1: weights, and the most that lives at one time.

Simple, and of low confidence: how the driver lays features out is not public.
"""

from __future__ import annotations

from math import prod

from engine.cost.lowered import Lowered
from engine.wire.cost import MemoryCost, TensorSpan

__all__ = ["memory_of"]

_BIAS_BYTES = 4


def memory_of(lowered: Lowered, spans: bool = False) -> MemoryCost:
    """Bytes of weights and of the features that live together at the worst moment.

    Args:
        lowered: the layers.
        spans: whether each feature's place is in the answer.
    """
    weights = _weights(lowered)
    births, deaths = _lifetimes(lowered)
    rows, peak = _placed(lowered, births, deaths)
    return MemoryCost(
        internal=peak,
        weight=weights,
        total=peak + weights,
        spans=tuple(rows) if spans else (),
    )


def _weights(lowered: Lowered) -> int:
    size = 1 if lowered.dtype == "int8" else 2
    total = 0
    for name in dict.fromkeys(each for layer in lowered.layers for each in layer.consts):
        found = lowered.tensors.get(name)
        if found is not None:
            one = size if len(found.shape) > 1 else _BIAS_BYTES
            total += prod(found.shape) * one
    return total


def _lifetimes(lowered: Lowered) -> tuple[dict[str, int], dict[str, int]]:
    births = dict.fromkeys(lowered.inputs, 0)
    deaths = dict.fromkeys(lowered.inputs, 0)
    for at, layer in enumerate(lowered.layers):
        for name in layer.outputs:
            births.setdefault(name, at)
            deaths[name] = at
        for name in layer.inputs:
            births.setdefault(name, at)
            deaths[name] = at
    last = len(lowered.layers) - 1
    for name in lowered.outputs:
        if name in births:
            deaths[name] = last
    return births, deaths


def _placed(
    lowered: Lowered, births: dict[str, int], deaths: dict[str, int]
) -> tuple[list[TensorSpan], int]:
    """Features stacked by birth: sums that live together, which no planner can undercut."""
    ending: dict[int, list[str]] = {}
    starting: dict[int, list[str]] = {}
    for name, at in births.items():
        starting.setdefault(at, []).append(name)
        ending.setdefault(deaths[name], []).append(name)
    live = peak = 0
    rows: list[TensorSpan] = []
    for at in range(len(lowered.layers)):
        for name in starting.get(at, ()):
            size = _bytes(name, lowered)
            rows.append(TensorSpan(name, live, live + size, at, deaths[name]))
            live += size
        peak = max(peak, live)
        live -= sum(_bytes(name, lowered) for name in ending.get(at, ()))
    return rows, peak


def _bytes(name: str, lowered: Lowered) -> int:
    found = lowered.tensors.get(name)
    if found is None:
        return 0
    return prod(found.shape) * (1 if lowered.dtype == "int8" else 2)
