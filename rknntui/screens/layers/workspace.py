"""Workspace Layers: the one table of layers, promotion with its effect, detail, search, guide."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from engine.wire.build import ACCURACY, AccuracyParams
from engine.wire.cost import COST_ESTIMATE, EstimateParams, Estimates
from engine.wire.guide import GUIDE, Answer, GuideParams
from engine.wire.hybrid import PROPOSE, SEARCH, Proposal, ProposeParams, SearchResult
from engine.wire.layers import LAYER_SETS, LayerFigures, layer_rows
from engine.wire.model import LAYER, LayerParams
from engine.wire.table import LOW_DB
from rknntui.keys.commandline import command_for, command_with
from rknntui.links import GoTo, GoToCompile, GoToLayer, Link
from rknntui.screens.layers.curve import CURVES, NetworkCurve
from rknntui.screens.layers.detail import REST_SECONDS, LayerDetail
from rknntui.screens.layers.edits import LiveEffect
from rknntui.screens.layers.guide import GuidePane
from rknntui.screens.layers.promoting import Promoting
from rknntui.screens.layers.search import ANALYSE_FORM, SearchPane
from rknntui.screens.layers.words import (
    edit_values,
    facts,
    low_sqnr,
    no_layers,
    ordered,
    output_lines,
    set_text,
)
from rknntui.widgets.divider import Divider
from rknntui.widgets.layer_table import KnownLayersView
from rknntui.widgets.line_list import Rows, TextRows
from rknntui.widgets.one_line import FactsLine, ViewBar
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.widget import Widget

    from rknntui.session.messages import JobChanged, JobEnded, LayersChanged

_ERROR_LINES = 3
_WIDE, _LOW = 140, 30
"""Cells from which the detail stands at the right; lines below which it has a few lines only."""
_NEEDS_LAYERS = ("lift", "edit", "propose", "search", "reset", "mark", "mark_shown")
_AT_LAYER = ("detail", "node", "next_problem", "problem_before", "curve")


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
    DEFAULT_CSS = """
    Layers {
        & #outputs { height: auto; max-height: 7; padding: 0 1; }
        & #layers-panes, & #layers-body, & #search, & #guide { height: 1fr; }
        & #layers-left { width: 3fr; height: 1fr; }
        & #layers-body { layout: horizontal; }
        & #detail { width: 2fr; height: 1fr; }
        &.-stacked #layers-body { layout: vertical; }
        &.-stacked #layers-left { width: 1fr; }
        &.-stacked #detail {
            width: 1fr; height: 14;
        }
        &.-stacked.-few #detail { height: 2; }
        &.-stacked.-few HistogramChart { display: none; }
        &.-drilled #layers-left { display: none; }
        &.-drilled #detail, &.-stacked.-drilled #detail {
            width: 1fr; height: 1fr;
        }
        &.-stacked Divider { width: 1fr; height: 1; }
        &.-drilled Divider { display: none; }
        &.-drilled HistogramChart, &.-stacked.-few.-drilled HistogramChart { display: block; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._wanted = ""  # layer that a link leads to
        self._analysis = AccuracyParams()
        self._rest: Timer | None = None
        self._order = ""
        self.effect = LiveEffect(self)

    def compose(self) -> ComposeResult:
        yield FactsLine(id="layers-facts")
        yield TextRows(id="outputs")
        yield ViewBar((*LAYER_SETS, "Search", "Guide"), id="layers-views")
        with Container(id="layers-panes"):
            with Container(id="layers-body"):
                with Vertical(id="layers-left"):
                    yield NetworkCurve(id="network")
                    yield KnownLayersView(self.session.layers, LAYER_SETS["Quality"], id="layers")
                yield Divider("layers-divider")
                yield LayerDetail(id="detail")
            yield SearchPane(id="search")
            yield GuidePane(id="guide")

    def on_mount(self) -> None:
        outputs = self.query_one("#outputs", TextRows)
        outputs.SHOW_CURSOR = False
        outputs.can_focus = False
        self.curve.choose("")
        self.pane_shown(self.view)
        self.set_interval(1, self._tick)

    detail = getters.query_one(LayerDetail)
    """The layer under the cursor."""

    curve = getters.query_one(NetworkCurve)
    """A figure along the network."""

    @property
    def drilled(self) -> bool:
        """Whether the detail has the table's place."""
        return self.has_class("-drilled")

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self.effect.edited(self.session.recipe, self.session.built)
        self.draw()
        self._find_wanted()

    def _changed(self) -> None:
        if self.shown:
            self.update_view()

    def on_recipe_changed(self) -> None:
        """Something else is asked for: the effect follows."""
        self._changed()

    def on_model_opened(self) -> None:
        """Another model has other layers, and another guide."""
        self.guide.restart()
        self.detail.forget()
        self._undrill()
        self._proposal = None
        self._changed()

    def on_build_finished(self) -> None:
        """What was read of the last build is outdated."""
        self.detail.forget()
        self._changed()

    def on_target_changed(self) -> None:
        """Other figures belong to another chip or board."""
        self._changed()

    def on_layers_changed(self, message: LayersChanged) -> None:
        """More is known of the layers, or another view moved the cursor."""
        if not self.shown:
            return
        if message.rows:
            self._changed()
        else:
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
        job = self.session.jobs.get(message.job)
        if message.method == GUIDE.name:
            self.guide.running(None)
        if isinstance(message.result, Answer):
            self.guide.take(message.result)
        elif isinstance(message.result, Proposal) and job is not None:
            if not (job.background or job.params.get("gains")):
                self._proposed(message.result)
        elif message.method == SEARCH.name:
            result = message.result
            self.pane.found = result if isinstance(result, SearchResult) else None
            self.pane.show_search(self.search)
        self._changed()
        self.screen.refresh_bindings()

    def _estimate(self) -> None:
        """Estimate the layers on the target's chip again: it comes by itself after each change."""

        def known(answer: Estimates) -> None:
            if answer.chips and answer.chips[0].chip == self.session.chip:
                self.session.layers.fill("estimated", layer_rows(answer.chips[0]))

        recipe = dict(self.session.built or self.session.recipe)
        self.ask(COST_ESTIMATE, EstimateParams(recipe=recipe, chips=(self.session.chip,)), known)

    # -- drawing ---------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.is_attached:
            return
        session = self.session
        self.query_one("#layers-facts", FactsLine).show(*facts(self.edits, self.effect, session))
        self.table.set_empty(no_layers(session))
        rows, order = ordered(session.layers.rows)
        first = self.table.cursor == 0 and order != self._order
        self._order = order
        asked = edit_values(self.edits, self.effect)
        self.layers_view.show_known(rows, asked)
        if first:  # what is most worth a look came to the top
            self.table.cursor = 0
        said = set_text(session, self.view)
        order = order if self.table.sort_column is None else ""
        self.layers_view.set_title(" · ".join(filter(None, ("Layers", order, said))))
        self._draw_outputs()
        self._draw_layer()

    def _draw_outputs(self) -> None:
        width, table = max(20, self.size.width - 3), self.session.layers.table
        lines = output_lines(table.outputs if table else (), self.effect.outputs, width)
        error_rows = wrap(f"✗ {self.effect.error}", width) if self.effect.error else []
        lines += [[(row, "bad")] for row in error_rows[:_ERROR_LINES]]
        pane = self.query_one("#outputs", TextRows)
        pane.display = bool(lines) and self.view != "Guide"
        pane.styles.height = len(lines)
        pane.set_lines(lines)

    @on(Rows.Highlighted, "#layers-table")
    def _draw_layer(self) -> None:
        self.curve.show(self.session.layers.rows, self.chosen)
        if self.drilled and not self.table.total:
            return
        self.detail.show_layer(self.table.figures, self.table.record)
        if self._rest is not None:
            self._rest.stop()
        if self.drilled or not self.has_class("-few"):
            self._rest = self.set_timer(REST_SECONDS, self.detail.read)

    def on_resize(self) -> None:
        """Detail at the right where there is room, else below, or a few lines of it."""
        self.set_class(self.size.width < _WIDE, "-stacked")
        self.set_class(self.app.size.height < _LOW, "-few")
        self.call_after_refresh(self.draw)

    def _tick(self) -> None:
        search = self.search
        if self.shown and search is not None and search.running:
            self.pane.draw()

    def pane_shown(self, view: str) -> None:
        of_layers = view in LAYER_SETS
        self.query_one("#layers-body").display = of_layers
        self.pane.display, self.guide.display = view == "Search", view == "Guide"
        if of_layers:
            self.table.use(LAYER_SETS[view])
        elif view == "Search":
            self.pane.show_search(self.search)
        if not self.drilled or not of_layers:
            tables = {"Search": self.pane.table, "Guide": self.guide.table}
            shown: Widget = tables.get(view, self.table)
            if self.shown:
                shown.focus()
        self._changed()

    # -- actions ---------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        session = self.session
        if method in (*_NEEDS_LAYERS, "analyse", "export", "run") and session.container is not None:
            return "a container is already built; open its model."
        if method in (*_NEEDS_LAYERS, "analyse") and session.layers.table is None:
            return "there is no build whose layers are known ({app.build} builds)."
        if method in _AT_LAYER and not self.table.total:
            return "no layers are known ({app.build} builds)."
        if method == "run":
            return self._why_not_run()
        if method in ("pause", "keep"):
            search = self.search
            return "" if search is not None and search.running else "no search is running."
        if method == "apply" and self.view == "Guide":
            return "" if self.listed_findings() else "the step has no fix to apply."
        if method == "apply":
            none = "there is no step to apply ({layers.search} searches)."
            return "" if self.pane.point is not None else none
        if method in ("build", "export") and not session.recipe.get("model"):
            return "no model is open ({app.open} opens one)."
        return super().unavailable_reason(method)

    def _why_not_run(self) -> str:
        session = self.session
        if not session.recipe.get("model"):
            return "no model is open ({app.open} opens one)."
        if self.view == "Guide":
            running = session.running
            if running is not None and running.method == GUIDE.name:
                return "a step is running."
            over = "the guide is finished ({layers.reset} restarts it)."
            return over if self.guide.over else ""
        if self.view in ("Quality", "All", "Search") and session.layers.table is None:
            return "there is no build whose layers are known ({app.build} builds)."
        return ""

    def action_run(self) -> None:
        """Fill the columns that are shown; search; or run the guide's next step."""
        view = self.view
        if view == "Guide":
            done = self.guide.done
            params = GuideParams(dict(self.session.recipe), done, device=self.session.boards.chosen)
            self.start_job(GUIDE, params, "accuracy guide")
        elif view == "Search":
            self.action_search()
        elif view == "Cost":
            self._estimate()
        elif view == "Compiled":
            self.post_message(GoToCompile())
        elif view == "Board":
            self.post_message(GoTo("bench"))
        else:
            self._analyse(AccuracyParams())

    def _analyse(self, asked: AccuracyParams) -> None:
        self._analysis = asked
        params = replace(asked, recipe=self.session.built)
        self.start_job(ACCURACY, params, "accuracy of layers")
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
        now = next((name for name in CURVES if CURVES[name] == self.curve.bands), "")
        self.curve.choose(names[(names.index(now) + 1) % len(names)])
        self.draw()

    def action_next_problem(self) -> None:
        """Go to the next layer with a low SQNR, or whose change is not applied."""
        self._to_problem(1)

    def action_problem_before(self) -> None:
        """Go to the one before."""
        self._to_problem(-1)

    def _to_problem(self, by: int) -> None:
        low = {row.id for row in self.session.layers.rows if low_sqnr(row) < LOW_DB}
        bad = low | self.effect.not_applied.keys()
        records = self.table.records
        for step in range(1, len(records) + 1):
            at = (self.table.cursor + by * step) % len(records)
            if records[at]["id"] in bad:
                self.table.cursor = at
                return
        self.notify(f"No layer that is shown has an SQNR below {LOW_DB:g} dB.")

    # -- one layer -------------------------------------------------------------------------------

    def action_detail(self) -> None:
        """Show the detail in the table's place, or the table again."""
        if self.drilled:
            self._undrill()
            return
        self.add_class("-drilled")
        self.detail.add_class("-drilled")
        self.detail.facts.can_focus = True
        self.detail.facts.focus()
        self.detail.read()
        self.call_after_refresh(self.detail.draw)

    def _undrill(self) -> None:
        self.remove_class("-drilled")
        self.detail.remove_class("-drilled")
        self.detail.facts.can_focus = False
        if self.shown:
            self.table.focus()
            self.call_after_refresh(self._draw_layer)

    @on(LayerDetail.Wanted)
    def _read_layer(self, event: LayerDetail.Wanted) -> None:
        recipe = self.session.built
        if recipe is None:
            return
        params = LayerParams(recipe=recipe, tensor=event.tensor, bins=256)
        failed = partial(self.detail.failed, event.tensor)
        self.ask(LAYER, params, self.detail.take, failed=failed)

    def linked_layer(self, method: str) -> str:
        figures: LayerFigures | None = self.table.figures
        if figures is None:
            return ""
        return figures.choice.node if figures.choice is not None else figures.id

    def arrive(self, link: Link) -> None:
        if isinstance(link, GoToLayer):
            self._wanted = link.layer
            self.bar.choose(link.columns.title())
            self._find_wanted()

    def _find_wanted(self) -> None:
        """Put the cursor on the layer that a link leads to, once the layers are known."""
        if self._wanted and self.table.total:
            name, self._wanted = self._wanted, ""
            if not self.layers_view.table.select_layer(name):
                self.notify(f"{name} is no layer of this build.", markup=False)

    def action_back(self) -> None:
        """Back to the table; from there stop a running job, after a confirmation."""
        if self.drilled:
            self._undrill()
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
        session = self.session
        requests: dict[str, tuple[str, Any]] = {
            "Search": ("hybrid search", self.pane.asked),
            "Cost": ("perf estimate", EstimateParams(chips=(session.chip,))),
            "Quality": ("hybrid table", None),
            "Guide": ("accuracy --guide", None),
        }
        verb, request = requests.get(self.view, ("accuracy", None))
        if request is None:
            return command_for(verb, session)
        return command_with(verb, session, request)
