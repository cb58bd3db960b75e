"""How far off an estimate of time may be: intervals from networks that were left out of the fit.

The data files are written by ``scripts/fit_time_model.py``: ``intervals.csv`` has a half width for
each stratum of networks, ``operators.csv`` how many fitted networks have each operator.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from math import exp, hypot

from engine.cost.timing.work import LayerWork
from engine.wire.cost import Interval

__all__ = [
    "RARE",
    "Stratum",
    "half_width",
    "interval",
    "operator_name",
    "rare_share",
    "stratum_of",
]

Stratum = str
"""``convolution``: int8 and nothing on the CPU; ``mixed``: everything else."""

RARE = 3
"""An operator of fewer fitted networks than this is rarely seen."""
_RARE_SPREAD = 0.5
"""Logarithm by which the part of the time in rarely seen operators may be off, nine times in
ten: such an operator has been off by a factor of 1.6."""


def operator_name(work: LayerWork) -> str:
    """What an operator is told apart by: its part, activation or CPU type, and dtype."""
    detail = work.cpu or work.activation
    return ":".join((work.part, detail, "float16" if work.half else "int8"))


def stratum_of(works: Sequence[LayerWork]) -> Stratum:
    """The kind of network that an interval is taken from."""
    plain = all(each.part != "cpu" for each in works)
    whole = sum(each.cycles for each in works)
    half = sum(each.cycles for each in works if each.half)
    return "convolution" if plain and half <= 0.05 * whole else "mixed"


@cache
def _widths() -> Mapping[Stratum, float]:
    return {row["stratum"]: float(row["half_width"]) for row in _rows("intervals.csv")}


@cache
def _seen() -> Mapping[str, int]:
    return {row["operator"]: int(row["networks"]) for row in _rows("operators.csv")}


def rare_share(
    works: Sequence[LayerWork], times: Sequence[float], seen: Mapping[str, int] | None = None
) -> float:
    """Share of the time that is in operators of fewer than :data:`RARE` fitted networks.

    Args:
        works: the layers.
        times: milliseconds of each.
        seen: operator -> fitted networks that have it; those of the data file where None.
    """
    counts = _seen() if seen is None else seen
    whole = sum(times)
    rare = sum(
        time
        for work, time in zip(works, times, strict=True)
        if work.part != "nothing" and counts.get(operator_name(work), 0) < RARE
    )
    return rare / whole if whole > 0 else 0.0


def half_width(stratum: Stratum, share: float, beside: float = 0.0) -> float:
    """Half width of the interval, of the logarithm of the time.

    Args:
        stratum: of :func:`stratum_of`.
        share: of the time in rarely seen operators.
        beside: other spreads: that of a chip without rates, of several cores.
    """
    return hypot(_widths()[stratum], _RARE_SPREAD * share, beside)


def interval(value: float, width: float) -> Interval:
    """A figure and what holds it nine times in ten; ``width`` of its logarithm."""
    return Interval(value, value * exp(-width), value * exp(width))


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("engine.cost.timing").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
