"""The memory of a model on a chip: over time, and which tensors are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.containers import Vertical

from engine import human_bytes
from engine.wire.cost_tables import TENSORS
from rknntui.screens.chips.spans import SpansChart, alive_at, peak_of
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable, name_text

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.wire.cost import ChipEstimate


class SpansPane(Vertical):
    """The blocks of memory over time; below them the tensors that are alive at a layer."""

    DEFAULT_CSS = """
    SpansPane { height: 1fr; & RecordView { height: 2fr; min-height: 5; } }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.found: ChipEstimate | None = None
        self._table = RecordTable(TENSORS, id="alive-tensors", what="memory")

    def compose(self) -> ComposeResult:
        yield SpansChart(id="spans")
        yield RecordView("Tensors alive (estimated)", self._table, id="alive")

    @property
    def chart(self) -> SpansChart:
        """The blocks."""
        return self.query_one(SpansChart)

    @property
    def table(self) -> RecordTable:
        """The tensors."""
        return self._table

    def take(self, found: ChipEstimate | None, said: str) -> None:
        """Show a chip; ``said`` stands there while there is nothing."""
        self.found = found
        memory = found.memory if found is not None else None
        layers = len(found.layers) if found is not None else 0
        spans = memory.spans if memory is not None else ()
        self.chart.show(spans, max(layers, max((s.last + 1 for s in spans), default=0)), said)
        self._list()

    @on(SpansChart.Moved)
    def _list(self) -> None:
        chart, found = self.chart, self.found
        alive = alive_at(chart.spans, chart.chosen)
        peak = peak_of(chart.spans)[1]
        names = found.layers if found is not None else ()
        at = names[chart.chosen].name if chart.chosen < len(names) else ""
        title = f"Tensors alive at layer {chart.chosen + 1} {name_text(at)}".rstrip()
        size = human_bytes(sum(span.end - span.start for span in alive))
        view = self.query_one("#alive", RecordView)
        view.set_title(f"{title}: {size} (estimated)" if alive else "Tensors alive (estimated)")
        self._table.set_records(
            [
                TENSORS.record(span, share=(span.end - span.start) / peak if peak else None)
                for span in alive
            ],
            keep="tensor",
        )
