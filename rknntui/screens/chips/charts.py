"""The charts of Chips: the roofline, a point a layer, and memory over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message

from engine import human_bytes
from engine.wire.layers import ROOFLINE, layer_rows
from rknntui.widgets.charts import Axis, Chart, Spot, scatter, short
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.line_list import Rows
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import Line, fit

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.wire.cost import ChipEstimate, TensorSpan

_STYLES = {"compute": "accent", "memory": "good"}


class Point(NamedTuple):
    """A layer in the chart, with figures of :class:`engine.wire.cost.LayerCost`."""

    number: int
    intensity: float
    gops: float
    bound: str


@dataclass(frozen=True)
class Roof:
    """What a chip can do at most: 10^9 operations a second, 10^9 bytes a second."""

    gops: float
    gigabytes: float

    def at(self, intensity: float) -> float:
        """10^9 operations a second that are possible."""
        return min(self.gops, self.gigabytes * intensity)


def points_of(found: ChipEstimate) -> list[Point]:
    """The layers that multiply and take time; others have no place on a roofline."""
    return [
        Point(number, row.intensity, row.gops, row.bound)
        for number, row in enumerate(found.layers, 1)
        if row.intensity is not None and row.gops is not None
    ]


class RooflineChart(Chart):
    """Both axes logarithmic; the chosen layer is marked, cells with several layers are larger."""

    DEFAULT_CSS = """
    RooflineChart { height: 3fr; min-height: 6; padding: 0 1; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._points: Sequence[Point] = ()
        self._roof: Roof | None = None
        self._chosen = 0
        self._said = ""

    def show(self, points: Sequence[Point], roof: Roof | None, chosen: int, said: str) -> None:
        """Draw layers under the roof; ``chosen`` is the number of the one that is marked."""
        self._points, self._roof, self._chosen, self._said = points, roof, chosen, said
        self.redraw()

    def _draw(self, width: int, height: int) -> list[Line]:
        if not self._points or width < 30 or height < 5:
            return [[(self._said, "dim")]]
        spots = [
            Spot(p.intensity, p.gops, style=_STYLES.get(p.bound, ""))
            if p.number != self._chosen
            else Spot(p.intensity, p.gops, "◆", "head")
            for p in sorted(self._points, key=lambda p: p.number == self._chosen)
        ]
        roof = self._roof
        also = [] if roof is None else [Spot(roof.gops / roof.gigabytes, roof.gops)]
        units = "GOPS", "operations a byte"
        return scatter(spots, width, height, units, self._top(), self._line, also)

    def _line(self, x_axis: Axis, y_axis: Axis) -> Iterator[tuple[int, int, str]]:
        if (roof := self._roof) is not None:
            for column in range(x_axis.cells):
                limit = roof.at(x_axis.value(column))
                yield y_axis.cell(limit), column, "─" if limit >= roof.gops else "/"

    def _top(self) -> Line:
        roof = self._roof
        if roof is None:
            return [("no roof: a rate of this chip is not published", "warn")]
        roof_text = f"roof: {short(roof.gops)} GOPS, {short(roof.gigabytes)} GB/s (estimated)   "
        return [
            (roof_text, ""),
            ("• ", "accent"),
            ("compute ", "dim"),
            ("• ", "good"),
            ("memory ", "dim"),
            ("• ", ""),
            ("other", "dim"),
        ]


class RooflinePane(Vertical):
    """The chart, and its layers."""

    DEFAULT_CSS = """
    RooflinePane { height: 1fr; & RecordView { height: 2fr; min-height: 5; } }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._points: list[Point] = []
        self._roof: Roof | None = None
        self._said = ""
        self._table = LayerTable(ROOFLINE, id="roof-layers", what="roofline")

    def compose(self) -> ComposeResult:
        yield RooflineChart(id="roofline")
        yield LayerView("Layers under the roof (estimated)", self._table)

    @property
    def table(self) -> RecordTable:
        """The layers."""
        return self._table

    @property
    def layer_id(self) -> str:
        """Of the layer under the cursor."""
        return self.query_one(LayerView).layer_id

    def take(self, found: ChipEstimate | None, said: str) -> None:
        """Show a chip; ``said`` stands there while there is nothing."""
        self._points = points_of(found) if found is not None else []
        self._roof, self._said = None, said
        if found is not None and found.peak_gops and found.bandwidth_gbs:
            self._roof = Roof(found.peak_gops, found.bandwidth_gbs)
        roof = self._roof
        of_roof = {
            point.number: None if roof is None else point.gops / roof.at(point.intensity)
            for point in self._points
        }
        layers = () if found is None else layer_rows(found)
        self._table.show_layers(
            (layer for layer in layers if layer.number in of_roof),
            more=lambda layer: {"of_roof": of_roof[layer.number]},
        )
        self._point()

    @on(Rows.Highlighted, "#roof-layers")
    def _point(self) -> None:
        record = self._table.record
        chosen = 0 if record is None else int(record["number"])
        self.query_one(RooflineChart).show(self._points, self._roof, chosen, self._said)


# Memory over time: tensors of the internal memory as blocks of characters.

_BLOCKS = ("█", "▓", "▒")
_SPAN_STYLES = ("accent", "good", "warn")
_SPAN_LABEL = 10
_WIDEST = 6


def alive_at(spans: Sequence[TensorSpan], layer: int) -> list[TensorSpan]:
    """The tensors in memory while a layer runs, by address."""
    alive = [span for span in spans if span.first <= layer <= span.last]
    return sorted(alive, key=lambda span: (span.start, span.end, span.tensor))


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
        room, count = max(1, width - _SPAN_LABEL), max(1, self.count)
        low = min((span.start for span in self.spans), default=0)
        high = max((span.end for span in self.spans), default=1)
        step = max(1, min(_WIDEST, room // count))
        return _Scale(low, high, max(1, height - 2), step, max(1, -(-count // room)))

    def _draw(self, width: int, height: int) -> list[Line]:
        if not self.spans or width < 30 or height < 4:
            return [[(self.said, "dim")]]
        scale = self._scale(width, height)
        columns = min(width - _SPAN_LABEL, scale.column(self.count - 1) + scale.step)
        cells = [[(" ", "")] * columns for _ in range(scale.rows)]
        for at, span in enumerate(sorted(self.spans, key=lambda s: (s.first, s.start))):
            mark = (_BLOCKS[at % 3], _SPAN_STYLES[at % 3])
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
            label = human_bytes(address) if row in (0, scale.rows // 2, scale.rows - 1) else ""
            lines.append([(f"{label:>{_SPAN_LABEL - 1}} ", "dim"), *_runs(cells[row])])
        rule = ["─"] * columns
        rule[min(columns - 1, scale.column(self.chosen))] = "▲"
        lines.append([(f"{'layer ' + str(self.chosen + 1):>{_SPAN_LABEL - 1}} ", "dim")])
        lines[-1].append(("".join(rule), "head" if self.has_focus else "dim"))
        return lines

    def _peak_line(self, column: int, most: int, columns: int) -> Line:
        text = f"peak {human_bytes(most)}"
        at = _SPAN_LABEL + column
        line = f"{'':{at}}▼ {text}"
        if column + len(text) + 2 > columns:
            line = f"{text} ▼".rjust(at + 1)
        return [(fit(line, _SPAN_LABEL + columns), "head")]

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
