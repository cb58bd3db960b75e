"""Memory over time: tensors of the internal memory as blocks of characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.message import Message

from engine import human_bytes
from rknntui.widgets.histogram_chart import Chart
from rknntui.widgets.strips import Line, fit

if TYPE_CHECKING:
    from engine.wire.cost import TensorSpan

_BLOCKS = ("█", "▓", "▒")
_STYLES = ("accent", "good", "warn")
_LABEL = 10
_WIDEST = 6


def alive_at(spans: Sequence[TensorSpan], layer: int) -> list[TensorSpan]:
    """The tensors in memory while a layer runs, by address."""
    found = [span for span in spans if span.first <= layer <= span.last]
    return sorted(found, key=lambda span: (span.start, span.end, span.tensor))


def peak_of(spans: Sequence[TensorSpan]) -> tuple[int, int]:
    """(layer, bytes): where most bytes are alive, the first such layer."""
    changes: dict[int, int] = {}
    for span in spans:
        size = span.end - span.start
        changes[span.first] = changes.get(span.first, 0) + size
        changes[span.last + 1] = changes.get(span.last + 1, 0) - size
    best, at, alive = 0, 0, 0
    for layer in sorted(changes):
        alive += changes[layer]
        if alive > best:
            best, at = alive, layer
    return at, best


@dataclass(frozen=True)
class _Scale:
    """How bytes and layers become cells; ``step`` cells a layer, or ``pack`` layers a cell."""

    low: int
    high: int
    rows: int
    step: int
    pack: int

    def column(self, layer: int) -> int:
        return layer * self.step // self.pack

    def row(self, address: int) -> int:
        """From the bottom."""
        return (address - self.low) * self.rows // max(1, self.high - self.low)


class SpansChart(Chart, can_focus=True):
    """Addresses upwards, layers to the right; a mark under the chosen layer, one over the peak."""

    BINDINGS = [
        Binding("right,l", "move(1)", "Next layer", show=False),
        Binding("left,h", "move(-1)", "Layer before", show=False),
        Binding("home,g", "jump(0)", "First layer", show=False),
        Binding("end,G", "jump(-1)", "Last layer", show=False),
        Binding("p", "peak", "Peak", show=False, tooltip="Go to the layer with most memory."),
    ]
    DEFAULT_CSS = """
    SpansChart { height: 3fr; min-height: 6; padding: 0 1; }
    """

    class Moved(Message):
        """Another layer is chosen."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.spans: Sequence[TensorSpan] = ()
        self.count = 0
        self.chosen = 0
        self.said = ""

    def show(self, spans: Sequence[TensorSpan], layers: int, said: str = "") -> None:
        """Draw the spans of so many layers; ``said`` stands there where there is none."""
        if spans != self.spans or layers != self.count:
            self.chosen = peak_of(spans)[0]
        self.spans, self.count, self.said = spans, layers, said
        self.redraw()

    def choose(self, layer: int) -> None:
        """Point at a layer."""
        layer = max(0, min(layer, self.count - 1))
        if layer != self.chosen:
            self.chosen = layer
            self.redraw()
            self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        """The layer beside; a cell, where one stands for several."""
        self.choose(self.chosen + by * self._scale(self.size.width, self.size.height).pack)

    def action_jump(self, layer: int) -> None:
        """The first or last layer."""
        self.choose(self.count - 1 if layer < 0 else 0)

    def action_peak(self) -> None:
        """The layer with most memory."""
        self.choose(peak_of(self.spans)[0])

    def _scale(self, width: int, height: int) -> _Scale:
        room, count = max(1, width - _LABEL), max(1, self.count)
        low = min((span.start for span in self.spans), default=0)
        high = max((span.end for span in self.spans), default=1)
        step = max(1, min(_WIDEST, room // count))
        return _Scale(low, high, max(1, height - 2), step, max(1, -(-count // room)))

    def _draw(self, width: int, height: int) -> list[Line]:
        if not self.spans or width < 30 or height < 4:
            return [[(self.said, "dim")]]
        scale = self._scale(width, height)
        columns = min(width - _LABEL, scale.column(self.count - 1) + scale.step)
        cells = [[(" ", "")] * columns for _ in range(scale.rows)]
        for at, span in enumerate(sorted(self.spans, key=lambda s: (s.first, s.start))):
            mark = (_BLOCKS[at % 3], _STYLES[at % 3])
            bottom = scale.row(span.start)
            top = max(bottom + 1, min(scale.rows, scale.row(span.end)))
            left, right = scale.column(span.first), scale.column(span.last) + scale.step
            for row in range(min(bottom, scale.rows - 1), top):
                for column in range(left, min(columns, right)):
                    cells[row][column] = mark
        peak, most = peak_of(self.spans)
        lines: list[Line] = [self._peak_line(scale.column(peak), most, columns)]
        for row in range(scale.rows - 1, -1, -1):
            address = scale.low + (row + 1) * (scale.high - scale.low) // scale.rows
            told = human_bytes(address) if row in (0, scale.rows // 2, scale.rows - 1) else ""
            lines.append([(f"{told:>{_LABEL - 1}} ", "dim"), *_runs(cells[row])])
        rule = ["─"] * columns
        rule[min(columns - 1, scale.column(self.chosen))] = "▲"
        lines.append([(f"{'layer ' + str(self.chosen + 1):>{_LABEL - 1}} ", "dim")])
        lines[-1].append(("".join(rule), "head" if self.has_focus else "dim"))
        return lines

    def _peak_line(self, column: int, most: int, columns: int) -> Line:
        text = f"peak {human_bytes(most)}"
        at = _LABEL + column
        line = f"{'':{at}}▼ {text}"
        if column + len(text) + 2 > columns:
            line = f"{text} ▼".rjust(at + 1)
        return [(fit(line, _LABEL + columns), "head")]

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()


def _runs(cells: Sequence[tuple[str, str]]) -> Line:
    """Cells of one style become one text."""
    line: Line = []
    for text, style in cells:
        if line and line[-1][1] == style:
            line[-1] = (line[-1][0] + text, style)
        else:
            line.append((text, style))
    return line
