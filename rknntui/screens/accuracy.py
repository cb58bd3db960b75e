"""Workspace Accuracy: layers ranked by their error, and the histograms behind each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from engine import layers_counted, printable
from rknntui.actions import Action
from rknntui.commandline import command_for, job_flags
from rknntui.screens.accuracy_guide import GuidePane
from rknntui.screens.accuracy_layers import LayerDrill
from rknntui.screens.accuracy_score import ScorePane
from rknntui.screens.accuracy_text import rank_fields, rank_record
from rknntui.widgets.histogram_chart import HistogramChart
from rknntui.widgets.record_view import RecordView, table_actions
from rknntui.widgets.records import RecordTable
from rknntui.widgets.rows import TextRows
from rknntui.widgets.view_bar import ViewBar

if TYPE_CHECKING:
    from rknntui.jobview import JobView
    from rknntui.messages import BuildFinished, JobChanged, JobEnded, ResultFound

__all__ = ["Accuracy"]

_SORTS = ("sqnr", "own", "damage", "entire", "single", None)
_WORST_HIGH = ("damage",)
VIEWS = ("Layers", "Guide", "Score")
_PANES = {"Layers": "accuracy-body", "Guide": "guide", "Score": "score"}
_OF_VIEW = {
    "Layers": ("drill", "worst", "node", "inputs", "export", "damage"),
    "Guide": ("apply_remedy", "restart"),
    "Score": ("labels",),
}
"""Keys that act in one view alone."""
_VERBS = {"Layers": "accuracy", "Guide": "accuracy --guide", "Score": "evaluate"}
_METHODS = {"Layers": "accuracy", "Guide": "guide", "Score": "evaluate"}
"""Of the copied command line: its verbs, and the job whose flags it has."""
_NO_BUILD = "Not built yet.\n\n4 shows Quantize, b builds there."
_BUILDING = "The build runs. Then r compares its layers."
_READY = (
    "Not analysed yet.\n\nr compares every layer with the float graph (simulated): entire, with "
    "the errors of all layers before it, and single, the layer alone."
)


class Accuracy(LayerDrill):
    """The ranking on the left or on top, the layer under the cursor beside or below it."""

    NAME = "accuracy"
    TITLE = "Accuracy"
    HELP = (
        "Entire: the error that has gathered from the input to this layer. Single: the layer "
        "alone, fed with float results. A layer that is bad alone is where the error starts; one "
        "that is bad entire only suffers from those before it. Enter shows the histograms, golden "
        "(float) above simulated."
    )
    FIRST_FOCUS = "#ranking"
    ACTIONS = (
        Action(
            "accuracy.analyse", "Run", "Compare every layer, or run the next step.", ("r",), True
        ),
        Action("accuracy.next-view", "View", "Show the guide, or the layers.", ("v",), True),
        Action("accuracy.drill", "Histograms", "Show the layer's values.", ("d",), True),
        Action("accuracy.node", "Node", "Show the layer in the graph.", ("m",), True),
        Action("accuracy.worst", "Rank by", "Rank by another error, worst first.", ("t",), True),
        Action("accuracy.damage", "Damage", "Also measure what bad layers do alone.", ("D",)),
        Action("accuracy.inputs", "Input…", "Analyse a sample of your own.", ("i",)),
        Action(
            "accuracy.export", "Export…", "Write snapshots and error_analysis.txt.", ("x",), True
        ),
        Action("accuracy.labels", "Labels…", "Score labelled samples of yours.", ("e",), True),
        Action("accuracy.restart", "Begin anew", "Begin the guide anew.", ("R",)),
        Action("accuracy.back", "Back", "From the histograms to the ranking.", ("escape",)),
        *table_actions("accuracy"),
    )
    DEFAULT_CSS = """
    Accuracy {
        & #accuracy-facts { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & #accuracy-body { height: 1fr; }
        & #guide, & #score { display: none; }
        & #accuracy-body RecordView { width: 3fr; }
        & #layer { width: 2fr; padding: 0 1; }
        & #layer-facts { height: auto; max-height: 10; }
        &.-stacked #accuracy-body { layout: vertical; }
        &.-stacked #accuracy-body RecordView { width: 1fr; height: 1fr; }
        &.-stacked #layer { width: 1fr; height: 7; }
        &.-stacked HistogramChart { display: none; }
        &.-stacked.-charted #layer { height: 16; }
        &.-stacked.-charted HistogramChart { display: block; }
        &.-stacked.-low #layer, &.-stacked.-low.-charted #layer { height: 4; }
        &.-stacked.-low HistogramChart, &.-stacked.-low.-charted HistogramChart { display: none; }
        &.-drilled #accuracy-body RecordView { display: none; }
        &.-drilled #layer, &.-stacked.-drilled #layer, &.-stacked.-drilled.-charted #layer {
            width: 1fr; height: 1fr;
        }
        &.-drilled HistogramChart, &.-stacked.-drilled HistogramChart,
        &.-stacked.-low.-drilled.-charted HistogramChart { display: block; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._result: dict[str, Any] | None = None
        self._recipe: dict[str, Any] | None = None
        self._inputs: list[str] | None = None
        self._analysed: list[str] = []
        self._rank = 0

    def compose(self) -> ComposeResult:
        yield Static("", id="accuracy-facts", markup=False)
        yield ViewBar(VIEWS, id="accuracy-views")
        table = RecordTable(rank_fields(), id="ranking", what="accuracy", empty=_NO_BUILD)
        with Horizontal(id="accuracy-body"):
            yield RecordView("Layers (simulated)", table)
            with Vertical(id="layer"):
                yield TextRows(id="layer-facts")
                yield HistogramChart(id="chart")
        yield GuidePane(id="guide")
        yield ScorePane(id="score")

    def on_mount(self) -> None:
        facts = self.query_one("#layer-facts", TextRows)
        facts.SHOW_CURSOR = False
        facts.can_focus = False

    def on_resize(self) -> None:
        """Side by side where there is room for both."""
        self.set_class(self.size.width < 140, "-stacked")
        self.set_class(self.size.height < 30, "-low")
        self.call_after_refresh(self.draw_layer)

    # -- the session -----------------------------------------------------------------------------

    def activated(self) -> None:
        self._take_found()
        self._tell()

    def on_result_found(self, message: ResultFound) -> None:
        """A ranking or scores of an earlier run fit the recipe."""
        self._take_found()
        if self.shown:
            self._tell()

    def _take_found(self) -> None:
        """Show what is known already and not shown: of an earlier run, or of the command line."""
        last, pane = self.session.last, self.query_one(ScorePane)
        if (ranking := last.get("accuracy")) is not None and self._result is None:
            self._rank_layers(*ranking)
        if (scores := last.get("evaluate")) is not None and not pane.known:
            pane.labels = str(scores[0].params.get("labels") or "")
            pane.take(scores[1])

    def on_recipe_changed(self) -> None:
        """The ranking may belong to another recipe now."""
        if self.shown:
            self._tell()

    def on_model_opened(self) -> None:
        """Another model has another ranking."""
        self._result = self._recipe = self._inputs = None
        self.known_layers.clear()
        self.guide.restart()
        self.query_one(ScorePane).restart()
        self.table.set_records([])
        self.remove_class("-drilled")
        if self.shown:
            self._tell()
            self.draw_layer()

    def on_build_finished(self, message: BuildFinished) -> None:
        """The build is another one: what was read of the last one is outdated."""
        if self.session.built != self._recipe:
            self.known_layers.clear()
        if self.shown:
            self._tell()

    def on_job_changed(self, message: JobChanged) -> None:
        """Tell how far the analysis is."""
        job = self.session.jobs.get(message.job)
        if self.shown and job is not None and job.method in ("accuracy", "build"):
            self._tell()
        elif job is not None and job.method == "guide":
            self.guide.running(job)
        elif job is not None and job.method == "evaluate":
            self.query_one(ScorePane).running(job)

    def on_job_ended(self, message: JobEnded) -> None:
        """Show the ranking, worst layer first; or what a step of the guide found."""
        if message.method == "guide":
            self.guide.running(None)
            if message.result is not None:
                self.guide.take(message.result)
            self.screen.refresh_bindings()
        elif message.method == "evaluate":
            pane = self.query_one(ScorePane)
            if message.result is not None:
                pane.take(message.result)
            pane.running(None)
        if message.method == "build" and self.shown:
            self._tell()
        if message.method != "accuracy":
            return
        job = self.session.jobs.get(message.job)
        if message.result is not None and job is not None:
            self._rank_layers(job, message.result)
            files = message.result.get("files") or []
            if files:
                folder = job.params.get("output_dir", "")
                self.notify(f"Wrote {len(files)} files to {folder}.", markup=False)
        self._tell()
        self.screen.refresh_bindings()

    def _rank_layers(self, job: JobView, result: dict[str, Any]) -> None:
        """Show the ranking of a job."""
        self._result = result
        self._recipe = job.params.get("recipe")
        self._analysed = job.params.get("inputs") or []
        shown = [layer for layer in result["layers"] if not layer.get("inner")]
        records = [rank_record(i, layer) for i, layer in enumerate(shown)]
        self.table.set_records(records, keep="tensor")
        if self.table.sort_column is None:
            self.table.sort_field("sqnr")
            self.table.cursor = 0

    def _tell(self) -> None:
        session, facts = self.session, self.query_one("#accuracy-facts", Static)
        job = session.running
        if session.summary is None:
            self.table.set_empty(_BUILDING if session.building else _NO_BUILD)
        elif not session.summary["quantized"]:
            self.table.set_empty("The build is not quantized: there is no error to analyse.")
        elif session.container is not None:
            self.table.set_empty("A container has no calibration samples; open its model.")
        else:
            self.table.set_empty(_READY)
        if job is not None and job.method == "accuracy":
            stage = job.stage
            where = f"{stage.title}, " if stage is not None else ""
            facts.update(f"▶ analysing: {where}{job.fraction:.0%}, ctrl+x stops")
        elif self._result is None:
            without = "the build runs" if session.building else "not built yet"
            facts.update("✓ built, not analysed" if session.summary else without)
        else:
            samples = self._result.get("samples", 1)
            of = (
                ", ".join(Path(p).name for p in self._inputs)
                if self._inputs
                else "first calibration sample"
            )
            stale = "" if self._recipe == session.recipe else " · ! the recipe changed since: r"
            many = f"{samples} sample" + ("s" if samples != 1 else "")
            facts.update(f"{layers_counted(self._result)} over {many} ({printable(of, 80)}){stale}")

    # -- actions ---------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The footer has the keys of the view that is shown."""
        view = self.bar.current if self.is_attached else "Layers"
        if any(action in keys for name, keys in _OF_VIEW.items() if name != view):
            return False
        return super().check_action(action, parameters)

    def unavailable(self, method: str) -> str:
        if self.is_attached and self.bar.current == "Guide" and method == "analyse":
            return self._why_no_step()
        if method == "restart":
            return "" if self.guide.steps else "the guide has not begun."
        if method in ("analyse", "inputs", "export", "labels", "damage"):
            if self.session.container is not None:
                return "a container has no calibration samples; open its model."
            if self.session.summary is None:
                return "nothing is built yet (4, then b)."
            if not self.session.summary["quantized"]:
                return "the build is not quantized."
            return ""
        if method in ("drill", "worst") and not self.table.total and not self.has_class("-drilled"):
            return "nothing is analysed yet (r analyses)."
        if method == "node" and not self.wanted:
            return "no layer is chosen."
        return super().unavailable(method)

    def _why_no_step(self) -> str:
        if self.session.container is not None:
            return "a container has no calibration samples; open its model."
        if not self.session.recipe.get("model"):
            return "no model is open (o opens one)."
        if self.session.running is not None and self.session.running.method == "guide":
            return "a step runs."
        return "the guide is at its end (R begins anew)." if self.guide.over else ""

    def action_analyse(self) -> None:
        """Compare the layers over the first calibration sample or the chosen input, or run the
        guide's next step.
        """
        if self.bar.current == "Guide":
            params = {"recipe": dict(self.session.recipe), "done": self.guide.done}
            self.start_job("guide", params, "accuracy guide")
        elif self.bar.current == "Score":
            self._score()
        else:
            self._start({})

    def action_labels(self) -> None:
        """Choose labelled samples, then score them."""
        from rknntui.screens.picker import PathPicker

        def chosen(path: str | None) -> None:
            if path:
                self.query_one(ScorePane).labels = path
                self._score()

        title = "Labelled samples: a folder of classes (Ctrl+S), a list or an npz"
        start = self.query_one(ScorePane).labels or self.start_folder()
        self.app.push_screen(PathPicker(title, start, folders=True), chosen)

    def _score(self) -> None:
        labels = self.query_one(ScorePane).labels
        if not labels:
            self.action_labels()
            return
        recipe = dict(self.session.built or self.session.recipe)
        self.start_job("evaluate", {"recipe": recipe, "labels": labels}, "score samples")

    def action_restart(self) -> None:
        """Forget the steps of the guide."""
        self.guide.restart()
        self.screen.refresh_bindings()

    def action_next_view(self) -> None:
        """Show the other view."""
        self.bar.step(1)

    @on(ViewBar.Changed)
    def _view_changed(self, event: ViewBar.Changed) -> None:
        for name, selector in _PANES.items():
            self.query_one(f"#{selector}").display = name == event.name
        tables = {"Guide": self.guide.table, "Score": self.query_one(ScorePane).table}
        tables.get(event.name, self.table).focus()
        self.screen.refresh_bindings()

    def listed_findings(self) -> list[dict[str, Any]]:
        """What the step of the guide under the cursor advises."""
        step = self.guide.step
        if step is None:
            return []
        told = {"where": step["title"], "what": step["verdict"]}
        return [{**told, "remedy": step.get("advice") or "", "changes": step.get("changes")}]

    def action_damage(self) -> None:
        """Compare the layers, and run each of the worst ones quantized alone."""
        self._start({"damage": True})

    def _start(self, more: dict[str, Any]) -> None:
        if reason := self.unavailable("analyse"):
            self.notify(f"Not now: {reason}", severity="warning")
            return
        recipe = dict(self.session.built or self.session.recipe)
        params: dict[str, Any] = {"recipe": recipe, **more}
        if self._inputs:
            params["inputs"] = self._inputs
        name = printable(Path(str(recipe["model"])).name, 80)
        self.start_job("accuracy", params, f"accuracy {name}")

    def action_inputs(self) -> None:
        """Choose a picture or array in the place of the first calibration sample."""
        from rknntui.screens.picker import PathPicker

        inputs = len((self.session.model or {}).get("inputs", ())) or 1
        chosen: list[str] = []

        def take(path: str | None) -> None:
            if path is None:
                self._inputs = None
                self._tell()
                return
            chosen.append(path)
            if len(chosen) < inputs:
                ask()
            else:
                self._inputs = chosen
                self.action_analyse()

        def ask() -> None:
            title = f"Input {len(chosen) + 1} of {inputs}; Esc: the first calibration sample"
            self.app.push_screen(PathPicker(title, self.start_folder()), take)

        ask()

    def action_worst(self) -> None:
        """Rank by the next error that the table shows, worst first; then in the graph's order."""
        shown = (None, *self.table.shown_keys)
        sorts = [key for key in _SORTS if key in shown]
        self._rank = (self._rank + 1) % len(sorts)
        key = sorts[self._rank]
        self.table.sort_field(key, descending=key in _WORST_HIGH)
        self.table.cursor = 0

    def action_export(self) -> None:
        """Choose a folder and write the snapshot there."""
        start = Path.cwd() / "snapshot"
        self.ask_new_file("Folder for snapshots (Ctrl+S)", start, self._export, folder=True)

    def _export(self, path: str, force: bool) -> None:
        self._start({"output_dir": path, "force": force})

    def copy_text(self) -> str:
        if self.bar.current == "Guide":
            return self.guide.text()
        if self.has_class("-drilled"):
            lines = [self.query_one("#layer-facts", TextRows).text()]
            lines += [
                "".join(t for t, _ in line) for line in self.query_one(HistogramChart).lines()
            ]
            return "\n".join(lines)
        return self.record_text()

    def command_line(self) -> list[str]:
        view = self.bar.current
        words = command_for(_VERBS[view], self.session)
        params = {"inputs": self._inputs, "labels": self.query_one(ScorePane).labels}
        return [*words, *job_flags(_METHODS[view], params)] if words else []
