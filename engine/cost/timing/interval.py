"""How far off an estimate of time may be: intervals from networks that were left out of the fit.

The data files are written by ``scripts/fit_time_model.py``: ``intervals.csv`` has a half width for
each stratum of networks, ``operators.csv`` how many fitted networks have each operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import exp, hypot

from engine.cost.timing.work import LayerWork
from engine.facts import rows
from engine.wire.cost import Interval

__all__ = [
    "RARE",
    "Stratum",
    "half_width",
    "interval",
    "less_known",
    "operator_name",
    "stratum_of",
    "widening",
]

Stratum = str
"""``convolution``: int8, nothing on the CPU and hardly a rarely seen operator; ``mixed``:
everything else."""

RARE = 3
"""An operator of fewer fitted networks than this is rarely seen."""
_FEW = 0.05
"""What ``convolution`` may have of cycles in float16, and of time in rarely seen operators."""
_LESS_KNOWN = 1.5
"""An interval is wider by so many times its width where all of the time is on the CPU, or in
rarely seen operators: those cost by type and by layout in ways that the rates hardly tell."""


def operator_name(work: LayerWork) -> str:
    """What an operator is told apart by: its part, activation or CPU type, and dtype.

    Windows with gaps and a Resize between pixels are others than those without.
    """
    detail = work.cpu or work.activation
    if work.dilated or work.linear:
        detail = f"{detail} dilated" if work.dilated else "linear"
        detail = detail.strip()
    return ":".join((work.part, detail, "float16" if work.half else "int8"))


def stratum_of(works: Sequence[LayerWork], rare: float = 0.0) -> Stratum:
    """The kind of network that an interval is taken from.

    Args:
        works: the layers.
        rare: share of the time in rarely seen operators, of :func:`less_known`.
    """
    plain = all(each.part != "cpu" for each in works)
    whole = sum(each.cycles for each in works)
    half = sum(each.cycles for each in works if each.half)
    return "convolution" if plain and half <= _FEW * whole and rare <= _FEW else "mixed"


@cache
def _widths() -> Mapping[Stratum, float]:
    return {
        row["stratum"]: float(row["half_width"])
        for row in rows("engine.cost.timing", "intervals.csv")
    }


@cache
def _seen() -> Mapping[str, int]:
    return {
        row["operator"]: int(row["networks"]) for row in rows("engine.cost.timing", "operators.csv")
    }


def less_known(
    works: Sequence[LayerWork], times: Sequence[float], seen: Mapping[str, int] | None = None
) -> tuple[float, float]:
    """Shares of the time that are on the CPU, and in operators of fewer than :data:`RARE`
    fitted networks.

    Args:
        works: the layers.
        times: milliseconds of each.
        seen: operator -> fitted networks that have it; those of the data file where None.
    """
    counts = _seen() if seen is None else seen
    whole = sum(times)
    cpu = rare = 0.0
    for work, time in zip(works, times, strict=True):
        if work.part == "cpu":
            cpu += time
        if work.part != "nothing" and counts.get(operator_name(work), 0) < RARE:
            rare += time
    return (cpu / whole, rare / whole) if whole > 0 else (0.0, 0.0)


def widening(cpu: float, rare: float) -> float:
    """How many times wider an interval is for these shares of :func:`less_known`."""
    return 1 + _LESS_KNOWN * max(cpu, rare)


def half_width(stratum: Stratum, cpu: float, rare: float, beside: float = 0.0) -> float:
    """Half width of the interval, of the logarithm of the time.

    Args:
        stratum: of :func:`stratum_of`.
        cpu, rare: shares of the time, of :func:`less_known`.
        beside: other spreads: that of a chip without rates, of several cores.
    """
    return hypot(_widths()[stratum] * widening(cpu, rare), beside)


def interval(value: float, width: float) -> Interval:
    """A figure and what holds it nine times in ten; ``width`` of its logarithm."""
    return Interval(value, value * exp(-width), value * exp(width))
