"""The charts of Chips, each above its table: the roofline of the layers, memory over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message

from engine import human_bytes
from engine.wire.cost_tables import TENSORS
from engine.wire.formats import SIZE
from engine.wire.layer_tables import ROOFLINE
from engine.wire.layers import layer_rows
from rknntui.screens.chips import words
from rknntui.widgets.charts import Axis, Chart, Spot, scatter, short
from rknntui.widgets.divider import Divider
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable, name_text
from rknntui.widgets.strips import Line, fit
from rknntui.widgets.wrap import told

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.wire.cost import ChipEstimate, MemoryCost
    from engine.wire.layers import LayerFigures
    from rknntui.screens.chips.workspace import Chips

_BOUNDS = {"compute": ("•", "accent"), "memory": ("○", "good"), "other": ("·", "")}
"""What bounds a layer -> its sign and style in a roofline."""


class ChipChart(Chart):
    """A chart of the chip that is looked at; ``said`` stands there while there is nothing."""

    DEFAULT_CSS = """
    ChipChart { height: 3fr; min-height: 6; padding: 0 1; }
    """

    found: ChipEstimate | None = None
    said = ""

    def show(self, found: ChipEstimate | None, said: str) -> None:
        """Draw a chip."""
        self.found, self.said = found, said
        self.redraw()


class ChartPane(Vertical):
    """A chart, and the table that it is about."""

    DEFAULT_CSS = """
    ChartPane { height: 1fr; & RecordView { height: 2fr; min-height: 5; } }
    """

    def __init__(
        self,
        chart: ChipChart,
        view: RecordView,
        *,
        id: str,  # noqa: A002 - Textual's own name
    ) -> None:
        super().__init__(id=id)
        self.chart = chart
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.chart
        yield Divider(str(self.id).replace("-pane", "-divider"))
        yield self.view

    @property
    def table(self) -> RecordTable:
        """The table below it."""
        return self.view.table

    def notes(self, chips: Chips, width: int) -> list[Line]:
        """How sure the figures are."""
        return words.chip_lines(chips.estimate, width)


class RooflineChart(ChipChart):
    """Both axes logarithmic; the chosen layer is marked, cells with several layers are larger."""

    rows: Sequence[LayerFigures] = ()
    chosen: LayerFigures | None = None

    def _draw(self, width: int, height: int) -> list[Line]:
        if not self.rows or self.found is None or width < 30 or height < 5:
            return [[(self.said, "dim")]]
        peak, moved = self.found.peak_gops, self.found.bandwidth_gbs
        line: Line = [("no roof: a rate of this chip is not published", "warn")]
        also = []
        if peak and moved:
            text = f"roof: {short(peak)} GOPS, {short(moved)} GB/s (estimated)   "
            line = [(text, "")]
            for bound, (sign, style) in _BOUNDS.items():
                line += [(f"{sign} ", style), (f"{bound} ", "dim")]
            also.append(Spot(peak / moved, peak))
        spots = []
        for layer in sorted(self.rows, key=lambda layer: layer is self.chosen):
            cost = layer.estimated
            if cost is not None and cost.intensity is not None and cost.gops is not None:
                look = _BOUNDS.get(cost.bound, _BOUNDS["other"])
                look = ("◆", "head") if layer is self.chosen else look
                spots.append(Spot(cost.intensity, cost.gops, *look))
        units = "GOPS", "operations a byte"
        return scatter(spots, width, height, units, line, partial(_roof, self.found), also)


def _roof(found: ChipEstimate, x_axis: Axis, y_axis: Axis) -> Iterator[tuple[int, int, str]]:
    for column in range(x_axis.cells):
        if (limit := found.roof(x_axis.value(column))) is not None:
            yield y_axis.cell(limit), column, "─" if limit == found.peak_gops else "/"


class RooflinePane(ChartPane):
    """The layers that multiply and take time under the roof; others have no place there."""

    chart: RooflineChart
    view: LayerView

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(ROOFLINE, id="roof-layers", what="roofline")
        super().__init__(
            RooflineChart(), LayerView("Layers under the roof (estimated)", table), id=id
        )

    @property
    def layer_id(self) -> str:
        """Of the layer under the cursor."""
        return self.view.layer_id

    def take(self, chips: Chips) -> None:
        """Show the chip that is looked at."""
        found, chart = chips.estimate, self.chart

        def of_roof(layer: LayerFigures) -> dict[str, float | None]:
            cost = layer.estimated
            roof = found.roof(cost.intensity or 0.0) if found is not None and cost else None
            return {"of_roof": cost.gops / roof if roof and cost and cost.gops else None}

        chart.rows = [
            layer
            for layer in (layer_rows(found) if found is not None else ())
            if layer.estimated is not None and layer.estimated.intensity and layer.estimated.gops
        ]
        self.view.table.show_layers(chart.rows, more=of_roof)
        chart.show(found, chips.said)
        self._point()

    @on(Rows.Highlighted, "#roof-layers")
    def _point(self) -> None:
        self.chart.chosen = self.view.table.figures
        self.chart.redraw()


# Memory over time: tensors of the internal memory as blocks of characters.

_LOOKS = (("█", "accent"), ("▓", "good"), ("▒", "warn"))
_SPAN_LABEL = 10
_WIDEST = 6
_FRAME = 2
"""Lines of a table's caption and of its head."""


class SpansChart(ChipChart, can_focus=True):
    """Addresses upwards, layers to the right; a mark under the chosen layer, one over the peak."""

    BINDINGS = [
        Binding("right,l", "move(1)", "Next layer", show=False),
        Binding("left,h", "move(-1)", "Layer before", show=False),
        Binding("home,g", "jump(0)", "First layer", show=False),
        Binding("end,G", "jump(-1)", "Last layer", show=False),
        Binding("p", "peak", "Peak", show=False, tooltip="Go to the layer with most memory."),
    ]
    chosen = 0
    most = 1
    """Tensors that are in memory at once, at most."""

    class Moved(Message):
        """Another layer is chosen."""

    @property
    def memory(self) -> MemoryCost | None:
        """Of the chip; None where no tensors are known."""
        memory = self.found.memory if self.found is not None else None
        return memory if memory is not None and memory.spans else None

    @property
    def count(self) -> int:
        """How many layers there are."""
        spans = self.memory.spans if self.memory is not None else ()
        layers = self.found.layers if self.found is not None else ()
        return max(len(layers), *(span.last + 1 for span in spans), 1)

    def show(self, found: ChipEstimate | None, said: str) -> None:
        """Draw a chip; of another one the peak is chosen."""
        other = found != self.found
        super().show(found, said)
        if other and (memory := self.memory) is not None:
            self.chosen = memory.peak[0]
            self.most = max(len(memory.alive(layer)) for layer in range(self.count))

    def choose(self, layer: int) -> None:
        """Point at a layer."""
        layer = max(0, min(layer, self.count - 1))
        if layer != self.chosen:
            self.chosen = layer
            self.redraw()
            self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        """The layer beside; a cell, where one stands for several."""
        self.choose(self.chosen + by * self._scale(self.size.width)[1])

    def action_jump(self, layer: int) -> None:
        """The first or last layer."""
        self.choose(self.count - 1 if layer < 0 else 0)

    def action_peak(self) -> None:
        """The layer with most memory."""
        if self.memory is not None:
            self.choose(self.memory.peak[0])

    def _scale(self, width: int) -> tuple[int, int]:
        """Cells of a layer, and layers of a cell: one of both is 1."""
        room = max(1, width - _SPAN_LABEL)
        return max(1, min(_WIDEST, room // self.count)), max(1, -(-self.count // room))

    def _draw(self, width: int, height: int) -> list[Line]:
        memory = self.memory
        if memory is None or width < 30 or height < 4:
            return [[(self.said, "dim")]]
        step, pack = self._scale(width)
        columns = min(width - _SPAN_LABEL, (self.count - 1) * step // pack + step)
        rows = max(1, height - 2)
        low = min(span.start for span in memory.spans)
        whole = max(1, max(span.end for span in memory.spans) - low)
        cells = [[(" ", "")] * columns for _ in range(rows)]
        for at, span in enumerate(sorted(memory.spans, key=lambda span: (span.first, span.start))):
            bottom = min((span.start - low) * rows // whole, rows - 1)
            top = max(bottom + 1, (span.end - low) * rows // whole)
            left, right = span.first * step // pack, span.last * step // pack + step
            for row in range(bottom, top):
                cells[row][left:right] = [_LOOKS[at % 3]] * (min(columns, right) - left)
        lines: list[Line] = [self._peak_line(memory, step, pack, columns)]
        for row in range(rows - 1, -1, -1):
            address = low + (row + 1) * whole // rows
            label = human_bytes(address) if row in (0, rows // 2, rows - 1) else ""
            lines.append([(f"{label:>{_SPAN_LABEL - 1}} ", "dim"), *cells[row]])
        rule = ["─"] * columns
        rule[min(columns - 1, self.chosen * step // pack)] = "▲"
        label = f"{f'layer {self.chosen + 1}':>{_SPAN_LABEL - 1}} "
        lines.append([(label, "dim"), ("".join(rule), "head" if self.has_focus else "dim")])
        return lines

    @staticmethod
    def _peak_line(memory: MemoryCost, step: int, pack: int, columns: int) -> Line:
        layer, most = memory.peak
        text, at = f"peak {human_bytes(most)}", _SPAN_LABEL + layer * step // pack
        line = f"{'':{at}}▼ {text}"
        if at + len(text) + 2 > _SPAN_LABEL + columns:
            line = f"{text} ▼".rjust(at + 1)
        return [(fit(line, _SPAN_LABEL + columns), "head")]

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()


class SpansPane(ChartPane):
    """The blocks of memory over time; below them the tensors that are alive at a layer."""

    chart: SpansChart

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(TENSORS, id="alive-tensors", what="memory")
        super().__init__(SpansChart(), RecordView("", table), id=id)

    def take(self, chips: Chips) -> None:
        """Show the chip that is looked at."""
        self.chart.show(chips.estimate, chips.said)
        self._list()

    @on(SpansChart.Moved)
    def _list(self) -> None:
        chart = self.chart
        # the list has the room of the longest: it keeps its place while another layer is chosen
        self.view.styles.max_height = chart.most + _FRAME
        memory, names = chart.memory, chart.found.layers if chart.found is not None else ()
        alive = memory.alive(chart.chosen) if memory is not None else ()
        peak = memory.peak[1] if memory is not None else 0
        at = f" {name_text(names[chart.chosen].name)}" if chart.chosen < len(names) else ""
        size = human_bytes(sum(span.end - span.start for span in alive))
        title = f" at layer {chart.chosen + 1}{at}: {size}" if alive else ""
        self.view.set_title(f"Tensors alive{title} (estimated)")
        self.table.set_records(
            [TENSORS.record(span, share=(span.end - span.start) / peak) for span in alive],
            keep="tensor",
        )

    def notes(self, chips: Chips, width: int) -> list[Line]:
        """Totals, and the keys of the chart."""
        memory = chips.estimate.memory if chips.estimate is not None else None
        if memory is None:
            return super().notes(chips, width)
        text = (
            f"internal {SIZE.text(memory.internal)} + weights {SIZE.text(memory.weight)}; "
            f"whole {SIZE.text(memory.total)}. ←→ another layer, p the peak."
        )
        return told(text, width)
