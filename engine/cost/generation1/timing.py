"""From a layer's work to milliseconds on a chip of generation 1: few terms, a reason for each.

The parameters are package data, written by ``scripts/fit_time_model_gen1.py``; what each means and
how well it is known stands in the data and in docs/estimates/derivation.md.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from engine.cost.generation1.work import Work
from engine.facts import figures
from engine.wire.cost import Bound

__all__ = [
    "DESIGNS",
    "SCALE",
    "STRATA",
    "LayerTime",
    "Machine",
    "known_share",
    "layer_time",
    "machine",
    "network_time",
    "parameters",
    "slow",
    "spread",
    "stratum",
]

DESIGNS = {"rk1808": "rk1808", "rk3399pro": "rk1808", "rv1109": "rv1126", "rv1126": "rv1126"}
"""Chip -> the NPU design that it shares."""

SCALE = 4.0
"""Exponent of the sum in which MAC array and memory overlap: nearly the larger of the two."""

STRATA = ("convolutions", "others")
"""Networks with an interval of their own: nearly all of their time in work that many fitted
networks have, or not."""

_KNOWN = 0.85
"""Share of known work that makes a network one of ``convolutions``."""

_KERNEL_LIMIT = 11
"""Kernels above this times the stride are not for the MAC array (Trouble Shooting 1.4.0, 6.1)."""

_NO_GAPS = "rk1808"
"""Design that is slow with dilated depthwise windows: DeepLab runs at 4.4 frames a second there
(published; a reviewer's row, not in the fit), and these windows on the array would make it 19."""


@dataclass(frozen=True)
class Machine:
    """A chip as the time model sees it.

    Attributes:
        design: of :data:`DESIGNS`.
        mhz: clock of the NPU.
        peak: MACs per cycle in int8.
        peak_float16: the same in float16; 0 where the MAC array is not used for it.
    """

    design: str
    mhz: float
    peak: float
    peak_float16: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Milliseconds of a layer, and what most of them are."""

    ms: float
    bound: Bound


def machine(
    chip: str, npu_mhz: float | None = None, values: Mapping[str, float] | None = None
) -> Machine:
    """The chip at a clock, its highest where None.

    Args:
        chip: a name of :data:`DESIGNS`.
        npu_mhz: clock of the NPU.
        values: parameters in place of the fitted ones, of that design.

    Raises:
        KeyError: no such chip.
    """
    design = DESIGNS[chip]
    highest = figures.number(chip, "npu_mhz")
    return Machine(
        design=design,
        mhz=npu_mhz or highest or 0.0,
        peak=figures.number(chip, "macs_int8") or 0.0,
        peak_float16=figures.number(chip, "macs_fp16") or 0.0,
        values=parameters(design) if values is None else values,
    )


def layer_time(work: Work, on: Machine) -> LayerTime:
    """Time of one layer.

    Args:
        work: what it does.
        on: the chip.
    """
    p = on.values
    cycles_per_ms = on.mhz * 1e3
    start = p["start"] / cycles_per_ms
    memory = work.bytes / (p["bandwidth"] * 1e6)
    bound: Bound = "memory"
    kind = work.kind
    if kind == "free":
        return LayerTime(0.0, "nothing")
    if kind in ("dense", "matmul"):
        if slow(work, on):
            busy = work.macs / _slow_rate(work, p) / cycles_per_ms
        else:
            peak = on.peak_float16 if work.float16 else on.peak
            busy = work.macs / (peak * p["use_1x1" if work.kernel == 1 else "use"]) / cycles_per_ms
        ms = _overlap(busy, memory)
        bound = "compute" if busy > memory else "memory"
    elif kind == "depthwise" and slow(work, on):
        busy = work.macs / _slow_rate(work, p) / cycles_per_ms
        ms, bound = _overlap(busy, memory), "compute"
    elif kind == "depthwise":
        cycles = work.group * p["depthwise_channel"] + work.macs / p["depthwise_macs"]
        busy = cycles / cycles_per_ms
        ms = _overlap(busy, memory)
        bound = "compute" if busy > memory else "memory"
    elif kind == "lookup":
        ms = work.elements * p["lookup"] * _relative(work.op, p) / cycles_per_ms
        bound = "activation"
    elif kind == "program":
        ms = work.elements * p["program"] / cycles_per_ms
        bound = "compute"
    else:
        ms = memory * p[kind]
    return LayerTime(ms + start, "start" if start > ms else bound)


def slow(work: Work, on: Machine) -> bool:
    """Whether a multiplication is left to the programmable part, about one MAC per cycle.

    Known of two features multiplied with each other, of kernels that are too large for the array,
    of float16 on the RV chips, and of one network with dilated depthwise windows on RK1808.
    """
    if work.kind == "depthwise":
        return work.dilated and on.design == _NO_GAPS
    if work.kind == "matmul" and (work.weight == 0 or (work.float16 and not on.peak_float16)):
        return True
    if work.kind == "dense" and work.float16 and not on.peak_float16:
        return True
    return work.kind == "dense" and work.side > _KERNEL_LIMIT * work.stride


def network_time(works: Iterable[Work], on: Machine) -> float:
    """Milliseconds of all layers; nothing overlaps."""
    return sum(layer_time(each, on).ms for each in works)


def known_share(works: Iterable[Work], on: Machine) -> float:
    """Share of the time in work that many fitted networks have: what narrow intervals need.

    Nearly all published rates are of int8, so float16 is none of it.
    """
    total = known = 0.0
    for each in works:
        ms = layer_time(each, on).ms
        total += ms
        usual = each.kind in ("dense", "elementwise", "pool", "move")
        usual = usual and not slow(each, on) and not each.dilated
        usual = usual or each.op in ("Swish", "LeakyRelu")
        if usual and not each.float16:
            known += ms
    return known / total if total else 1.0


def stratum(share: float) -> str:
    """Of :data:`STRATA`, by :func:`known_share`."""
    return STRATA[0] if share >= _KNOWN else STRATA[1]


@cache
def parameters(design: str) -> dict[str, float]:
    """The fitted parameters of an NPU design."""
    return {
        row["name"]: float(row["value"])
        for row in _rows("parameters.csv")
        if row["design"] in ("both", design)
    }


@cache
def spread(name: str) -> float:
    """Half width of the 90 % interval of a stratum as a factor: 1.2 is +20 % and -17 %."""
    return next(float(row["factor"]) for row in _rows("spread.csv") if row["stratum"] == name)


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("engine.cost.generation1").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _overlap(busy: float, memory: float) -> float:
    if busy <= 0.0 or memory <= 0.0:
        return busy + memory
    larger, smaller = max(busy, memory), min(busy, memory)
    # factored, so that no power overflows
    return float(larger * (1.0 + (smaller / larger) ** SCALE) ** (1.0 / SCALE))


def _slow_rate(work: Work, p: Mapping[str, float]) -> float:
    return p["slow"] * (p["slow_matmul"] if work.kind == "matmul" else 1.0)


def _relative(op: str, p: Mapping[str, float]) -> float:
    if op == "Swish":
        return 1.0
    if op in ("LeakyRelu", "PRelu"):
        return p["leaky"]
    return p["hard_swish"] if op in ("HardSwish", "HardSigmoid") else p["other_activation"]
