"""Workspace Layers: the one table of layers, promotion with its effect, detail, search, guide."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from engine import sanitize
from engine.wire.build import ACCURACY, AccuracyParams
from engine.wire.cost import COST_ESTIMATE, EstimateParams, Estimates
from engine.wire.guide import GUIDE, Answer, GuideParams
from engine.wire.hybrid import PROPOSE, SEARCH, Proposal, ProposeParams, SearchResult
from engine.wire.layer_tables import LAYER_SETS, LAYERS, most_worth
from engine.wire.layers import layer_rows
from engine.wire.model import LAYER, LayerParams
from engine.wire.table import LOW_DB, no_noise
from rknntui.keys.commandline import command_for, command_with
from rknntui.links import GoTo, GoToCompile, GoToLayer, Link
from rknntui.screens.layers.detail import LayerDetail
from rknntui.screens.layers.edits import LiveEffect
from rknntui.screens.layers.guide import GuidePane
from rknntui.screens.layers.promoting import Promoting
from rknntui.screens.layers.search import ANALYSE_FORM, SearchPane
from rknntui.screens.layers.words import (
    CURVES,
    edit_values,
    facts,
    network_series,
    no_layers,
    output_lines,
    set_text,
)
from rknntui.session.messages import RecipeChanged, TargetChanged
from rknntui.widgets.charts import CurveChart
from rknntui.widgets.divider import Divider
from rknntui.widgets.layer_table import KnownLayersView
from rknntui.widgets.line_list import Prose, Rows
from rknntui.widgets.one_line import FactsLine, ViewBar
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from rknntui.session.messages import JobChanged, JobEnded, LayersChanged

_ERROR_LINES = 3
_OF_MODEL = ("run", "estimate", "compile", "measure", "step", "export")
_OF_BUILD = (
    *("run", "analyse", "lift", "edit", "propose", "search", "again", "reset"),
    *("mark", "mark_shown"),
)
_AT_LAYER = ("detail", "node", "step_problem", "curve")
_COMMANDS = {
    "Search": "hybrid search",
    "Cost": "perf estimate",
    "Quality": "hybrid table",
    "Guide": "accuracy --guide",
}
"""View -> the command that prints what it shows; ``accuracy`` of the others."""


class Layers(Promoting):
    """The outputs on top, below them the layers with their detail, or the search, or the guide."""

    NAME = "layers"
    HELP = (
        "{layers.lift} promotes a layer to float16 (else int16), or undoes it; Enter sets dtype "
        "and range. The effect on the outputs is shown at the top, simulated. ● marks your "
        "changes; “built” shows the result: ✓ applied, ✗ not applied, ~ simulated, · not built "
        "yet. {layers.next-view} shows other columns of the same layers: quality, cost, compiled, "
        "board, all; {layers.run} fills them. SQNR dB is cumulative (includes the errors of the "
        "layers before it), isol. dB is of the layer alone. {layers.propose} promotes within a "
        "budget; {layers.search} searches, {layers.guide} is the accuracy guide."
    )
    FIRST_FOCUS = "#layers-table"
    SCOPED_CSS = False  # the size of the screen alone decides where the detail stands
    DEFAULT_CSS = """
    Layers {
        & #outputs { height: auto; max-height: 7; padding: 0 1; }
        & #layers-body, & #search, & #guide, & #layers-left { height: 1fr; }
        & #network { height: 8; }
        & #detail { height: 14; }
    }
    Screen.-wide Layers {
        & #layers-body { layout: horizontal; }
        & #layers-left { width: 3fr; }
        & #detail { width: 2fr; height: 1fr; }
    }
    Screen.-low Layers {
        & #detail { height: 2; }
        & HistogramChart { display: none; }
    }
    Layers.-drilled {
        & #layers-left { display: none; }
        & #layers-body #detail { height: 1fr; }
        & #layers-body HistogramChart { display: block; }
        & #layers-body #layer-facts { max-height: 12; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._wanted = ""  # layer that a link leads to
        self._analysis = AccuracyParams()
        self._order = ""
        self._curve = ""
        self.effect = LiveEffect(self)

    def compose(self) -> ComposeResult:
        yield FactsLine(id="layers-facts")
        yield Prose(id="outputs")
        yield ViewBar((*LAYER_SETS, "Search", "Guide"), id="layers-views")
        with Container(id="layers-body"):
            with Vertical(id="layers-left"):
                yield CurveChart(id="network")
                yield KnownLayersView(self.session.layers, LAYER_SETS["Quality"], id="layers")
            yield Divider("layers-divider")
            yield LayerDetail(id="detail")
        yield SearchPane(id="search")
        yield GuidePane(id="guide")

    def on_mount(self) -> None:
        self.pane_shown(self.view)

    detail = getters.query_one(LayerDetail)
    """The layer under the cursor."""

    @property
    def drilled(self) -> bool:
        """Whether the detail has the table's place."""
        return self.has_class("-drilled")

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self.effect.edited(self.session.recipe, self.session.built)
        self.draw()
        self._find_wanted()

    @on(RecipeChanged)
    @on(TargetChanged)
    def _changed(self) -> None:
        if self.shown:
            self.update_view()

    def on_model_opened(self) -> None:
        """Another model has other layers, and another guide."""
        self.guide.restart()
        self.detail.forget()
        self._drill(False)
        self._proposal = None
        self._changed()

    def on_build_finished(self) -> None:
        """What was read of the last build is outdated."""
        self.detail.forget()
        self._changed()

    def on_layers_changed(self, message: LayersChanged) -> None:
        """More is known of the layers, or another view moved the cursor."""
        if message.rows:
            self._changed()
        elif self.shown:
            self.layers_view.follow()

    def on_job_changed(self, message: JobChanged) -> None:
        """Let the curve of a search grow; say how far the guide is, that a first build runs."""
        job = self.session.jobs.get(message.job)
        if job is not None and job.method == GUIDE.name:
            self.guide.running(job)
        elif self.shown and job is self.search:
            self.pane.show_search(job)
            self.screen.refresh_bindings()
        elif self.shown and self.session.layers.table is None:
            self.draw()

    def on_job_ended(self, message: JobEnded) -> None:
        """Take an effect, a proposal, a step of the guide, or the end of a search."""
        self.effect.ended(message)
        job, result = self.session.jobs.get(message.job), message.result
        if message.method == GUIDE.name:
            self.guide.running(None)
        if isinstance(result, Answer):
            self.guide.take(result)
        elif isinstance(result, Proposal) and job is not None:
            if not (job.background or job.params.get("gains")):
                self._proposed(result)
        elif message.method == SEARCH.name:
            self.pane.found = result if isinstance(result, SearchResult) else None
            self.pane.show_search(self.search)
        self._changed()
        self.screen.refresh_bindings()

    # -- drawing ---------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.is_attached:
            return
        session = self.session
        self.query_one("#layers-facts", FactsLine).show(*facts(self.edits, self.effect, session))
        self.table.set_empty(no_layers(session))
        rows, order = most_worth(session.layers.rows)
        first = self.table.cursor == 0 and order != self._order
        self._order = order
        self.layers_view.show_known(rows, edit_values(self.edits, self.effect))
        if first:  # what is most worth a look came to the top
            self.table.cursor = 0
        said = set_text(session, self.view)
        self.layers_view.set_title(" · ".join(filter(None, ("Layers", said))), order)
        self._draw_outputs()
        self._draw_layer()

    def _draw_outputs(self) -> None:
        width, table = max(20, self.size.width - 3), self.session.layers.table
        lines = output_lines(table.outputs if table else (), self.effect.now, width)
        error_rows = wrap(f"✗ {self.effect.error}", width) if self.effect.error else []
        lines += [[(row, "bad")] for row in error_rows[:_ERROR_LINES]]
        pane = self.query_one("#outputs", Prose)
        pane.display = bool(lines) and self.view != "Guide"
        pane.styles.height = len(lines)
        pane.set_lines(lines)

    @on(Rows.Highlighted, "#layers-table")
    def _draw_layer(self) -> None:
        curve = self.query_one("#network", CurveChart)
        curve.display = bool(self._curve)
        if self._curve:
            curve.show(*network_series(self._curve, self.session.layers.rows, self.chosen))
        if self.table.total or not self.drilled:
            read = self.drilled or not self.screen.has_class("-low")
            self.detail.show_layer(self.table.figures, self.table.record, read=read)

    def on_resize(self) -> None:
        """Wrap anew."""
        self.call_after_refresh(self.draw)

    def pane_shown(self, view: str) -> None:
        of_layers = view in LAYER_SETS
        self.query_one("#layers-body").display = of_layers
        self.pane.display, self.guide.display = view == "Search", view == "Guide"
        if of_layers:
            self.table.declared = LAYER_SETS[view]
        elif view == "Search":
            self.pane.show_search(self.search)
        if self.shown and not (self.drilled and of_layers):
            {"Search": self.pane.table, "Guide": self.guide.table}.get(view, self.table).focus()
        self._changed()

    # -- actions ---------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        session, search = self.session, self.search
        if method in (*_OF_MODEL, *_OF_BUILD) and session.container is not None:
            return "a container is already built; open its model."
        if method in _OF_MODEL and not session.recipe.get("model"):
            return "no model is open ({app.open} opens one)."
        if method in _OF_BUILD and session.layers.table is None:
            why = self.session.asked.get("layers", "there is no build whose layers are known.")
            return f"{sanitize(why, 300)} ({{app.build}} builds)"
        if method in _AT_LAYER and not self.table.total:
            return "no layers are known ({app.build} builds)."
        running = session.running
        if method == "step" and running is not None and running.method == GUIDE.name:
            return "a step is running."
        if method == "step" and self.guide.over:
            return "the guide is finished ({layers.restart} restarts it)."
        if method in ("pause", "keep") and (search is None or not search.running):
            return "no search is running."
        if method == "apply" and self.pane.point is None:
            return "there is no step to apply ({layers.search} searches)."
        return super().unavailable_reason(method)

    def action_run(self) -> None:
        """Compare the layers with the float graph."""
        self._analyse(AccuracyParams())

    def action_estimate(self) -> None:
        """Estimate the layers on the target's chip again: it comes by itself after each change."""
        chip = self.session.chip

        def known(answer: Estimates) -> None:
            if answer.chips and answer.chips[0].chip == self.session.chip:
                self.session.layers.fill("estimated", layer_rows(answer.chips[0]))

        recipe = dict(self.session.built or self.session.recipe)
        self.ask(COST_ESTIMATE, EstimateParams(recipe=recipe, chips=(chip,)), known)

    def action_compile(self) -> None:
        """Show Chips, which compiles."""
        self.post_message(GoToCompile())

    def action_measure(self) -> None:
        """Show Bench, which runs the model on a board."""
        self.post_message(GoTo("bench"))

    def action_step(self) -> None:
        """Run the next step of the guide."""
        recipe, board = dict(self.session.recipe), self.session.boards.chosen
        self.start_job(GUIDE, GuideParams(recipe, self.guide.done, device=board), "accuracy guide")

    def _analyse(self, asked: AccuracyParams) -> None:
        self._analysis = asked
        self.start_job(ACCURACY, replace(asked, recipe=self.session.built), "accuracy of layers")
        if not self.session.layers.of("proposed"):  # they were stopped, or are switched off
            gains = ProposeParams(recipe=self.session.built, gains=True)
            self.workbench.do(self.bridge.submit(PROPOSE, gains, "gains of layers", quiet=True))

    def action_analyse(self) -> None:
        """Ask for samples, output impact and a folder for snapshots, then compare the layers."""
        ANALYSE_FORM.ask(self.app, self._analysis, then=self._analyse)

    def action_guide(self) -> None:
        """Show the accuracy guide."""
        self.bar.choose("Guide")

    def action_curve(self) -> None:
        """Show the next curve along the network, then none."""
        names = ["", *CURVES]
        self._curve = names[(names.index(self._curve) + 1) % len(names)]
        self.draw()

    def action_step_problem(self, by: int) -> None:
        """Go to the next layer with a low SQNR or a change that is not applied, or one before."""
        sqnr, records = LAYERS.column("sqnr"), self.table.records
        low = {row.id for row in self.session.layers.rows if no_noise(sqnr.of(row)) < LOW_DB}
        low |= self.effect.not_applied.keys()
        for step in range(1, len(records) + 1):
            at = (self.table.cursor + by * step) % len(records)
            if records[at]["id"] in low:
                self.table.cursor = at
                return
        self.notify(f"No layer that is shown has an SQNR below {LOW_DB:g} dB.")

    # -- one layer -------------------------------------------------------------------------------

    def action_detail(self) -> None:
        """Show the detail in the table's place, or the table again."""
        self._drill(not self.drilled)

    def _drill(self, drilled: bool) -> None:
        facts_pane = self.detail.facts
        self.set_class(drilled, "-drilled")
        facts_pane.can_focus = drilled
        if self.shown:
            (facts_pane if drilled else self.table).focus()
            self.call_after_refresh(self._draw_layer)

    @on(LayerDetail.Wanted)
    def _read_layer(self, event: LayerDetail.Wanted) -> None:
        if self.session.built is not None:
            params = LayerParams(recipe=self.session.built, tensor=event.tensor, bins=256)
            failed = partial(self.detail.failed, event.tensor)
            self.ask(LAYER, params, self.detail.take, failed=failed)

    def linked_layer(self, method: str) -> str:
        figures = self.table.figures
        if figures is None or figures.choice is None:
            return self.chosen
        return figures.choice.node

    def arrive(self, link: Link) -> None:
        if isinstance(link, GoToLayer):
            self._wanted = link.layer
            self.bar.choose(link.columns.title())
            self._find_wanted()

    def _find_wanted(self) -> None:
        """Put the cursor on the layer that a link leads to, once the layers are known."""
        if self._wanted and self.table.total:
            name, self._wanted = self._wanted, ""
            if not self.table.select_layer(name):
                self.notify(f"{name} is no layer of this build.", markup=False)

    def action_back(self) -> None:
        """Back to the table; from there stop a running job, after a confirmation."""
        if self.drilled:
            self._drill(False)
        elif self.view not in LAYER_SETS:
            self.bar.choose("Quality")
        elif self.session.running is not None:
            self.workbench.stopping.ask(self.session.running)

    # -- copying ---------------------------------------------------------------------------------

    def copy_text(self) -> str:
        if self.view == "Guide":
            return self.guide.text()
        return self.detail.text() if self.drilled else self.record_text()

    def command_line(self) -> list[str]:
        verb, session = _COMMANDS.get(self.view, "accuracy"), self.session
        requests = {"Search": self.pane.asked, "Cost": EstimateParams(chips=(session.chip,))}
        if self.view in requests:
            return command_with(verb, session, requests[self.view])
        return command_for(verb, session)
