"""The layers ranked by their error, with what they were compared over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import layers_counted, sanitize
from engine.wire.build import ACCURACY
from engine.wire.layer_tables import QUALITY
from engine.wire.layers import LayerFigures, layer_rows
from rknntui.keys.text import key_text, with_keys
from rknntui.widgets.facts_line import Fact
from rknntui.widgets.layer_table import LayerTable, LayerView

if TYPE_CHECKING:
    from engine.wire.build import Analysis
    from engine.wire.codec import Values
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

_SORTS = ("sqnr", "isolated_sqnr", "output_impact", "cosine", "isolated_cosine", None)
_WORST_HIGH = ("output_impact",)
_NO_BUILD = "Not built yet.\n\n{go.quantize} shows Quantize, {quantize.build} builds there."
_BUILDING = "The build is running. Then {accuracy.analyse} compares its layers."
_READY = (
    "Not analysed yet.\n\n{accuracy.analyse} compares every layer with the float graph "
    "(simulated): cumulative (with the errors of all layers before it) and isolated (the layer "
    "alone)."
)


class Ranking(LayerView):
    """The table of layers.

    Attributes:
        result: of the job ``accuracy`` that is shown; None before one.
        recipe: that it was about.
        inputs: files that the next job compares over; None: the first calibration sample.
    """

    def __init__(self) -> None:
        table = LayerTable(QUALITY, id="ranking", what="accuracy", empty=with_keys(_NO_BUILD))
        super().__init__("Layers (simulated)", table)
        self.result: Analysis | None = None
        self.recipe: Values | None = None
        self.inputs: list[str] | None = None
        self._sort = 0

    def restart(self) -> None:
        """Forget the layers: they are of another model."""
        self.result = self.recipe = self.inputs = None
        self.layer_table.show_layers(())

    def take(self, job: JobView, result: Analysis) -> None:
        """Show what a job found; the first time the worst layer first."""
        self.result, self.recipe = result, job.recipe
        self.layer_table.show_layers(layer_rows(result), keep="tensor")
        if self.table.sort_column is None:
            self.table.sort_field("sqnr")
            self.table.cursor = 0

    def row_of(self, name: str) -> LayerFigures | None:
        """The row of a layer, by any of its names; None where it has none."""
        return self.layer_table.figures if self.layer_table.select_layer(name) else None

    def sort_next(self) -> None:
        """Rank by the next error that the table shows, worst first; then in the graph's order."""
        shown = (None, *self.table.shown_keys)
        sorts = [key for key in _SORTS if key in shown]
        self._sort = (self._sort + 1) % len(sorts)
        key = sorts[self._sort]
        self.table.sort_field(key, descending=key in _WORST_HIGH)
        self.table.cursor = 0

    def facts(self, session: Session) -> tuple[Fact | str, ...]:
        """What is ranked, or why nothing is; the empty table says what to do."""
        self.table.set_empty(with_keys(_empty(session)))
        job = session.running
        if job is not None and job.method == ACCURACY.name:
            where = f"{job.stage.title}, " if job.stage is not None else ""
            stops = f"{key_text('job.cancel')} stops"
            return (f"▶ analysing: {where}{job.fraction:.0%}, {stops}",)
        if self.result is None:
            without = "the build is running" if session.building else "not built yet"
            return ("✓ built, not analysed" if session.summary else without,)
        samples = self.result.samples
        of = "first calibration sample"
        if self.inputs:
            of = ", ".join(Path(p).name for p in self.inputs)
        again = f"! the recipe changed since: {key_text('accuracy.analyse')}"
        stale = "" if self.recipe == session.recipe else again
        over = f"over {samples} sample" + ("s" if samples != 1 else "")
        counted = layers_counted(self.result)
        layers, short = f"{counted} {over}", f"{counted.partition(',')[0]} {over}"
        compared = Fact(f"{layers} ({sanitize(of, 80)})", (layers, short))
        return compared, *_rounding_fact(self.result), stale


def _rounding_fact(result: Analysis) -> tuple[Fact, ...]:
    """The output that other roundings move most."""
    outputs = () if result.rounding is None else result.rounding.outputs
    if not outputs:
        return ()
    worst = max(outputs, key=lambda output: output.relative)
    share = f"{worst.relative * 100:.2g} % (simulated)"
    moved = f"roundings move {sanitize(worst.name, 40)} by {share}"
    return (Fact(f"other {moved}", (moved, f"rounding: {share}")),)


def _empty(session: Session) -> str:
    if session.summary is None:
        return _BUILDING if session.building else _NO_BUILD
    if not session.summary.quantized:
        return "The build is not quantized: there is no error to analyse."
    if session.container is not None:
        return "A container has no calibration samples; open its model instead."
    return _READY
