"""Workspace Hybrid: the dtype and range of every layer, with the effect of each change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container

from engine.wire.build import ACCURACY, AccuracyParams, Analysis
from engine.wire.hybrid import (
    PROPOSE,
    SEARCH,
    TABLE,
    OutputFigure,
    Proposal,
    ProposeParams,
    SearchParams,
    SearchResult,
    Table,
)
from engine.wire.layers import HYBRID
from engine.wire.requests import ModelTarget
from rknntui.keys.actions import key_text
from rknntui.keys.commandline import command_for, command_with
from rknntui.links import GoToDtype
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.layers import panes
from rknntui.screens.layers.panes import LayerEdits, LiveEffect, ask_dtype, ask_range
from rknntui.screens.layers.search import (
    PROPOSE_FORM,
    SEARCH_FORM,
    SearchPane,
    checked_search,
)
from rknntui.screens.layers.words import (
    BuildCost,
    OwnErrors,
    facts,
    output_lines,
    row_lines,
    show_layers,
    shown_build,
)
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.line_list import Rows, TextRows
from rknntui.widgets.one_line import FactsLine, ViewBar
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from rknntui.links import Link
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import (
        BuildFinished,
        JobChanged,
        JobEnded,
        RecipeChanged,
        ResultFound,
    )

_ERROR_LINES = 3
_SEARCHING = ("pause", "keep")
_EDITS = ("lift", "choose", "range", "propose", "search", "reset", "apply")


class Hybrid(TableWorkspace):
    """The outputs on top, below them the layers, or the search."""

    NAME = "layers"
    HELP = (
        "{layers.lift} promotes a layer to float16 (else int16), or undoes it; Enter chooses its "
        "dtype, {layers.range} sets its range. The effect on the outputs is shown at the top, "
        "simulated. ● marks your changes; “built” shows the result: ✓ applied, ✗ not applied, ~ "
        "simulated, · not built yet. SQNR dB is cumulative (includes the errors of the layers "
        "before it); {layers.analyse} measures the isolated error. {layers.mark} marks layers "
        "(*): the next action applies to all of them. {layers.search} searches for the layers "
        "that matter most; {layers.pause} pauses it, {layers.keep} stops it and uses the best so "
        "far, {layers.apply} applies a step of its curve."
    )
    FIRST_FOCUS = "#layers"
    PANES = {"Layers": "hybrid-layers", "Search": "search"}
    DEFAULT_CSS = """
    Hybrid {
        & #outputs { height: auto; max-height: 7; padding: 0 1; }
        & #hybrid-panes { height: 1fr; }
        & #hybrid-layers, & #search { height: 1fr; }
        & #search { display: none; }
        & #row-facts { height: 3; padding: 0 1; border-top: solid $panel; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._outputs: Sequence[OutputFigure] = ()
        self._wanted = ""  # layer that a link leads to
        self._cost = BuildCost()
        self._proposal = ProposeParams()  # as the last one was asked for
        self._over = ""  # which samples the figures of the build are over
        self.own = OwnErrors()
        self.effect = LiveEffect(self, self.draw)
        self.edits = LayerEdits(self.session, self.draw)

    def compose(self) -> ComposeResult:
        yield FactsLine(id="hybrid-facts")
        yield TextRows(id="outputs")
        yield ViewBar(tuple(self.PANES), id="hybrid-views")
        with Container(id="hybrid-panes"):
            table = LayerTable(HYBRID, id="layers", what="hybrid")
            title = "Layers (SQNR simulated, over the calibration samples)"
            yield LayerView(title, table, id="hybrid-layers")
            yield SearchPane(id="search")
        yield TextRows(id="row-facts")

    def on_mount(self) -> None:
        for name in ("outputs", "row-facts"):
            pane = self.query_one(f"#{name}", TextRows)
            pane.SHOW_CURSOR = False
            pane.can_focus = False
        self.set_interval(1, self._tick)

    table = getters.query_one(LayerTable)
    """The layers."""

    @property
    def chosen(self) -> str | None:
        """The layer under the cursor."""
        figures = self.table.figures
        return None if figures is None else figures.id

    pane = getters.query_one(SearchPane)
    """The search."""

    @property
    def search(self) -> JobView | None:
        """The search that runs, or the last one."""
        return self.session.newest(SEARCH.name)

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self._read()
        self._edited()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """Something else is asked for: the effect follows."""
        if self.shown:
            self._edited()

    def on_model_opened(self) -> None:
        """Another model has other layers."""
        self.edits.marked.clear()
        self._cost.clear()
        if self.shown:
            self._read()

    def on_build_finished(self, message: BuildFinished) -> None:
        """See what the build made of what was asked."""
        if self.shown:
            self._read()

    def on_job_changed(self, message: JobChanged) -> None:
        """Let the curve grow; say that a first build runs."""
        if self.shown and not self.edits.rows:
            self._read()
        search = self.search
        if self.shown and search is not None and search.id == message.job:
            self._show_search()
            self.screen.refresh_bindings()

    def on_job_ended(self, message: JobEnded) -> None:
        """Take an effect, a proposal or the end of a search."""
        self.effect.ended(message)
        job = self.session.jobs.get(message.job)
        if isinstance(message.result, Proposal) and not (job and job.background):
            self._proposed(message.result)
        elif isinstance(message.result, Analysis):
            self._analysed(message.job, message.result)
        elif message.method == SEARCH.name:
            result = message.result
            self.pane.found = result if isinstance(result, SearchResult) else None
            self._show_search()
        if self.shown:
            if not self.edits.rows:
                self._read()
            self.screen.refresh_bindings()

    def _show_search(self) -> None:
        self.pane.show_search(self.search)

    def _analysed(self, job: str, result: Analysis) -> None:
        """Show the error of each layer alone, which tells better which ones to lift."""
        if not self.own.take(self.session.jobs.get(job), result, self.edits.table_of):
            return
        self.draw()
        if self.shown:
            self.table.sort_field("own")
            self.table.cursor = 0

    def on_result_found(self, message: ResultFound) -> None:
        """A ranking of an earlier run has the errors of layers alone."""
        if message.method == ACCURACY.name and self.edits.table_of is not None:
            self.own.find(self.session, self.edits.table_of)
            self.draw()

    def _read(self) -> None:
        """Ask for the layers of the last build, where there is one that is not shown yet."""
        built, why = shown_build(self.session)
        if built is None:
            self.edits.show((), None)
            self._outputs = ()
            self.table.set_empty(why)
            self.draw()
            return
        if built is self.edits.table_of:
            return
        self.table.set_empty("reading …")
        self.ask(TABLE, ModelTarget(recipe=built), partial(self._known, built))

    def _known(self, built: Values, table: Table) -> None:
        self.edits.show(table.rows, built)
        self.own.find(self.session, self.edits.table_of)
        self._outputs = table.outputs
        self._over = table.over.removeprefix("the ")
        self._cost.take_table(table)
        self._edited()
        if self.table.sorted_by in (
            None,
            "isolated_sqnr",
        ):  # a new build has no errors of layers alone yet
            self.table.sort_field("sqnr")
            self.table.cursor = 0
        self._find_wanted()

    def _edited(self) -> None:
        self.effect.edited(self.session.recipe, self.edits.table_of)
        self.draw()

    # -- drawing ---------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.is_attached:
            return
        show_layers(self.table, self.edits, self.effect, self._cost.proposed, self.own.rows)
        time = self._cost.words(self.effect)
        top = facts(self.edits, self.effect, self._over, self.own.over, time)
        self.query_one("#hybrid-facts", FactsLine).show(*top)
        width = max(20, self.size.width - 3)
        lines = output_lines(self._outputs, self.effect.outputs, width)
        error_rows = wrap(f"✗ {self.effect.error}", width) if self.effect.error else []
        lines += [[(row, "bad")] for row in error_rows[:_ERROR_LINES]]
        pane = self.query_one("#outputs", TextRows)
        pane.display = bool(lines)
        pane.styles.height = len(lines)
        pane.set_lines(lines)
        self._draw_row()

    @on(Rows.Highlighted, "#layers")
    def _draw_row(self) -> None:
        pane = self.query_one("#row-facts", TextRows)
        pane.display = self.bar.current == "Layers" and self.table.record is not None
        pane.set_lines(row_lines(self.table, max(20, self.size.width - 3)))

    def on_resize(self) -> None:
        """Lines of the new width."""
        self.call_after_refresh(self.draw)

    def _tick(self) -> None:
        search = self.search
        if self.shown and search is not None and search.running:
            self.pane.draw()

    def pane_shown(self, view: str) -> None:
        self._draw_row()
        if view == "Search":
            self._show_search()
        (self.pane.table if view == "Search" else self.table).focus()

    # -- actions ---------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if method in _EDITS and self.session.container is not None:
            return "a container is already built; open its model."
        if method in _EDITS and method != "apply" and not self.edits.rows:
            return "there is no build yet ({app.build} builds)."
        if method in _SEARCHING:
            search = self.search
            return "" if search is not None and search.running else "no search is running."
        if method == "apply":
            none = "there is no step to apply ({layers.search} searches)."
            return "" if self.pane.point is not None else none
        if method == "stop":
            return "" if self.session.running is not None else "no job is running."
        if method == "build" and not self.session.recipe.get("model"):
            return "no model is open ({app.open} opens one)."
        if (
            method in ("drill", "node", "cost", "mark", "mark_shown", "analyse")
            and not self.edits.rows
        ):
            return "there is no build yet ({app.build} builds)."
        return super().unavailable_reason(method)

    def action_lift(self) -> None:
        """Lift the chosen layers, or take them back."""
        self.edits.lift(self.chosen)

    @on(Rows.Chosen, "#layers")
    def action_choose(self) -> None:
        """Choose among the dtypes that all of the chosen layers have."""
        ask_dtype(self.app, self.edits, self.edits.chosen(self.chosen))

    def action_range(self) -> None:
        """Ask for the range of the layer under the cursor."""
        ask_range(self.app, self.edits, self.table.record)

    def action_reset(self) -> None:
        """Ask for nothing any more."""
        self.edits.ask_for({}, {})
        undo = key_text("app.undo")
        self.notify(f"All overrides are reset. {undo} undoes it.")

    def action_mark(self) -> None:
        """Mark the layer under the cursor, and go on to the next one."""
        if self.chosen is not None:
            self.edits.toggle_marks({self.chosen})
            self.table.action_move(1)

    def action_mark_shown(self) -> None:
        """Mark every row that is shown; where all are, none."""
        self.edits.toggle_marks({record["id"] for record in self.table.records})

    def action_analyse(self) -> None:
        """Compare every layer with the float graph, alone and with the errors before it."""
        params = AccuracyParams(recipe=self.edits.table_of)
        self.start_job(ACCURACY, params, "accuracy of layers")

    def action_propose(self) -> None:
        """Ask for a budget of time; then the engine chooses, from the build's errors."""

        def start(asked: ProposeParams) -> None:
            self._proposal = asked
            params = replace(asked, recipe=self.edits.table_of)
            self.start_job(PROPOSE, params, "hybrid proposal")

        PROPOSE_FORM.ask(self.app, self._proposal, then=start)

    def _proposed(self, proposal: Proposal) -> None:
        time = self._cost.take_proposal(proposal)
        if not proposal.layers:
            self.notify("No layer is proposed: no gain is large enough.", markup=False)
            return
        self.edits.ask_for({**self.edits.layers, **proposal.layers})
        back = f"{key_text('app.undo')} undoes it."
        self.notify(f"{len(proposal.layers)} layers proposed. {time}{back}", markup=False)

    def action_search(self) -> None:
        """Ask what to search for, then search."""

        def start(wanted: SearchParams) -> None:
            self.pane.asked, self.pane.found = wanted, None
            asked = {n: self.session.recipe.get(n) for n in (panes.LAYERS, panes.RANGES)}
            recipe = {**(self.edits.table_of or {}), **asked}
            self.start_job(SEARCH, replace(wanted, recipe=recipe), "hybrid search")
            self.bar.choose("Search")

        SEARCH_FORM.ask(self.app, self.pane.asked, then=start, check=checked_search)

    def action_pause(self) -> None:
        """Let the search wait, or go on."""
        if self.search is not None:
            self.bridge.pause(self.search.id)

    def action_keep(self) -> None:
        """End the search; its best so far stays."""
        if self.search is not None:
            self.bridge.finish(self.search.id)
            self.notify("The search stops with its best result so far.")

    def action_apply(self) -> None:
        """Ask for the layers of the step under the cursor."""
        point = self.pane.point
        if point is not None:
            self.edits.ask_for(dict(point.layers))
            back = f"{key_text('app.undo')} undoes it."
            self.notify(
                f"{len(point.layers)} layers are promoted in the recipe. {back}", markup=False
            )
            self.bar.choose("Layers")

    def linked_layer(self, method: str) -> str:
        figures = self.table.figures
        if method == "node" and figures is not None:
            return "" if figures.choice is None else figures.choice.node
        return self.chosen or ""

    def arrive(self, link: Link) -> None:
        if isinstance(link, GoToDtype):
            self._wanted = link.layer
            self.bar.choose("Layers")
            self._find_wanted()

    def _find_wanted(self) -> None:
        """Put the cursor on the layer that a link leads to, once the layers are known."""
        rows = self.edits.rows
        if not self._wanted or not rows:
            return
        name, self._wanted = self._wanted, ""
        if not self.table.select_layer(name):
            self.notify(f"{name} is no quantized layer of this build.", markup=False)

    def action_stop(self) -> None:
        """Back to the layers; a running job is asked about."""
        if self.session.running is not None:
            self.workbench.ask_to_stop(self.session.running)

    def copy_text(self) -> str:
        return self.record_text()

    def command_line(self) -> list[str]:
        if self.bar.current == "Search":
            return command_with("hybrid search", self.session, self.pane.asked)
        return command_for("hybrid table", self.session)
