"""Estimates as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine import human_bytes, sanitize
from engine.wire.cost import ChipEstimate, ChipFacts, Estimates, Interval
from rknntui.cli.output import table

__all__ = ["chip_lines", "facts_lines", "interval_text", "problem_lines"]

CONFIDENCE = {
    "fitted": "fitted to published rates of this chip",
    "derived": "derived from a chip of the same design",
    "structural": "no published rate: not validated",
    "calibrated": "calibrated by a run of your board",
}
"""What an estimate of time stands on, in words."""


def interval_text(found: Interval | None, digits: int = 1) -> str:
    """A figure with the interval that holds it nine times in ten."""
    if found is None:
        return "-"
    return f"{found.value:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def chip_lines(found: Estimates) -> list[str]:
    """Chips side by side."""
    columns = (
        "chip",
        "dtype",
        "cores",
        "frames/s",
        "time ms",
        "memory",
        "internal",
        "weights",
        "NPU",
        "CPU",
        "refused",
        "basis",
    )
    rows = [_row(each) for each in found.chips]
    lines = [f"{sanitize(found.model)} (estimated; intervals hold nine in ten)", ""]
    return [*lines, *table(columns, rows), *problem_lines(found.chips)]


def _row(each: ChipEstimate) -> list[str]:
    memory = each.memory
    sizes = ["-"] * 3
    if memory is not None:
        sizes = [human_bytes(memory.total), human_bytes(memory.internal)]
        sizes.append(human_bytes(memory.weight))
    return [
        each.chip,
        each.dtype,
        str(each.cores),
        interval_text(each.fps),
        interval_text(each.time_ms, 2),
        *sizes,
        *(["-"] * 3 if each.problem else map(str, _places(each))),
        "-" if each.problem else each.confidence,
    ]


def _places(each: ChipEstimate) -> tuple[int, int, int]:
    return each.npu_layers, each.cpu_layers, each.refused_layers


def problem_lines(chips: Iterable[ChipEstimate]) -> list[str]:
    """Why a chip has no estimate, and what the others leave out; equal ones together."""
    told: dict[str, list[str]] = {}
    for each in chips:
        for text in (f"{each.problem} {each.remedy}".strip(), *each.notes):
            if text:
                told.setdefault(text, []).append(each.chip)
    return [f"{', '.join(names)}: {sanitize(text)}" for text, names in told.items()]


def facts_lines(chips: Sequence[ChipFacts]) -> list[str]:
    """The facts of chips, each with its source where there is one chip."""
    columns = ("chip", "generation", "toolkit", "cores", "dtypes", "basis")
    rows = [
        [
            each.name,
            str(each.generation),
            each.toolkit,
            str(each.npu_cores),
            " ".join(each.dtypes),
            each.confidence,
        ]
        for each in chips
    ]
    lines = table(columns, rows)
    if len(chips) == 1:
        figures = [[f.name, f.value, f.source] for f in chips[0].figures]
        lines += ["", *table(("figure", "value", "source"), figures)] if figures else []
    return lines
