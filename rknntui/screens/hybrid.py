"""Workspace Hybrid: the dtype and range of every layer, with the effect of each change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Static

from rknntui.actions import Action
from rknntui.commandline import command_for
from rknntui.screens import hybrid_plan as plan
from rknntui.screens.accuracy_text import rank_record
from rknntui.screens.hybrid_edits import HybridEdits
from rknntui.screens.hybrid_effect import LiveEffect
from rknntui.screens.hybrid_search import SearchDialog, SearchPane, search_flags, search_params
from rknntui.screens.hybrid_text import layer_fields, layer_record, output_lines, row_lines
from rknntui.widgets.record_view import RecordView, table_actions
from rknntui.widgets.records import RecordTable
from rknntui.widgets.rows import Rows, TextRows
from rknntui.widgets.view_bar import ViewBar
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from rknntui.jobview import JobView
    from rknntui.messages import (
        BuildFinished,
        JobChanged,
        JobEnded,
        RecipeChanged,
        ResultFound,
    )

__all__ = ["Hybrid"]

VIEWS = ("Layers", "Search")
_PANES = {"Layers": "hybrid-layers", "Search": "search"}
_NO_BUILD = "Not built yet.\n\nb builds; then 6 shows its layers here."
_BUILDING = "The build runs. Then its layers are here."
_FLOAT = "The build is not quantized: every layer is float already."
_CONTAINER = "A container is built already; open its model to change its layers."
_ERROR_LINES = 3
_SEARCHING = ("pause", "keep")
_EDITS = ("lift", "choose", "range", "propose", "search", "reset", "apply")


class Hybrid(HybridEdits):
    """The outputs on top, below them the layers, or the search."""

    NAME = "hybrid"
    TITLE = "Hybrid"
    HELP = (
        "Space lifts a layer to float16 (else int16), or takes it back; Enter chooses among its "
        "dtypes, e sets its range. What that does to the outputs stands on top, simulated. ● is "
        "asked for by you; “built” says what became of it: ✓ honoured, ✗ not, ~ simulated, · not "
        "built yet. SQNR dB has the errors of the layers before it too; A measures each layer "
        "alone. * marks layers: the next key takes all of them. f searches the layers that matter "
        "most; P pauses it, K keeps the best so far, a takes a step of its curve."
    )
    FIRST_FOCUS = "#layers"
    ACTIONS = (
        Action("hybrid.lift", "Lift", "Lift the layer, or take it back.", ("space",), True),
        Action("hybrid.apply", "Take step", "Ask for the layers of a step.", ("a",), True),
        Action("hybrid.pause", "Pause", "Let the search wait, or go on.", ("P",), True),
        Action("hybrid.keep", "Keep best", "End the search with its best.", ("K",), True),
        Action("hybrid.range", "Range…", "Set the layer's minimum and maximum.", ("e",), True),
        Action("hybrid.propose", "Propose", "Let the engine choose layers.", ("p",), True),
        Action("hybrid.search", "Search…", "Find the layers that matter most.", ("f",), True),
        Action("hybrid.build", "Build", "Build with these layers.", ("b",), True),
        Action("hybrid.analyse", "Own errors", "Measure the error of each layer alone.", ("A",)),
        Action("hybrid.choose", "Dtype…", "Choose among the dtypes of the layer."),
        Action("hybrid.mark", "Mark", "Mark the layer for the next action.", ("m",)),
        Action("hybrid.mark-shown", "Mark shown", "Mark all rows that the filter shows.", ("M",)),
        Action("hybrid.reset", "Reset…", "Ask for no layer and no range any more.", ("R",)),
        Action("hybrid.next-view", "View", "Show the layers, or the search.", ("v",)),
        Action("hybrid.drill", "Histograms", "Show the layer's values.", ("d",)),
        Action("hybrid.node", "Node", "Show the layer in the graph.", ("n",)),
        Action("hybrid.stop", "Stop…", "Stop the search; asks first.", ("escape",)),
        *table_actions("hybrid"),
    )
    DEFAULT_CSS = """
    Hybrid {
        & #hybrid-facts { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #outputs { height: auto; max-height: 7; padding: 0 1; }
        & #hybrid-panes { height: 1fr; }
        & #hybrid-layers, & #search { height: 1fr; }
        & #search { display: none; }
        & #row-facts { height: 3; padding: 0 1; border-top: solid $panel; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._outputs: list[dict[str, Any]] = []
        self._over = ""  # which samples the figures of the build are over
        self._own: dict[str, float | None] = {}
        self._result: dict[str, Any] | None = None
        self._texts: dict[str, str] = {}
        self.effect = LiveEffect(self, self.draw)

    def compose(self) -> ComposeResult:
        yield Static("", id="hybrid-facts", markup=False)
        yield TextRows(id="outputs")
        yield ViewBar(VIEWS, id="hybrid-views")
        with Container(id="hybrid-panes"):
            table = RecordTable(layer_fields(), id="layers", what="hybrid", empty=_NO_BUILD)
            title = "Layers (SQNR simulated, over the calibration samples)"
            yield RecordView(title, table, id="hybrid-layers")
            yield SearchPane(id="search")
        yield TextRows(id="row-facts")

    def on_mount(self) -> None:
        for name in ("outputs", "row-facts"):
            pane = self.query_one(f"#{name}", TextRows)
            pane.SHOW_CURSOR = False
            pane.can_focus = False
        self.set_interval(1, self._tick)

    @property
    def pane(self) -> SearchPane:
        """The search."""
        return self.query_one(SearchPane)

    @property
    def bar(self) -> ViewBar:
        """The names of the views."""
        return self.query_one(ViewBar)

    @property
    def search(self) -> JobView | None:
        """The search that runs, or the last one."""
        jobs = [job for job in self.session.jobs.values() if job.method == "hybrid.search"]
        return next((job for job in jobs if job.running), jobs[-1] if jobs else None)

    # -- the session -----------------------------------------------------------------------------

    def activated(self) -> None:
        self._read()
        self._edited()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """Something else is asked for: the effect follows."""
        if self.shown:
            self._edited()

    def on_model_opened(self) -> None:
        """Another model has other layers."""
        self.marked.clear()
        if self.shown:
            self._read()

    def on_build_finished(self, message: BuildFinished) -> None:
        """See what the build made of what was asked."""
        if self.shown:
            self._read()

    def on_job_changed(self, message: JobChanged) -> None:
        """Let the curve grow; say that a first build runs."""
        if self.shown and not self.rows:
            self._read()
        search = self.search
        if self.shown and search is not None and search.id == message.job:
            self._show_search(search, self._result if not search.running else None)
            self.screen.refresh_bindings()

    def on_job_ended(self, message: JobEnded) -> None:
        """Take an effect, a proposal or the end of a search."""
        self.effect.ended(message)
        if message.method == "hybrid.propose" and message.result is not None:
            self._proposed(message.result)
        elif message.method == "accuracy" and message.result is not None:
            self._analysed(message.job, message.result)
        elif message.method == "hybrid.search":
            self._result = message.result
            self._show_search(self.session.jobs.get(message.job), message.result)
        if self.shown:
            if not self.rows:
                self._read()
            self.screen.refresh_bindings()

    def _show_search(self, job: JobView | None, result: dict[str, Any] | None) -> None:
        self.pane.layer_names = {row["tensor"]: row["layer"] for row in self.rows}
        self.pane.set_job(job, result)

    def _analysed(self, job: str, result: dict[str, Any]) -> None:
        """Show the error of each layer alone, which tells better which ones to lift."""
        view = self.session.jobs.get(job)
        if view is None or view.params.get("recipe") != self.table_of:
            return
        self._own = _own_errors(result)
        self.draw()
        if self.shown:
            self.table.sort_field("own")
            self.table.cursor = 0

    def _take_own(self) -> None:
        """Take the errors of layers alone, where Accuracy has them of this build."""
        job, result = self.session.last.get("accuracy") or (None, None)
        known = job is not None and job.params.get("recipe") == self.table_of
        self._own = _own_errors(result) if known and result is not None else {}

    def on_result_found(self, message: ResultFound) -> None:
        """A ranking of an earlier run has the errors of layers alone."""
        if message.method == "accuracy" and self.table_of is not None:
            self._take_own()
            self.draw()

    def _read(self) -> None:
        """Ask for the layers of the last build, where there is one that is not shown yet."""
        session = self.session
        built = session.built
        said = _BUILDING if session.building else _NO_BUILD
        if session.container is not None:
            said, built = _CONTAINER, None
        elif session.summary is not None and not session.summary["quantized"]:
            said, built = _FLOAT, None
        if built is None or session.summary is None:
            self.rows, self._outputs, self.table_of = [], [], None
            self.table.set_empty(said)
            self.draw()
            return
        if built is self.table_of:
            return
        self.table.set_empty("reading …")
        self.ask("hybrid.table", {"recipe": built}, partial(self._known, built))

    def _known(self, built: dict[str, Any], answer: dict[str, Any]) -> None:
        self.table_of = built
        self._take_own()
        self.rows, self._outputs = answer["rows"], answer["outputs"]
        self._over = answer["over"].removeprefix("the ")
        self._edited()
        if self.table.sorted_by in (None, "own"):  # a new build has no errors of layers alone yet
            self.table.sort_field("sqnr_db")
            self.table.cursor = 0

    def _edited(self) -> None:
        self.effect.edited(self.session.recipe, self.table_of)
        self.draw()

    # -- drawing ---------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.is_attached:
            return
        got = self.effect.got
        layers, ranges = self.asked_layers, self.asked_ranges
        built = self.built_layers
        records = [
            layer_record(
                row,
                marked=row["tensor"] in self.marked,
                layers=layers,
                ranges=ranges,
                built=built,
                got=got,
                unmet=self.effect.unmet,
                own=self._own,
            )
            for row in self.rows
        ]
        self.table.set_records(records, keep="tensor")
        self._tell()
        width = max(20, self.size.width - 3)
        lines = output_lines(self._outputs, self.effect.outputs, width)
        told = wrap(f"✗ {self.effect.error}", width) if self.effect.error else []
        lines += [[(row, "bad")] for row in told[:_ERROR_LINES]]
        pane = self.query_one("#outputs", TextRows)
        pane.display = bool(lines)
        pane.styles.height = len(lines)
        pane.set_lines(lines)
        self._draw_row()

    def _tell(self) -> None:
        layers, ranges = self.asked_layers, self.asked_ranges
        facts = self.query_one("#hybrid-facts", Static)
        if not self.rows:
            facts.update("no layers yet")
            return
        parts = [f"{len(layers)} of {len(self.rows)} layers changed"]
        if ranges:
            parts.append("1 range" if len(ranges) == 1 else f"{len(ranges)} ranges")
        if self.marked:
            parts.append(f"{len(self.marked)} marked")
        if self.effect.unmet:
            parts.append(f"✗ {len(self.effect.unmet)} not honoured")
        parts.append(self.effect.state or f"outputs as built, simulated over {self._over}")
        if self.effect.state and not self.effect.state.startswith(("▶", "✗")):
            parts.append("b builds it")
        facts.update(" · ".join(parts))

    @on(Rows.Highlighted, "#layers")
    def _draw_row(self) -> None:
        pane = self.query_one("#row-facts", TextRows)
        pane.display = self.bar.current == "Layers" and self.table.record is not None
        pane.set_lines(row_lines(self.table.record, max(20, self.size.width - 3)))

    def on_resize(self) -> None:
        """Lines of the new width."""
        self.call_after_refresh(self.draw)

    def _tick(self) -> None:
        search = self.search
        if self.shown and search is not None and search.running:
            self.pane.draw()

    @on(ViewBar.Changed)
    def _view_changed(self, event: ViewBar.Changed) -> None:
        for name, selector in _PANES.items():
            self.query_one(f"#{selector}").display = name == event.name
        self._draw_row()
        if event.name == "Search":
            search = self.search
            self._show_search(search, self._result if search and not search.running else None)
        (self.pane.table if event.name == "Search" else self.table).focus()
        self.screen.refresh_bindings()

    # -- actions ---------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the search are in the footer only beside it."""
        searching = self.is_attached and self.bar.current == "Search"
        if action in ("pause", "keep", "apply") and not searching:
            return False
        if action in ("lift", "range", "propose") and searching:
            return False
        return super().check_action(action, parameters)

    def unavailable(self, method: str) -> str:
        if method in _EDITS and self.session.container is not None:
            return "a container is built already; open its model."
        if method in _EDITS and method != "apply" and not self.rows:
            return "nothing is built yet (b builds)."
        if method in _SEARCHING:
            search = self.search
            return "" if search is not None and search.running else "no search runs."
        if method == "apply":
            return "" if self.pane.point is not None else "there is no step to take (f searches)."
        if method == "stop":
            return "" if self.session.running is not None else "no job runs."
        if method == "build" and not self.session.recipe.get("model"):
            return "no model is open (o opens one)."
        if method in ("drill", "node", "mark", "mark_shown", "analyse") and not self.rows:
            return "nothing is built yet (b builds)."
        return super().unavailable(method)

    def action_analyse(self) -> None:
        """Compare every layer with the float graph, alone and with the errors before it."""
        self.start_job("accuracy", {"recipe": dict(self.table_of or {})}, "accuracy of layers")

    def action_propose(self) -> None:
        """Let the engine choose, from the build's errors."""
        self.start_job("hybrid.propose", {"recipe": dict(self.table_of or {})}, "hybrid proposal")

    def _proposed(self, result: dict[str, Any]) -> None:
        proposed = dict(result["layers"])
        if not proposed:
            self.notify("No layer is proposed: none gains enough.", markup=False)
            return
        self.ask_for({**self.asked_layers, **proposed})
        self.notify(f"{len(proposed)} layers proposed. u takes them back.", markup=False)

    def action_search(self) -> None:
        """Ask what to search for, then search."""

        def start(texts: dict[str, str] | None) -> None:
            if texts is None:
                return
            self._texts, self._result = texts, None
            asked = {n: self.session.recipe.get(n) for n in (plan.LAYERS, plan.RANGES)}
            recipe = {**(self.table_of or {}), **asked}
            params = {"recipe": recipe, **search_params(texts)}
            self.start_job("hybrid.search", params, "hybrid search")
            self.bar.choose("Search")

        self.app.push_screen(SearchDialog(self._texts), start)

    def action_pause(self) -> None:
        """Let the search wait, or go on."""
        if self.search is not None:
            self.bridge.pause(self.search.id)

    def action_keep(self) -> None:
        """End the search; its best so far stays."""
        if self.search is not None:
            self.bridge.finish(self.search.id)
            self.notify("The search ends with its best so far.")

    def action_apply(self) -> None:
        """Ask for the layers of the step under the cursor."""
        point = self.pane.point
        if point is not None:
            self.ask_for(dict(point["layers"]))
            told = f"The recipe asks for {len(point['layers'])} layers. u takes it back."
            self.notify(told, markup=False)
            self.bar.choose("Layers")

    def action_next_view(self) -> None:
        """Show the other view."""
        self.bar.step(1)

    async def action_drill(self) -> None:
        """Show the layer's histograms in Accuracy."""
        if self.table.record is not None:
            await self.go_to_layer(self.table.record["tensor"])

    async def action_node(self) -> None:
        """Show the layer in the optimised graph."""
        if self.table.record is not None:
            await self.go_to_node(str(self.table.record["layer"]), "optimised")

    def action_stop(self) -> None:
        """Back to the layers; a running job is asked about."""
        if self.session.running is not None:
            self.workbench.action_cancel()

    def action_build(self) -> None:
        """Go to Quantize and build there."""
        self.workbench.do(self.build_there())

    def copy_text(self) -> str:
        return self.record_text()

    def command_line(self) -> list[str]:
        words = command_for("hybrid", self.session)
        if not words:
            return []
        if self.bar.current == "Search":
            return [*words[:2], "search", *words[2:], *search_flags(self._texts)]
        return [*words[:2], "table", *words[2:]]


def _own_errors(result: dict[str, Any]) -> dict[str, float | None]:
    """Tensor -> SQNR in dB of its layer alone; infinite where it adds no error."""
    return {row["tensor"]: rank_record(0, row)["own"] for row in result["layers"]}
