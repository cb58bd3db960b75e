"""Histograms in block characters: one, or golden over simulated on the same axis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from textual.geometry import Size
from textual.strip import Strip

from rknntui.widgets.strips import Line, Painted

_BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Histogram:
    """Counts of equal bins from ``low`` to ``high``."""

    title: str
    low: float
    high: float
    counts: tuple[int, ...]
    style: str = "accent"


def rebinned(histogram: Histogram, low: float, high: float, bins: int) -> tuple[float, ...]:
    """The histogram over other bins from ``low`` to ``high``; a count is shared by overlap."""
    out = [0.0] * bins
    if high <= low or not histogram.counts:
        if histogram.counts and bins:
            out[bins // 2] = float(sum(histogram.counts))
        return tuple(out)
    width = (high - low) / bins
    step = (histogram.high - histogram.low) / len(histogram.counts)
    for index, count in enumerate(histogram.counts):
        if not count:
            continue
        left = histogram.low + index * step
        if step <= 0:
            out[min(bins - 1, max(0, int((left - low) / width)))] += count
            continue
        first = max(0, min(bins - 1, int((left - low) / width)))
        last = max(first, min(bins - 1, int((left + step - low) / width)))
        for bin_ in range(first, last + 1):
            start = max(left, low + bin_ * width)
            end = min(left + step, low + (bin_ + 1) * width)
            out[bin_] += count * max(0.0, end - start) / step
    return tuple(out)


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


class Chart(Painted):
    """A chart that is drawn once for each size, of what it was last given to show."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._drawn: tuple[Size, list[Line]] | None = None

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


class HistogramChart(Chart):
    """One or two histograms, one above the other on one axis, with marks below it.

    The square root of the counts is drawn: tails, where ranges clip, would else be invisible.
    """

    DEFAULT_CSS = """
    HistogramChart { height: 1fr; min-height: 4; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._histograms: tuple[Histogram, ...] = ()
        self._range: tuple[float, float] | None = None
        self._said = ""

    def show(
        self,
        histograms: Sequence[Histogram],
        used: tuple[float, float] | None = None,
        said: str = "",
    ) -> None:
        """Draw histograms; ``used`` is the range of the quantized values, marked by brackets."""
        self._histograms, self._range, self._said = tuple(histograms), used, said
        self.redraw()

    def _draw(self, width: int, height: int) -> list[Line]:
        if not self._histograms or width < 8:
            return [[(f" {self._said}", "dim")]]
        low = min(h.low for h in self._histograms)
        high = max(h.high for h in self._histograms)
        if self._range is not None:
            low, high = min(low, self._range[0]), max(high, self._range[1])
        room = width - 2
        rows = max(1, (height - 2) // len(self._histograms) - 1)
        lines: list[Line] = []
        for histogram in self._histograms:
            values = [v**0.5 for v in rebinned(histogram, low, high, room)]
            lines.append([(f" {histogram.title}", "head")])
            drawn = bars(values, rows, max(values, default=0.0))
            lines += [[(" ", ""), (text, histogram.style)] for text in drawn]
        lines += self._axis(low, high, room)
        return lines[:height] if height < len(lines) else lines

    def _axis(self, low: float, high: float, room: int) -> list[Line]:
        rule = ["─"] * room
        span = high - low

        def at(value: float) -> int:
            return max(0, min(room - 1, int((value - low) / span * (room - 1)))) if span > 0 else 0

        if low < 0 < high:
            rule[at(0.0)] = "┼"
        if self._range is not None:
            rule[at(self._range[0])] = "├"
            rule[at(self._range[1])] = "┤"
        left, right = f"{low:.4g}", f"{high:.4g}"
        between = "├ ┤ integer range" if self._range is not None else ""
        middle = between.center(max(0, room - len(left) - len(right)))
        labels = (left + middle + right)[:room]
        return [[(" " + "".join(rule), "dim")], [(" " + labels, "dim")]]
