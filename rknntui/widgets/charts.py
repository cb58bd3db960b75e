"""Charts: a curve of a search over its steps, and histograms of values, read without colour."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual.geometry import Size
from textual.strip import Strip

from engine.wire.formats import FIGURE
from engine.wire.model import Histogram as Counts
from engine.wire.record import record
from rknntui.widgets.strips import Line, Painted, fit


class Chart(Painted):
    """A chart that is drawn once for each size, of what it was last given to show."""

    _drawn: tuple[Size, list[Line]] | None = None

    def redraw(self) -> None:
        """What it shows has changed."""
        self._drawn = None
        self.refresh()

    def lines(self) -> list[Line]:
        """The chart for the current size."""
        if self._drawn is None or self._drawn[0] != self.size:
            self._drawn = self.size, self._draw(self.size.width, self.size.height)
        return self._drawn[1]

    @abstractmethod
    def _draw(self, width: int, height: int) -> list[Line]:
        """The lines of the chart in so many cells."""

    def render_line(self, y: int) -> Strip:
        lines = self.lines()
        return self.paint(lines[y] if y < len(lines) else [], self.size.width)


_WIDEST = 6
"""Cells of a step while there are few of them."""

_FINITE_TOP = 0.75
"""As high the highest finite value stands where there are infinite ones."""


@dataclass(frozen=True)
class Series:
    """A value for every step, with a title that says what the last or the marked one is.

    Attributes:
        values: None where a step has none, infinite where there is no noise.
        worst: of neighbours that share a cell, the one that is drawn.
        least: what has no height; None: a little below the lowest value.
    """

    title: str
    values: tuple[float | None, ...]
    style: str = "accent"
    worst: Callable[[Sequence[float]], float] = max
    least: float | None = None


class CurveChart(Chart):
    """Bars for the values of each series; ``▲`` stands under the chosen step.

    Blocks and words only: readable in 16 colours and without any. Where there are more steps than
    columns, neighbours share one.
    """

    DEFAULT_CSS = """
    CurveChart { height: 1fr; min-height: 4; }
    """

    _shown: tuple[Sequence[Series], int | None, str] = ((), None, "")

    def show(self, series: Sequence[Series], marked: int | None = None, said: str = "") -> None:
        """Draw series of one length; ``said`` stands there where there is none.

        Args:
            series: a band each, from the top.
            marked: index of the step that is pointed at.
            said: shown without series.
        """
        if (shown := (series, marked, said)) != self._shown:
            self._shown = shown
            self.redraw()

    def _draw(self, width: int, height: int) -> list[Line]:
        series, marked, said = self._shown
        if not series or width < 12:
            return [[(f" {said}", "dim")]]
        count, room = max(len(band.values) for band in series), width - 2
        per = -(-count // room)  # steps of a cell
        wide = max(1, min(_WIDEST, room // count))  # cells of a step
        rows = max(1, (height - 1) // len(series) - 1)
        lines: list[Line] = []
        for band in series[: max(1, (height - 1) // 2)]:
            lines.append([(f" {fit(band.title, room).rstrip()}", "head")])
            drawn = bars(_raised(band, per), rows, 1.0)
            lines += [[(" ", ""), (_widened(line, wide), band.style)] for line in drawn]
        rule = ["─"] * (-(-count // per) * wide)
        if marked is not None and marked < count:
            rule[marked // per * wide] = "▲"
        return [*lines, [(" " + "".join(rule), "dim")]][:height]


def _raised(series: Series, per: int) -> list[float]:
    """A height for every ``per`` steps, to 1; equal ones stand half high, unknown ones have none.

    The lowest, which must be seen too, is 0.1 high where nothing else is at 0. Infinite ones reach
    the top, and stand out above the highest of the others.
    """
    finite = [value for value in series.values if value is not None and value < math.inf]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    top = 1.0 if math.inf not in series.values else _FINITE_TOP
    bottom, low = (0.1, low) if series.least is None else (0.0, series.least)

    def raised(value: float) -> float:
        if value == math.inf:
            return 1.0
        return 0.5 if high <= low else bottom + (top - bottom) * (value - low) / (high - low)

    steps = (series.values[at : at + per] for at in range(0, len(series.values), per))
    known = ([value for value in group if value is not None] for group in steps)
    return [raised(series.worst(group)) if group else 0.0 for group in known]


def _widened(line: str, step: int) -> str:
    """Each character as wide as a step, with a gap where there is room for one."""
    if step < 2:
        return line
    return "".join(character * (step - 1) + " " for character in line)


# Histograms in block characters: one, or golden over simulated on the same axis.

_BLOCKS = " ▁▂▃▄▅▆▇█"


@record
class Histogram(Counts):
    """Counts of equal bins, with their title."""

    title: str = ""
    style: str = "accent"


def bars(values: Sequence[float], height: int, top: float) -> list[str]:
    """Lines of block characters, from the top; ``top`` fills the height, above 0 shows a trace."""
    eighths = []
    for value in values:
        level = round(value / top * height * 8) if top > 0 else 0
        eighths.append(max(1, min(level, height * 8)) if value > 0 else 0)
    return [
        "".join(_BLOCKS[max(0, min(8, e - 8 * (height - 1 - line)))] for e in eighths)
        for line in range(height)
    ]


class HistogramChart(Chart):
    """:func:`histogram_lines` in the whole of a pane."""

    DEFAULT_CSS = """
    HistogramChart { height: 1fr; min-height: 4; }
    """

    _shown: tuple[Sequence[Histogram], tuple[float, float] | None, str] = ((), None, "")

    def show(
        self,
        histograms: Sequence[Histogram],
        used: tuple[float, float] | None = None,
        said: str = "",
    ) -> None:
        """Draw histograms; ``said`` stands there where there is none."""
        self._shown = histograms, used, said
        self.redraw()

    def _draw(self, width: int, height: int) -> list[Line]:
        histograms, used, said = self._shown
        if not histograms or width < 8:
            return [[(f" {said}", "dim")]]
        return histogram_lines(histograms, width, height, used)


def histogram_lines(
    histograms: Sequence[Histogram],
    width: int,
    height: int,
    used: tuple[float, float] | None = None,
) -> list[Line]:
    """Histograms, one above the other on one axis, with marks below it.

    The square root of the counts is drawn: tails, where ranges clip, would else be invisible.

    Args:
        histograms: from the top.
        width, height: in cells.
        used: the range of the quantized values, marked by brackets.
    """
    ends = [*used] if used is not None else []
    low = min(*(h.low for h in histograms), *ends, math.inf)
    high = max(*(h.high for h in histograms), *ends, -math.inf)
    room = width - 2
    rows = max(1, (height - 2) // len(histograms) - 1)
    lines: list[Line] = []
    for histogram in histograms:
        values = [v**0.5 for v in histogram.over(low, high, room)]
        lines.append([(f" {histogram.title}", "head")])
        drawn = bars(values, rows, max(values, default=0.0))
        lines += [[(" ", ""), (text, histogram.style)] for text in drawn]
    rule = ["─"] * room
    marks = [(0.0, "┼")] if low < 0 < high else []
    for value, sign in (*marks, *zip(ends, "├┤", strict=False)):
        share = (value - low) / (high - low) if high > low else 0.0
        rule[max(0, min(room - 1, int(share * (room - 1))))] = sign
    left, right = FIGURE.text(low), FIGURE.text(high)
    between = "├ ┤ integer range" if ends else ""
    labels = (left + between.center(max(0, room - len(left) - len(right))) + right)[:room]
    return [*lines, [(" " + "".join(rule), "dim")], [(" " + labels, "dim")]][:height]


# Points between two axes.

_LABEL = 9
"""Cells to the left of a scatter."""


class Spot(NamedTuple):
    """A point of a scatter."""

    x: float
    y: float
    sign: str = "•"
    style: str = ""


@dataclass(frozen=True)
class Axis:
    """An axis in cells: logarithmic, or linear."""

    low: float
    high: float
    cells: int
    log: bool = True

    @classmethod
    def over(cls, values: Iterable[float], cells: int, *, log: bool = True) -> Axis:
        """From a little below the least to a little above the greatest."""
        known = [math.log10(value) if log else value for value in values]
        low, high = min(known), max(known)
        least = 0.1 if log else 0.02 * abs(high) or 1.0
        room = max(least, (high - low) * 0.06)
        return cls(low - room, high + room, cells, log)

    def cell(self, value: float) -> int:
        """Where a value stands; outside of the axis too."""
        if self.log and value <= 0:
            return 0
        at = math.log10(value) if self.log else value
        return round((at - self.low) / (self.high - self.low) * (self.cells - 1))

    def value(self, cell: int) -> float:
        """What stands there."""
        at = self.low + cell / max(1, self.cells - 1) * (self.high - self.low)
        return float(10**at) if self.log else at


def scatter(
    spots: Sequence[Spot],
    width: int,
    height: int,
    units: tuple[str, str],
    top: Line,
    line: Callable[[Axis, Axis], Iterable[tuple[int, int, str]]],
    also: Sequence[Spot] = (),
    *,
    log: bool = True,
) -> list[Line]:
    """Points between two axes; a dot where several are is larger.

    Args:
        spots: a later one hides an earlier one.
        width, height: in cells.
        units: of the axis upwards, and of the one to the right.
        top: said above.
        line: row, column and sign of each cell of a line below the points.
        also: what the axes reach, too.
        log: logarithmic axes.
    """
    rows, columns = height - 2, width - _LABEL
    x_axis = Axis.over((spot.x for spot in [*spots, *also]), columns, log=log)
    y_axis = Axis.over((spot.y for spot in [*spots, *also]), rows, log=log)
    cells = [[(" ", "")] * columns for _ in range(rows)]
    for row, column, sign in line(x_axis, y_axis):
        if 0 <= row < rows and 0 <= column < columns:
            cells[row][column] = (sign, "dim")
    for spot in spots:
        row, column = y_axis.cell(spot.y), x_axis.cell(spot.x)
        row, column = min(rows - 1, max(0, row)), min(columns - 1, max(0, column))
        several = spot.sign == "•" and cells[row][column][0] in ("•", "●")
        cells[row][column] = ("●" if several else spot.sign, spot.style)
    lines: list[Line] = [[(f"{units[0]:>{_LABEL - 1}} ", "dim"), *top]]
    for row in range(rows - 1, -1, -1):
        shown = row in (0, rows // 2, rows - 1)
        label = short(y_axis.value(row)) if shown else ""
        lines.append([(f"{label:>{_LABEL - 1}} ", "dim"), *cells[row]])
    left, right = short(x_axis.value(0)), short(x_axis.value(columns - 1))
    middle = f"{short(x_axis.value(columns // 2))} {units[1]}"
    gap = columns - len(left) - len(middle) - len(right)
    before = max(1, columns // 2 - len(left) - 2)
    foot = f"{left}{' ' * before}{middle}{' ' * max(1, gap - before)}{right}"
    return [*lines, [(f"{'':{_LABEL}}{foot}", "dim")]]


def short(value: float) -> str:
    """A figure of an axis."""
    return f"{round(value)}" if value >= 100 else FIGURE.text(value)
