"""The tables of estimates: chips side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.wire.cost import ChipEstimate, Interval
from engine.wire.formats import (
    ADDRESS,
    CHANGE,
    COUNT,
    MILLISECONDS,
    NAME,
    NUMBER,
    PERCENT,
    RATE,
    SIZE,
    range_of,
)
from engine.wire.table import Column, Meaning, Table

__all__ = [
    "CHIPS",
    "CHIP_CHANGES",
    "COMPARED",
    "TENSORS",
    "change_style",
    "known",
    "place_style",
    "since",
]

_PLACES: dict[str | None, Meaning] = {"CPU": "warn", "unknown": "warn", "none": "bad"}
_BASES: dict[str | None, Meaning] = {"calibrated": "good", "structural": "warn"}


def place_style(place: str | None) -> Meaning:
    """What a place means: the CPU is slow, a layer that is refused stops the compiler."""
    return _PLACES.get(place, "")


def change_style(*, more_is_better: bool) -> Callable[[float | None], Meaning]:
    """What a change (a share of 1) means."""

    def style(change: float | None) -> Meaning:
        if change is None or abs(change) < 0.0005:
            return ""
        return "good" if (change > 0) == more_is_better else "bad"

    return style


def known(key: str) -> Callable[[Any], Any]:
    """The value of an attribute; an empty text and 0 stand for what is not known."""
    return lambda row: getattr(row, key) or None


def since(now: float | None, before: float | None) -> float | None:
    """The change from ``before``, a share of 1; None where one is missing."""
    return None if now is None or not before else now / before - 1


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _placed(key: str) -> Callable[[ChipEstimate], int | None]:
    """A count of layers; None where nothing is known of any layer."""

    def value(chip: ChipEstimate) -> int | None:
        placed = (chip.npu_layers, chip.cpu_layers, chip.refused_layers, chip.unknown_layers)
        count: int | None = getattr(chip, key)
        return count if any(placed) else None

    return value


def _count_style(place: str) -> Callable[[int | None], Meaning]:
    return lambda count: place_style(place) if count else "dim"


# fmt: off
CHIPS = Table("chips", "A chip, and what the model costs on it (estimated).", (
    Column("chip", format=NAME, help="The chip.", width=9),
    Column("generation", format=NUMBER, help="Generation of the NPU.", only="file"),
    Column("fps", "FPS", RATE, "Frames a second, of all cores and the whole batch.", "fps.value"),
    Column("fps_range", "90 %", range_of(RATE), "Nine in ten frame rates lie in this interval.",
           lambda chip: _ends(chip.fps), file=("fps_low", "fps_high")),
    Column("reaches", help="Whether it does the frames a second that you asked for.",
           value=known("reaches"), from_width=1),
    Column("time_ms", "time ms", MILLISECONDS, "Time of an inference.", "time_ms.value"),
    Column("time_range", "90 % of time", range_of(MILLISECONDS),
           "Nine in ten times lie in this interval.", lambda chip: _ends(chip.time_ms),
           from_width=120, file=("time_ms_low", "time_ms_high")),
    Column("total_bytes", "memory", SIZE, "Weights and internal tensors.", "memory.total"),
    Column("internal_bytes", "internal", SIZE, "Memory of the tensors between layers.",
           "memory.internal", from_width=110),
    Column("weight_bytes", "weights", SIZE, "Memory of the weights.", "memory.weight",
           from_width=120),
    Column("npu_layers", "NPU", COUNT, "Layers on the NPU.", _placed("npu_layers"), width=4,
           from_width=100),
    Column("cpu_layers", "CPU", COUNT, "Layers on the CPU; not public for generation 1.",
           _placed("cpu_layers"), width=3, style=_count_style("CPU")),
    Column("unknown_layers", "unknown", COUNT,
           "Layers of which it is not public whether the NPU or the CPU computes them.",
           known("unknown_layers"), width=7, style=_count_style("unknown"), from_width=100),
    Column("refused_layers", "refused", COUNT, "Layers that the compiler refuses.",
           _placed("refused_layers"), width=7, style=_count_style("none")),
    Column("total_cycles", "cycles", COUNT, "Cycles as the compiler counts them.",
           known("total_cycles"), from_width=140),
    Column("macs", "MACs", COUNT, "Multiply-accumulates of an inference.", only="file"),
    Column("dtype", help="The dtype that most layers compute in.", value=known("dtype"),
           from_width=84),
    Column("basis", help="What the estimate of time stands on.",
           value=lambda chip: None if chip.problem else chip.confidence or None, width=10,
           style=lambda basis: _BASES.get(basis, "")),
    Column("cores", format=NUMBER, help="NPU cores that share an inference.", from_width=120),
    Column("batch", format=NUMBER, help="Inferences at once.", only="file"),
    Column("npu_mhz", "MHz", NUMBER, "Clock of the NPU.",
           lambda chip: round(chip.npu_mhz) or None, width=5, from_width=130),
    Column("problem", format=NAME, help="Why there is no estimate.", value=known("problem"),
           width=8, grow=1, from_width=170),
    Column("label", "figures are", help="Where the figures are from.", only="file"),
))

TENSORS = Table("tensors", "A tensor in the internal memory of a chip (estimated).", (
    Column("chip", format=NAME, help="The chip.", value=None, only="file"),
    Column("tensor", format=NAME, help="The tensor's name.", width=14, grow=3),
    Column("size", format=SIZE, help="Its bytes.", value=lambda span: span.end - span.start),
    Column("share", "of peak %", PERCENT, "Its share of the largest sum at any layer.",
           None, only="screen"),
    Column("start", "from", ADDRESS, "Its first byte."),
    Column("end", "to", ADDRESS, "The byte behind it.", from_width=90),
    Column("first_layer", "first layer", NUMBER, "It is made at this layer, counted from 1.",
           lambda span: span.first + 1),
    Column("last_layer", "last layer", NUMBER, "It is read for the last time at this layer.",
           lambda span: span.last + 1),
    Column("label", "figures are", help="Where the figures are from.", only="file",
           value=lambda _: "estimated"),
))

COMPARED = Column("mark", name="compared", value=None, width=1, style=lambda _: "accent",
                  only="screen")
"""A sign before the chips that are set beside each other."""

CHIP_CHANGES = (
    Column("fps_change", "FPS Δ", CHANGE, "The frame rate against the recipe as it is.",
           None, style=change_style(more_is_better=True), only="screen"),
    Column("memory_change", "memory Δ", CHANGE, "The memory against the recipe as it is.",
           None, style=change_style(more_is_better=False), from_width=100, only="screen"),
)
"""Behind ``fps_range``, where something is varied."""
# fmt: on
