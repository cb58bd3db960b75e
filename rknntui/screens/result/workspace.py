"""Workspace Result: what one sample gives, in float, simulated, as compiled and on a board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult

from engine import sanitize
from engine.wire.accuracy import EVALUATE, Evaluated, EvaluateParams
from engine.wire.board import BOARD_RUN, Ran, RunParams
from engine.wire.build import SIMULATE, Simulated
from engine.wire.dataset import DATASET_LIST, ListParams, Samples
from engine.wire.names import ARITHMETICS
from rknntui.keys.commandline import command_for, job_flags
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker, ask_new_file, start_folder
from rknntui.screens.result import words
from rknntui.screens.result.panes import InputsPane, Results
from rknntui.screens.result.requests import SIDES, Subject, side_of
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import FactsLine
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine.wire.build import SimulatedOutput
    from engine.wire.names import Arithmetic
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobChanged, JobEnded, ResultFound

_RUNS = (SIMULATE.name, BOARD_RUN.name)


class Result(TableWorkspace):
    """Inputs on top; below them the outputs of one side, or the scores."""

    NAME = "result"
    HELP = (
        "Runs one sample: simulated (the quantized graph on the CPU of this machine: its seconds "
        "are not those of an NPU), as the vendor's compiler rounds, or on the board of the target "
        "({app.target}). {result.next-view} switches; each output stands beside float, the "
        "difference in words below. {result.next-sample} and {result.previous-sample} take the "
        "calibration samples. Score: top-1 and top-5 over labelled samples, with intervals."
    )
    FIRST_FOCUS = "#inputs"
    DEFAULT_CSS = """
    Result {
        & #inputs-view { height: auto; max-height: 8; }
        & #inputs { height: auto; min-height: 2; max-height: 6; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.arithmetic: Arithmetic = "integer"
        self._runs: dict[tuple[str, str], tuple[JobView, Simulated | Ran]] = {}
        self._of: object = None  # the model that the runs are of
        self._again = False

    def compose(self) -> ComposeResult:
        yield FactsLine(id="run-facts")
        yield InputsPane(id="inputs-view")
        yield Results(id="results")

    @property
    def inputs(self) -> RecordTable:
        """The inputs and their files."""
        return self.inputs_pane.table

    inputs_pane = getters.query_one(InputsPane)
    """The same with its caption."""

    results = getters.query_one(Results)
    """What came out, in views."""

    @property
    def outputs(self) -> RecordTable[SimulatedOutput]:
        """The outputs that are shown."""
        return self.results.outputs.table

    @property
    def subject(self) -> Subject:
        """What would run now, and who runs it."""
        view = self.results.view if self.is_attached else SIDES[0]
        return Subject(self.session, view if view in SIDES else SIDES[0], self.arithmetic)

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self._see_model()
        self._take_found()
        self._draw()

    def on_model_opened(self) -> None:
        """Other inputs, no results; those of the same model stay."""
        self._see_model()
        if self.shown:
            self._draw()

    def _see_model(self) -> None:
        model = self.session.model
        opened = None if model is None else (model.path, model.sha256)
        if opened != self._of:
            self._of = opened
            self._runs.clear()
            self.inputs_pane.clear()
            self.results.score.clear()

    def on_target_changed(self) -> None:
        """Another board or compiled file: what is shown of the board may be outdated."""
        if self.shown:
            self._draw()

    def on_recipe_changed(self) -> None:
        """The last outputs may be outdated."""
        if self.shown:
            self._draw()

    def on_result_found(self, message: ResultFound) -> None:
        """Scores of an earlier run fit the recipe."""
        self._take_found()

    def _take_found(self) -> None:
        scores = self.session.last_of(EVALUATE)
        if scores is not None and self.results.score.result is None:
            self.results.score.take(scores[1], scores[0].params.get("labels"))

    def on_job_changed(self, message: JobChanged) -> None:
        """Tell how far the run is."""
        if self.shown:
            self._tell()

    def on_job_ended(self, message: JobEnded) -> None:
        """Show what came out, or what was written."""
        job = self.session.jobs.get(message.job)
        result = message.result
        if job is not None and isinstance(result, Simulated | Ran) and self._is_ours(job):
            self._runs[side_of(job)] = (job, result)
            if result.saved:
                folder = str(job.params.get("save") or "")
                self.notify(f"Wrote {len(result.saved)} files to {folder}.", markup=False)
        elif job is not None and isinstance(result, Evaluated) and self.session.is_ours(job):
            self.results.score.take(result, job.params.get("labels"))
        if self._again and message.method in _RUNS:
            self._again = False
            self.action_run()
        if self.shown:
            self._draw()
        self.screen.refresh_bindings()

    def _is_ours(self, job: JobView) -> bool:
        """Whether a run is of the open model: its recipe, or its file."""
        path = job.params.get("path")
        return self.session.is_ours(job) if job.recipe else path == self.session.container

    @property
    def _job(self) -> JobView | None:
        """The run or evaluation that goes on."""
        jobs = [job for job in self.session.jobs.values() if job.running and not job.quiet]
        return next((job for job in jobs if job.method in (*_RUNS, EVALUATE.name)), None)

    def _draw(self) -> None:
        results = self.results
        self.inputs_pane.show(self.session.inputs)
        job, results.run = self._runs.get(self.subject.key, (None, None))
        results.simulated = {}
        if job is not None and isinstance(results.run, Ran):
            own, beside = self._runs.get((SIDES[0], self.arithmetic), (None, None))
            if own is not None and beside is not None and _same_inputs(own, job):
                results.simulated = {output.name: output for output in beside.outputs}
        label = results.run.label if isinstance(results.run, Ran) else "simulated"
        outputs = () if results.run is None else results.run.outputs
        results.outputs.take(outputs, label if outputs else "")
        self._tell()

    def _tell(self) -> None:
        line, job = self.query_one(FactsLine), self._job
        score = self.results.view == "Score"
        if job is not None:
            line.show(*words.running_facts(job))
        elif score:
            line.show(*words.score_facts(self.results.score.result, self.results.score.labels))
        else:
            done, result = self._runs.get(self.subject.key, (None, None))
            line.show(*words.run_facts(self.subject, result, done))
        self.inputs_pane.display = not score
        reference = self.arithmetic == "reference" and self.results.view in SIDES[:2]
        self.results.bar.set_note("reference arithmetic" if reference else "")
        self.results.tell()

    @on(Results.Changed)
    def _view_changed(self, event: Results.Changed) -> None:
        if event.view:
            self._draw()
        self.screen.refresh_bindings()

    def action_arithmetic(self) -> None:
        """Simulate with integer kernels, or in float between the roundings."""
        at = ARITHMETICS.index(self.arithmetic)
        self.arithmetic = ARITHMETICS[(at + 1) % len(ARITHMETICS)]
        self._draw()

    # -- running ---------------------------------------------------------------------------------

    def action_run(self) -> None:
        """Run the chosen files, else the first calibration sample; or score the samples."""
        if self.results.view == "Score":
            self._score()
        elif self.inputs_pane.paths is None and not words.reason("next_sample", self.subject):
            self._sample(1, run=True)
        else:
            self._run()

    def _run(self, save: str | None = None, force: bool = False) -> None:
        paths = self.inputs_pane.paths
        if paths is None:
            missing = self.inputs_pane.select_missing()
            self.notify(f"{sanitize(missing, 60)} needs a file.", markup=False)
            self.action_pick()
            return
        request = self.subject.request(paths, save=save, force=force)
        title = " ".join(["run", *[sanitize(Path(path).name, 60) for path in paths[:1]]])
        if isinstance(request, RunParams):
            self.start_job(BOARD_RUN, request, title)
        else:
            self.start_job(SIMULATE, request, title)

    def action_more(self) -> None:
        """Show more values."""
        self.results.outputs.step(1)

    def action_fewer(self) -> None:
        """Show fewer values."""
        self.results.outputs.step(-1)

    @on(Rows.Chosen, "#inputs")
    def action_pick(self) -> None:
        """Choose the file of the input under the cursor, or labelled samples."""
        if self.results.view == "Score":
            self._choose_labels()
        else:
            self.inputs_pane.pick(self.session.recipe.get("dataset"), self._draw)

    def action_next_sample(self) -> None:
        """Take the next calibration sample, and run it where one ran before."""
        self._sample(1, run=self.subject.key in self._runs)

    def action_previous_sample(self) -> None:
        """Take the calibration sample before, and run it where one ran before."""
        self._sample(-1, run=self.subject.key in self._runs)

    def _sample(self, by: int, *, run: bool) -> None:
        def listed(answer: Samples) -> None:
            self.inputs_pane.take_sample([entry[1] for entry in answer.entries], by)
            self._draw()
            if run and self._job is not None:
                self._again = True  # a held key runs only where it came to
            elif run and self.inputs_pane.paths is not None:
                self._run()

        self.ask(DATASET_LIST, ListParams(self.session.recipe), listed)

    def _choose_labels(self) -> None:
        def chosen(path: str) -> None:
            self.results.score.labels = path
            self._score()

        title = "Labelled samples: a folder of classes (Ctrl+S), a list or an npz"
        start = self.results.score.labels or start_folder(self.session.recipe.get("dataset"))
        ask_user(self.app, PathPicker(title, start, folders=True), chosen)

    def _score(self) -> None:
        labels = self.results.score.labels
        if not labels:
            self._choose_labels()
            return
        recipe = dict(self.session.built or self.session.recipe)
        self.start_job(EVALUATE, EvaluateParams(recipe, labels), "score samples")

    def action_export(self) -> None:
        """Choose a folder, run, and write each output there as npy."""
        start = Path.cwd() / "outputs"
        ask_new_file(self.app, "Folder for the outputs (Ctrl+S)", start, self._run, folder=True)

    # -- what the shell asks ---------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if not self.is_attached:
            return ""
        if self.results.view == "Score" and method in ("run", "pick"):
            return words.score_reason(self.subject)
        if method in ("more", "fewer") and self.results.run is None:
            return "there is no result yet ({result.run} runs)."
        if method in ("run", "pick", "arithmetic", "export", "next_sample", "previous_sample"):
            return words.reason(method, self.subject)
        return super().unavailable_reason(method)

    def copy_text(self) -> str:
        return self.record_text()

    def command_line(self) -> list[str]:
        if self.results.view != "Score":
            return self.subject.command_line(self.inputs_pane.files)
        line = command_for("evaluate", self.session)
        labels = {"labels": self.results.score.labels}
        return [*line, *job_flags(EVALUATE.name, labels)] if line else []


def _same_inputs(one: JobView, other: JobView) -> bool:
    return one.params.get("inputs") == other.params.get("inputs")
