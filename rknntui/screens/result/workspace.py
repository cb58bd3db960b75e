"""Workspace Result: what one sample gives, in float, simulated, as compiled and on a board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult

from engine import sanitize
from engine.wire.accuracy import EVALUATE, Evaluated
from engine.wire.board import BOARD_RUN, Ran, RunParams
from engine.wire.build import SIMULATE, Simulated
from engine.wire.dataset import DATASET_LIST, ListParams, Samples
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker, ask_new_file, start_folder
from rknntui.screens.result import words
from rknntui.screens.result.panes import InputsPane, Results
from rknntui.screens.result.requests import MOST_VALUES, SCORE, SIDES, Subject, side_of
from rknntui.session.messages import RecipeChanged, ResultFound, TargetChanged
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import FactsLine
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine.wire.build import SimulatedOutput
    from engine.wire.names import Arithmetic
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobChanged, JobEnded

_JOBS = (SIMULATE.name, BOARD_RUN.name, EVALUATE.name)


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
        self._labels = ""  # the labelled samples that were chosen last

    def compose(self) -> ComposeResult:
        yield FactsLine(id="run-facts")
        yield InputsPane(id="inputs-view")
        yield Results(id="results")

    inputs_pane = getters.query_one(InputsPane)
    """The inputs and their files."""

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
        return Subject(self.session, view, self.arithmetic)

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self._see_model()
        self._draw()

    def on_model_opened(self) -> None:
        """Other inputs, no results; those of the same model stay."""
        self._see_model()
        self._outdated()

    def _see_model(self) -> None:
        model = self.session.model
        opened = None if model is None else (model.path, model.sha256)
        if opened != self._of:
            self._of, self._labels = opened, ""
            self._runs.clear()
            self.inputs_pane.clear()

    @on(RecipeChanged)
    @on(TargetChanged)
    @on(ResultFound)
    def _outdated(self) -> None:
        """What is shown may be of another recipe, board or file; or scores of it were found."""
        if self.shown:
            self._draw()

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
        if self._again and message.method in _JOBS:
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
        ours = (job for job in self.session.jobs.values() if job.method in _JOBS)
        return next((job for job in ours if job.running and not job.quiet), None)

    @property
    def _scored(self) -> tuple[Evaluated | None, str]:
        """The last evaluation of the open model, and its labelled samples."""
        last = self.session.last_of(EVALUATE)
        return (None, "") if last is None else (last[1], str(last[0].params.get("labels") or ""))

    def _draw(self) -> None:
        results = self.results
        self.inputs_pane.show(self.session.inputs)
        job, results.run = self._runs.get(self.subject.key, (None, None))
        own, simulated = self._runs.get((SIDES[0], self.arithmetic), (None, None))
        beside = isinstance(results.run, Ran) and _inputs(own) == _inputs(job)
        outputs = simulated.outputs if beside and simulated is not None else ()
        results.simulated = {output.name: output for output in outputs}
        results.scored = self._scored[0]
        results.draw()
        self._tell()

    def _tell(self) -> None:
        line, running, scores = self.query_one(FactsLine), self._job, self.results.view == SCORE
        if running is not None:
            line.show(*words.running_facts(running))
        elif scores:
            line.show(*words.score_facts(*self._scored))
        else:
            job, result = self._runs.get(self.subject.key, (None, None))
            line.show(*words.run_facts(self.subject, result, job))
        self.inputs_pane.display = not scores
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
        self.arithmetic = "reference" if self.arithmetic == "integer" else "integer"
        self._draw()

    # -- running ---------------------------------------------------------------------------------

    def action_run(self) -> None:
        """Run the chosen files, else the first calibration sample; or score the samples."""
        if self.results.view == SCORE:
            self._score(self._labels or self._scored[1])
        elif self.inputs_pane.paths is None and not words.reason("step_sample", self.subject):
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
        request = self.subject.request(paths, top=MOST_VALUES, save=save, force=force)
        title = " ".join(["run", *[sanitize(Path(path).name, 60) for path in paths[:1]]])
        if isinstance(request, RunParams):
            self.start_job(BOARD_RUN, request, title)
        else:
            self.start_job(SIMULATE, request, title)

    @on(Rows.Chosen, "#inputs")
    def action_pick(self) -> None:
        """Choose the file of the input under the cursor, or labelled samples."""
        if self.results.view != SCORE:
            self.inputs_pane.pick(self.session.recipe.get("dataset"), self._draw)
            return
        title = "Labelled samples: a folder of classes (Ctrl+S), a list or an npz"
        start = self._labels or self._scored[1] or start_folder(self.session.recipe.get("dataset"))
        ask_user(self.app, PathPicker(title, start, folders=True), self._score)

    def _score(self, labels: str) -> None:
        self._labels = labels
        if labels:
            self.start_job(EVALUATE, self.subject.scoring(labels), "score samples")
        else:
            self.action_pick()

    def action_step_sample(self, by: int) -> None:
        """Take another calibration sample, and run it where one ran before."""
        self._sample(by, run=self.subject.key in self._runs)

    def _sample(self, by: int, *, run: bool) -> None:
        def listed(answer: Samples) -> None:
            self.inputs_pane.take_sample([entry[1] for entry in answer.entries], by)
            self._draw()
            if run and self._job is not None:
                self._again = True  # a held key runs only where it came to
            elif run and self.inputs_pane.paths is not None:
                self._run()

        self.ask(DATASET_LIST, ListParams(self.session.recipe), listed)

    def action_export(self) -> None:
        """Choose a folder, run, and write each output there as npy."""
        start = Path.cwd() / "outputs"
        ask_new_file(self.app, "Folder for the outputs (Ctrl+S)", start, self._run, folder=True)

    # -- what the shell asks ---------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if method in ("run", "pick", "arithmetic", "export", "step_sample"):
            return words.reason(method, self.subject) if self.is_attached else ""
        return super().unavailable_reason(method)

    def command_line(self) -> list[str]:
        labels = self._labels or self._scored[1]
        return self.subject.command_line(self.inputs_pane.files, labels)


def _inputs(job: JobView | None) -> object:
    return None if job is None else job.params.get("inputs")
