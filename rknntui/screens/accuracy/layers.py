"""The pane about one layer: what is known of it, and its histograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.message import Message

from engine.wire.graph import LayerSpread
from rknntui.keys.text import key_text
from rknntui.screens.accuracy.text import held, layer_lines
from rknntui.widgets.histogram_chart import Histogram, HistogramChart
from rknntui.widgets.line_list import TextRows

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.wire.layers import LayerFigures


class LayerPane(Vertical):
    """Shows one layer; drilled into, over the whole workspace, it asks for the histograms.

    It has the class ``-charted`` while there are histograms of the layer.

    Attributes:
        tensor: of the layer that is shown; empty before one is chosen.
        drilled: whether the pane has the workspace for itself.
    """

    @dataclass(eq=False)
    class Wanted(Message):
        """The histograms of a tensor are to be told: :meth:`take` or :meth:`failed`."""

        tensor: str

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.tensor = ""
        self.drilled = False
        self._row: LayerFigures | None = None
        self._known: dict[str, LayerSpread | str] = {}

    def compose(self) -> ComposeResult:
        yield TextRows(id="layer-facts")
        yield HistogramChart(id="chart")

    def on_mount(self) -> None:
        facts = self.query_one(TextRows)
        facts.SHOW_CURSOR = False
        facts.can_focus = False

    @property
    def node(self) -> str:
        """The layer's node in the optimised graph; empty while it is not known."""
        if self._row is not None:
            return self._row.id
        known = self._known.get(self.tensor)
        return known.layer if isinstance(known, LayerSpread) else ""

    def show_layer(self, tensor: str, row: LayerFigures | None) -> None:
        """Show a layer; ``row`` is its row of the ranking, None where it has none."""
        self.tensor, self._row = tensor, row
        self.draw()

    def drill(self, tensor: str, row: LayerFigures | None) -> None:
        """Take the focus, and show the histograms of a layer."""
        self.tensor, self._row, self.drilled = tensor, row, True
        facts = self.query_one(TextRows)
        facts.can_focus = True
        facts.focus()
        if tensor not in self._known:
            self.post_message(self.Wanted(tensor))
        self.call_after_refresh(self.draw)

    def back(self) -> None:
        """Be a pane beside the ranking again."""
        self.drilled = False
        self.query_one(TextRows).can_focus = False

    def forget(self) -> None:
        """What was read is of another build."""
        self._known.clear()

    def take(self, layer: LayerSpread) -> None:
        """Show the histograms of a tensor."""
        self._known[layer.tensor] = self._known[layer.layer] = layer
        self.draw()

    def failed(self, error: Exception) -> None:
        """Say why there are no histograms of the layer that is shown."""
        what, remedy = getattr(error, "what", str(error)), getattr(error, "remedy", "")
        self._known[self.tensor] = f"{what} {remedy}".strip()
        self.draw()

    def draw(self) -> None:
        """Show what is known, in the width of now."""
        if not self.is_attached:
            return
        facts, chart = self.query_one(TextRows), self.query_one(HistogramChart)
        width = max(20, self.size.width - 4)
        known = self._known.get(self.tensor)
        facts.set_lines(layer_lines(self.tensor, self._row, known, width, self.drilled))
        self.set_class(isinstance(known, LayerSpread), "-charted")
        if not isinstance(known, LayerSpread):
            said = "reading the calibration samples …" if known is None else ""
            shows = f"{key_text('accuracy.drill')} or Enter shows the histograms"
            chart.show((), said=said if self.drilled else shows)
            return
        low, high = known.low, known.high
        golden = Histogram("reference (float)", low, high, known.golden, "good")
        simulated = Histogram("simulated", low, high, known.simulated, "accent")
        chart.show((golden, simulated), held(known))

    def text(self) -> str:
        """Facts and histograms as text."""
        lines = ["".join(t for t, _ in line) for line in self.query_one(HistogramChart).lines()]
        return "\n".join([self.query_one(TextRows).text(), *lines])
