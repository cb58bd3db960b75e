"""A curve that grows: a band of bars for each of a few series, one column a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rknntui.widgets.histogram_chart import Chart, bars
from rknntui.widgets.strips import Line, fit

_WIDEST = 6
"""Cells of a step while there are few of them."""

_FINITE_TOP = 0.75
"""As high the highest finite value stands where there are infinite ones."""


@dataclass(frozen=True)
class Series:
    """A value for every step, with a title that says what the last or the marked one is."""

    title: str
    values: tuple[float, ...]
    style: str = "accent"


class CurveChart(Chart):
    """Bars from the lowest to the highest value of each series; a mark under the chosen step.

    Blocks and words only: readable in 16 colours and without any. More steps than columns are
    drawn from the first one that fits to the last.
    """

    DEFAULT_CSS = """
    CurveChart { height: 1fr; min-height: 4; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._series: tuple[Series, ...] = ()
        self._marked: int | None = None
        self._said = ""

    def show(self, series: Sequence[Series], marked: int | None = None, said: str = "") -> None:
        """Draw series of one length; ``said`` stands there where there is none.

        Args:
            series: a band each, from the top.
            marked: index of the step that is pointed at.
            said: shown without series.
        """
        self._series, self._marked, self._said = tuple(series), marked, said
        self.redraw()

    def _draw(self, width: int, height: int) -> list[Line]:
        if not self._series or width < 12:
            return [[(f" {self._said}", "dim")]]
        count = max(len(s.values) for s in self._series)
        room = width - 2
        step = max(1, min(_WIDEST, room // max(1, count)))
        first = max(0, count - room // step)
        rows = max(1, (height - 1) // len(self._series) - 1)
        lines: list[Line] = []
        for series in self._series[: max(1, (height - 1) // 2)]:
            lines.append([(f" {fit(series.title, room).rstrip()}", "head")])
            drawn = bars(_raised(series.values[first:]), rows, 1.0)
            lines += [[(" ", ""), (_widened(line, step), series.style)] for line in drawn]
        lines.append([(f" {self._axis(first, count, step, room)}", "dim")])
        return lines[:height]

    def _axis(self, first: int, count: int, step: int, room: int) -> str:
        marked = self._marked
        rule = ["─"] * min(room, (count - first) * step)
        if marked is not None and first <= marked < count:
            rule[(marked - first) * step] = "▲"
        return "".join(rule)


def _raised(values: Sequence[float]) -> list[float]:
    """Values from 0.1 (the lowest, which must be seen too) to 1; equal ones stand half high.

    Infinite ones reach the top, and stand out above the highest of the others.
    """
    finite = [value for value in values if value < math.inf]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    top = 1.0 if len(finite) == len(values) else _FINITE_TOP
    if high <= low:
        return [0.5 if value < math.inf else 1.0 for value in values]
    return [min(1.0, 0.1 + (top - 0.1) * (value - low) / (high - low)) for value in values]


def _widened(line: str, step: int) -> str:
    """Each character as wide as a step, with a gap where there is room for one."""
    if step < 2:
        return line
    return "".join(character * (step - 1) + " " for character in line)
