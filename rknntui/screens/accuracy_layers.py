"""The half of Accuracy about one layer: what is known of it, and its histograms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual import on

from rknntui.screens.accuracy_guide import GuidePane
from rknntui.screens.accuracy_text import layer_lines
from rknntui.screens.tables import TableWorkspace
from rknntui.widgets.histogram_chart import Histogram, HistogramChart
from rknntui.widgets.records import RecordTable
from rknntui.widgets.rows import Rows, TextRows
from rknntui.widgets.view_bar import ViewBar

__all__ = ["LayerDrill"]

BINS = 256


class LayerDrill(TableWorkspace):
    """Shows the layer under the cursor, and its histograms over the whole workspace.

    Attributes:
        known_layers: tensor -> answer of ``layer``, or why there is none.
        wanted: the tensor that is shown.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known_layers: dict[str, dict[str, Any]] = {}
        self.wanted = ""

    @property
    def table(self) -> RecordTable:
        """The ranking."""
        return self.query_one("#ranking", RecordTable)

    @property
    def guide(self) -> GuidePane:
        """The guide."""
        return self.query_one(GuidePane)

    @property
    def bar(self) -> ViewBar:
        """The names of the views."""
        return self.query_one(ViewBar)

    @on(Rows.Highlighted, "#ranking")
    def moved(self) -> None:
        record = self.table.record
        if record is not None and not self.has_class("-drilled"):
            self.wanted = record["tensor"]
            self.draw_layer()
            self.screen.refresh_bindings()

    @on(Rows.Chosen, "#ranking")
    def action_drill(self) -> None:
        """Show the histograms of the layer under the cursor, or go back to the ranking."""
        if self.has_class("-drilled"):
            self.action_back()
        elif self.table.record is not None:
            self.show_layer(self.table.record["tensor"])

    def show_layer(self, tensor: str) -> None:
        """Show the histograms of a tensor; other workspaces lead here."""
        if self.session.container is not None:
            self.notify("A container has no calibration samples; open its model.")
            return
        if self.bar.current != "Layers":
            self.bar.choose("Layers")
        self.table.select_record("tensor", tensor)
        self.wanted = tensor
        self.add_class("-drilled")
        self.query_one("#layer-facts", TextRows).can_focus = True
        self.query_one("#layer-facts", TextRows).focus()
        if tensor not in self.known_layers:
            params = {
                "recipe": self.session.built or self.session.recipe,
                "tensor": tensor,
                "bins": BINS,
            }
            self.ask("layer", params, self._layer_known, failed=self._layer_failed)
        self.call_after_refresh(self.draw_layer)

    def action_back(self) -> None:
        """Back to the ranking; from there stop a running analysis."""
        if self.has_class("-drilled"):
            self.remove_class("-drilled")
            self.query_one("#layer-facts", TextRows).can_focus = False
            self.table.focus()
            self.call_after_refresh(self.moved)
        elif self.session.running is not None:
            self.workbench.action_cancel()

    def _layer_known(self, layer: dict[str, Any]) -> None:
        self.known_layers[layer["tensor"]] = layer
        self.draw_layer()

    def _layer_failed(self, error: Exception) -> None:
        what, remedy = getattr(error, "what", str(error)), getattr(error, "remedy", "")
        self.known_layers[self.wanted] = {"failed": f"{what} {remedy}".strip()}
        self.draw_layer()

    def draw_layer(self) -> None:
        if not self.is_attached:
            return
        pane, chart = self.query_one("#layer-facts", TextRows), self.query_one(HistogramChart)
        width = max(20, self.query_one("#layer").size.width - 4)
        known = self.known_layers.get(self.wanted)
        record = next((r for r in self.table.records if r["tensor"] == self.wanted), None)
        drilled = self.has_class("-drilled")
        pane.set_lines(layer_lines(self.wanted, record, known, width, drilled))
        charted = known is not None and "failed" not in known
        self.set_class(charted, "-charted")
        if known is None or not charted:
            said = "reading the calibration samples …" if drilled and known is None else ""
            chart.show((), said=said if drilled else "d or Enter shows the histograms")
            return
        low, high = known["low"], known["high"]
        quant = known.get("quant")
        used = None
        if quant and quant.get("minimum") and quant.get("maximum"):
            used = (min(quant["minimum"]), max(quant["maximum"]))
        golden = Histogram("golden (float)", low, high, tuple(known["golden"]), "good")
        simulated = Histogram("simulated", low, high, tuple(known["simulated"]), "accent")
        chart.show((golden, simulated), used)

    async def action_node(self) -> None:
        """Show the layer in the optimised graph."""
        known = self.known_layers.get(self.wanted) or {}
        record = next((r for r in self.table.records if r["tensor"] == self.wanted), {})
        name = record.get("name") or known.get("layer")
        if name:
            await self.go_to_node(str(name), "optimised")

    def start_folder(self) -> str:
        """Where a picker for samples starts: beside the calibration samples."""
        dataset = self.session.recipe.get("dataset")
        if not isinstance(dataset, str):
            return ""
        return str(dataset if Path(dataset).is_dir() else Path(dataset).parent) + "/"
