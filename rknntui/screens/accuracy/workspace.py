"""Workspace Accuracy: layers ranked by their error, and the histograms behind each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from engine import Finding, sanitize
from engine.wire.accuracy import EVALUATE, Evaluated, EvaluateParams
from engine.wire.build import ACCURACY, BUILD, AccuracyParams, Analysis
from engine.wire.guide import GUIDE, Answer, GuideParams
from engine.wire.method import Task
from engine.wire.model import LAYER, LayerParams
from rknntui.keys.commandline import command_for, job_flags
from rknntui.links import GoToLayer, Link
from rknntui.screens.accuracy.panes import GuidePane, LayerPane, Ranking, ScorePane
from rknntui.screens.accuracy.words import ask_inputs, start_folder
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker, ask_new_file
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import FactsLine, ViewBar
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from rknntui.session.messages import BuildFinished, JobChanged, JobEnded, ResultFound

BINS = 256
_VERBS = {"Layers": "accuracy", "Guide": "accuracy --guide", "Score": "evaluate"}
_TASKS: dict[str, Task] = {"Layers": ACCURACY, "Guide": GUIDE, "Score": EVALUATE}
"""Of the copied command line: its verbs, and the task whose flags it has."""


class Accuracy(TableWorkspace):
    """The ranking on the left or on top, the layer under the cursor beside or below it."""

    NAME = "accuracy"
    HELP = (
        "Cumulative: the error accumulated from the input to this layer. Isolated: the layer "
        "alone, with float inputs. A layer with a low isolated SQNR is a source of error; one "
        "with only a low cumulative SQNR inherits it. Enter shows the histograms, reference "
        "(float) above simulated."
    )
    FIRST_FOCUS = "#ranking"
    PANES = {"Layers": "accuracy-body", "Guide": "guide", "Score": "score"}
    DEFAULT_CSS = """
    Accuracy {
        & #accuracy-body { height: 1fr; }
        & #guide, & #score { display: none; }
        & #accuracy-body RecordView { width: 3fr; }
        & #layer { width: 2fr; padding: 0 1; }
        & #layer-facts { height: auto; max-height: 10; }
        &.-stacked #accuracy-body { layout: vertical; }
        &.-stacked #accuracy-body RecordView { width: 1fr; height: 1fr; }
        &.-stacked #layer { width: 1fr; height: 7; }
        &.-stacked HistogramChart { display: none; }
        &.-stacked #layer.-charted { height: 16; }
        &.-stacked #layer.-charted HistogramChart { display: block; }
        &.-stacked.-low #layer, &.-stacked.-low #layer.-charted { height: 4; }
        &.-stacked.-low HistogramChart, &.-stacked.-low #layer.-charted HistogramChart {
            display: none;
        }
        &.-drilled #accuracy-body RecordView { display: none; }
        &.-drilled #layer, &.-stacked.-drilled #layer, &.-stacked.-drilled #layer.-charted {
            width: 1fr; height: 1fr;
        }
        &.-drilled HistogramChart, &.-stacked.-drilled HistogramChart,
        &.-stacked.-low.-drilled #layer.-charted HistogramChart { display: block; }
    }
    """

    def compose(self) -> ComposeResult:
        yield FactsLine(id="accuracy-facts")
        yield ViewBar(tuple(self.PANES), id="accuracy-views")
        with Horizontal(id="accuracy-body"):
            yield Ranking()
            yield LayerPane(id="layer")
        yield GuidePane(id="guide")
        yield ScorePane(id="score")

    @property
    def table(self) -> RecordTable:
        """The ranking."""
        return self.ranking.table

    ranking = getters.query_one(Ranking)
    """The layers by their error."""

    layer_pane = getters.query_one(LayerPane)
    """The layer under the cursor."""

    guide = getters.query_one(GuidePane)
    """The guide."""

    score = getters.query_one(ScorePane)
    """The scores."""

    def on_resize(self) -> None:
        """Side by side where there is room for both."""
        self.set_class(self.size.width < 140, "-stacked")
        self.set_class(self.size.height < 30, "-low")
        self.call_after_refresh(self.layer_pane.draw)

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self._take_found()
        self._tell()

    def on_result_found(self, message: ResultFound) -> None:
        """A ranking or scores of an earlier run fit the recipe."""
        self._take_found()
        if self.shown:
            self._tell()

    def _take_found(self) -> None:
        """Show what is known already and not shown: of an earlier run, or of the command line."""
        session, pane = self.session, self.score
        if (ranking := session.last_of(ACCURACY)) is not None and self.ranking.result is None:
            self.ranking.take(*ranking)
        if (scores := session.last_of(EVALUATE)) is not None and not pane.known:
            pane.labels = str(scores[0].params.get("labels") or "")
            pane.take(scores[1])

    def on_recipe_changed(self) -> None:
        """The ranking may belong to another recipe now."""
        if self.shown:
            self._tell()

    def on_model_opened(self) -> None:
        """Another model has another ranking."""
        self.ranking.restart()
        self.layer_pane.forget()
        self.guide.restart()
        self.score.restart()
        self.layer_pane.back()
        self.remove_class("-drilled")
        if self.shown:
            self._tell()
            self.layer_pane.draw()

    def on_build_finished(self, message: BuildFinished) -> None:
        """The build is another one: what was read of the last one is outdated."""
        if self.session.built != self.ranking.recipe:
            self.layer_pane.forget()
        if self.shown:
            self._tell()

    def on_job_changed(self, message: JobChanged) -> None:
        """Tell how far the analysis is."""
        job = self.session.jobs.get(message.job)
        if self.shown and job is not None and job.method in (ACCURACY.name, BUILD.name):
            self._tell()
        elif job is not None and job.method == GUIDE.name:
            self.guide.running(job)
        elif job is not None and job.method == EVALUATE.name:
            self.score.running(job)

    def on_job_ended(self, message: JobEnded) -> None:
        """Show the ranking, worst layer first; or what a step of the guide found."""
        job = self.session.jobs.get(message.job)
        if message.method == GUIDE.name:
            self.guide.running(None)
        elif message.method == EVALUATE.name:
            self.score.running(None)
        match message.result:
            case Answer() as answer:
                self.guide.take(answer)
            case Evaluated() as scores:
                self.score.take(scores)
            case Analysis() as found if job is not None:
                self.ranking.take(job, found)
                if found.files:
                    folder = job.params.get("output_dir", "")
                    self.notify(f"Wrote {len(found.files)} files to {folder}.", markup=False)
        if self.shown:
            self._tell()
        self.screen.refresh_bindings()

    def _tell(self) -> None:
        self.query_one("#accuracy-facts", FactsLine).show(*self.ranking.facts(self.session))

    # -- one layer -------------------------------------------------------------------------------

    @on(Rows.Highlighted, "#ranking")
    def _moved(self) -> None:
        row = self.ranking.layer_table.figures
        if row is not None and not self.layer_pane.drilled:
            self.layer_pane.show_layer(row.first("tensor"), row)
            self.screen.refresh_bindings()

    @on(Rows.Chosen, "#ranking")
    def action_drill(self) -> None:
        """Show the histograms of the layer under the cursor, or go back to the ranking."""
        if self.layer_pane.drilled:
            self.action_back()
        elif self.table.record is not None:
            self._drill(self.table.record["tensor"])

    def arrive(self, link: Link) -> None:
        if isinstance(link, GoToLayer):
            self._drill(link.layer)

    def _drill(self, name: str) -> None:
        if self.session.container is not None:
            self.notify("A container has no calibration samples; open its model.")
            return
        if self.bar.current != "Layers":
            self.bar.choose("Layers")
        row = self.ranking.row_of(name)
        self.add_class("-drilled")
        self.layer_pane.drill(name if row is None else row.first("tensor"), row)

    @on(LayerPane.Wanted)
    def _ask_layer(self, event: LayerPane.Wanted) -> None:
        recipe = self.session.built or self.session.recipe
        params = LayerParams(recipe=recipe, tensor=event.tensor, bins=BINS)
        self.ask(LAYER, params, self.layer_pane.take, failed=self.layer_pane.failed)

    def action_back(self) -> None:
        """Back to the ranking; from there stop a running analysis."""
        if self.layer_pane.drilled:
            self.layer_pane.back()
            self.remove_class("-drilled")
            self.table.focus()
            self.call_after_refresh(self._moved)
        elif self.session.running is not None:
            self.workbench.ask_to_stop(self.session.running)

    def linked_layer(self, method: str) -> str:
        if method == "node":
            return self.layer_pane.node
        return "" if self.table.record is None else str(self.table.record["name"])

    # -- actions ---------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if self.is_attached and self.bar.current == "Guide" and method == "analyse":
            return self._why_no_step()
        if method == "restart":
            return "" if self.guide.steps else "the guide has not started."
        if method in ("analyse", "inputs", "export", "labels", "damage"):
            if self.session.container is not None:
                return "a container has no calibration samples; open its model."
            if self.session.summary is None:
                return "there is no build yet ({app.build} builds)."
            if not self.session.summary.quantized:
                return "the build is not quantized."
            return ""
        if (
            method in ("drill", "worst", "cost")
            and not self.table.total
            and not self.layer_pane.drilled
        ):
            return "there is no analysis yet ({accuracy.analyse} analyses)."
        if method == "node" and not self.layer_pane.tensor:
            return "no layer is selected."
        return super().unavailable_reason(method)

    def _why_no_step(self) -> str:
        if self.session.container is not None:
            return "a container has no calibration samples; open its model."
        if not self.session.recipe.get("model"):
            return "no model is open ({app.open} opens one)."
        if self.session.running is not None and self.session.running.method == GUIDE.name:
            return "a step is running."
        return "the guide is finished ({accuracy.restart} restarts it)." if self.guide.over else ""

    def action_analyse(self) -> None:
        """Compare the layers over the first calibration sample or the chosen input, or run the
        guide's next step.
        """
        if self.bar.current == "Guide":
            params = GuideParams(
                dict(self.session.recipe), self.guide.done, device=self.session.board
            )
            self.start_job(GUIDE, params, "accuracy guide")
        elif self.bar.current == "Score":
            self._score()
        else:
            self._start()

    def action_labels(self) -> None:
        """Choose labelled samples, then score them."""

        def chosen(path: str) -> None:
            self.score.labels = path
            self._score()

        title = "Labelled samples: a folder of classes (Ctrl+S), a list or an npz"
        start = self.score.labels or start_folder(self.session.recipe.get("dataset"))
        ask_user(self.app, PathPicker(title, start, folders=True), chosen)

    def _score(self) -> None:
        labels = self.score.labels
        if not labels:
            self.action_labels()
            return
        recipe = dict(self.session.built or self.session.recipe)
        self.start_job(EVALUATE, EvaluateParams(recipe, labels), "score samples")

    def action_restart(self) -> None:
        """Forget the steps of the guide."""
        self.guide.restart()
        self.screen.refresh_bindings()

    def pane_shown(self, view: str) -> None:
        tables: dict[str, Widget] = {"Guide": self.guide.table, "Score": self.score.table}
        tables.get(view, self.table).focus()

    def listed_findings(self) -> list[Finding]:
        """What the step of the guide under the cursor advises."""
        step = self.guide.step
        if step is None:
            return []
        changes = dict(step.changes)
        return [Finding("guide", "info", step.title, step.verdict, "", step.advice, changes)]

    def action_damage(self) -> None:
        """Compare the layers, and run each of the worst ones quantized alone."""
        self._start(output_impact=True)

    def _start(
        self, output_dir: str | None = None, force: bool = False, *, output_impact: bool = False
    ) -> None:
        if reason := self.unavailable_reason("analyse"):
            self.notify(f"Not now: {reason}", severity="warning")
            return
        recipe = dict(self.session.built or self.session.recipe)
        inputs = tuple(self.ranking.inputs or ()) or None
        params = AccuracyParams(
            recipe=recipe,
            inputs=inputs,
            output_dir=output_dir,
            force=force,
            output_impact=output_impact,
        )
        name = sanitize(Path(str(recipe["model"])).name, 80)
        self.start_job(ACCURACY, params, f"accuracy {name}")

    def action_inputs(self) -> None:
        """Choose a picture or array in the place of the first calibration sample."""

        def take(paths: list[str] | None) -> None:
            self.ranking.inputs = paths
            if paths is None:
                self._tell()
            else:
                self.action_analyse()

        count = len(self.session.inputs) or 1
        start = start_folder(self.session.recipe.get("dataset"))
        ask_inputs(self.app, count, start, take)

    def action_worst(self) -> None:
        """Rank by the next error that the table shows, worst first; then in the graph's order."""
        self.ranking.sort_next()

    def action_export(self) -> None:
        """Choose a folder and write the snapshot there."""
        start = Path.cwd() / "snapshot"
        ask_new_file(self.app, "Folder for snapshots (Ctrl+S)", start, self._start, folder=True)

    def copy_text(self) -> str:
        if self.bar.current == "Guide":
            return self.guide.text()
        if self.layer_pane.drilled:
            return self.layer_pane.text()
        return self.record_text()

    def command_line(self) -> list[str]:
        view = self.bar.current
        words = command_for(_VERBS[view], self.session)
        params = {"inputs": self.ranking.inputs, "labels": self.score.labels}
        return [*words, *job_flags(_TASKS[view].name, params)] if words else []
