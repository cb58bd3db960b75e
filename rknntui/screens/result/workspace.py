"""Workspace Run: an input through the simulator or a board, and what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from textual import getters, on
from textual.app import ComposeResult

from engine import sanitize
from engine.wire.board import BOARD_MEMORY, BOARD_RUN, LiveLook, MemoryReport, Ran
from engine.wire.build import SIMULATE, Simulated
from engine.wire.compare import COMPARE_BOARD, Comparison
from engine.wire.dataset import DATASET_LIST, ListParams, Samples
from rknntui.keys.actions import key_text
from rknntui.links import GoToCompiled
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.dialogs.picker import ask_new_file
from rknntui.screens.result import words
from rknntui.screens.result.live import InputsPane, LiveRun
from rknntui.screens.result.panes import MOST_VALUES, Results, errors_of
from rknntui.screens.result.requests import (
    SIMULATORS,
    Simulator,
    Subject,
    ask_compiled,
    ask_cores,
    ask_target,
)
from rknntui.screens.result.words import reason
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import FactsLine
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine.wire.build import SimulatedOutput
    from engine.wire.devices import Cores
    from engine.wire.method import Task
    from rknntui.links import Link
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobChanged, JobEnded, ResultFound

P = TypeVar("P")
R = TypeVar("R")

_TASKS = {task.name for task in (SIMULATE, BOARD_RUN, BOARD_MEMORY, COMPARE_BOARD)}


class Run(TableWorkspace):
    """Inputs on top; below them outputs, layers, memory or the comparison."""

    NAME = "result"
    HELP = (
        "Runs one sample in the simulator (the quantized graph on the CPU of this machine: its "
        "seconds are not those of an NPU) or on a board, which {result.target} chooses. A board "
        "runs a compiled .rknn: the open one, or that of {result.compiled}; an emulated board also "
        "the build of the recipe. Layers: the runtime's own times, {result.live} repeats them. "
        "Memory: what the model takes there. Compare: reference (golden), simulator and board on the "
        "same bytes; ✗ marks the first layer that diverges. {result.export} leads to Deploy, which "
        "exports the build and compiles it for an NPU."
    )
    FIRST_FOCUS = "#inputs"
    DEFAULT_CSS = """
    Run {
        & #inputs-view { height: auto; max-height: 8; }
        & #inputs { height: auto; min-height: 2; max-height: 6; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.target: str | None = None
        self.compiled: str | None = None
        self.cores: Cores = "auto"
        self.simulator = SIMULATORS[0]
        self._job: JobView | None = None
        self.live = LiveRun(self, self._take_live, self._told)

    def compose(self) -> ComposeResult:
        yield FactsLine(id="run-facts")
        yield InputsPane(id="inputs-view")
        yield Results(id="results")

    def on_mount(self) -> None:
        device = self.session.device
        if device is not None and device.usable:  # used in Devices before this was first shown
            self.target = device.id

    @property
    def inputs(self) -> RecordTable:
        """The inputs and their files."""
        return self.inputs_pane.table

    inputs_pane = getters.query_one(InputsPane)
    """The same with its caption."""

    results = getters.query_one(Results)
    """What came out, in four views."""

    @property
    def outputs(self) -> RecordTable[SimulatedOutput]:
        """The outputs of the last run."""
        return self.results.outputs.table

    @property
    def subject(self) -> Subject:
        """What would run now, and where."""
        return Subject(self.session, self.target, self.compiled, self.cores, self.simulator)

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self._draw()
        self.results.timed.join(errors_of(self.session))

    def hide(self) -> None:
        """Nothing is repeated that nobody sees."""
        self.live.stop()
        super().hide()

    def on_model_opened(self) -> None:
        """Other inputs, no results."""
        self.compiled = None
        self.inputs_pane.clear()
        self._forget()
        if self.shown:
            self._draw()

    def on_target_changed(self) -> None:
        """The board that is used in Devices is the target; one that is used no more is none."""
        self._targeted(self.session.board)

    def _forget(self) -> None:
        """What is shown is of another model or board."""
        self.live.stop()
        self._job = None
        self.results.clear()

    def on_recipe_changed(self) -> None:
        """The last outputs may be outdated."""
        self.live.stop()
        if self.shown:
            self._draw()

    def on_result_found(self, message: ResultFound) -> None:
        """Errors of an earlier run."""
        self.results.timed.join(errors_of(self.session))

    def on_job_changed(self, message: JobChanged) -> None:
        """Tell how far the run is; take what live runs told."""
        self.live.told(message.job)
        if self.shown:
            self._tell()

    def on_job_ended(self, message: JobEnded) -> None:
        """Show what came out, or what was written."""
        if self.live.ended(message):
            return
        job = self.session.jobs.get(message.job)
        if job is not None and self.subject.started(job):
            match message.result:
                case Simulated() | Ran() as result:
                    self._take(job, result)
                case MemoryReport() as report:
                    self.results.memory.take(report)
                case Comparison() as found:
                    self.results.compared.take(found)
        if self.shown:
            self._tell()
        self.screen.refresh_bindings()

    def _draw(self) -> None:
        self.inputs_pane.show(self.session.inputs)
        self._tell()

    def _told(self) -> None:
        """Live runs began, went on or ended."""
        if self.is_attached:
            self._tell()
            self.screen.refresh_bindings()

    def _tell(self) -> None:
        jobs = [job for job in self.session.jobs.values() if job.running and not job.quiet]
        job = next((job for job in jobs if job.method in _TASKS), None)
        line = self.query_one(FactsLine)
        if job is not None:
            line.show(*words.running_facts(job))
        elif self.live.on and self.live.look is not None:
            line.show(*words.live_facts(self.live.look))
        elif self.live.on and self.live.job is not None:
            line.show(*words.starting_facts(self.live.job))
        else:
            old = self._job is not None and self.subject.outdated(self._job)
            line.show(*words.run_facts(self.subject, self.results.run, outdated=old))
        count = f"{self.live.runs} run{'' if self.live.runs == 1 else 's'}"
        live = f"▶ live, {count}, {key_text('result.live')} stops"
        self.results.bar.set_note(live if self.live.on else "")
        self.results.error = self.live.error
        self.results.tell()

    # -- views -----------------------------------------------------------------------------------

    @on(Results.Changed)
    def _view_changed(self) -> None:
        self.screen.refresh_bindings()

    def linked_layer(self, method: str) -> str:
        return self.results.layer_id

    @on(Rows.Chosen, "#layer-times, #compared")
    def _open_layer(self) -> None:
        self.action_drill()

    # -- target ----------------------------------------------------------------------------------

    def action_target(self) -> None:
        """Look which boards there are, and choose."""
        ask_target(self, self.target, self.simulator, self._targeted)

    def _targeted(self, board: str | None, simulator: Simulator | None = None) -> None:
        simulator = simulator or self.simulator
        if (board, simulator) == (self.target, self.simulator):
            return
        self.target, self.simulator = board, simulator
        if board is not None:
            self.session.choose_board(board)
        self._changed(cores="auto")

    def action_compiled(self) -> None:
        """Choose a compiled model in the place of what is open."""
        ask_compiled(self, self.compiled, lambda path: self._changed(compiled=path))

    def action_cores(self) -> None:
        """Choose the cores of the board's NPU."""
        ask_cores(self, self.cores, lambda cores: self._changed(cores=cores))

    def _changed(self, *, compiled: str | None = None, cores: Cores | None = None) -> None:
        """Something else runs, or elsewhere."""
        self.compiled, self.cores = compiled or self.compiled, cores or self.cores
        self._forget()
        self._draw()
        self.screen.refresh_bindings()

    # -- running ---------------------------------------------------------------------------------

    def action_run(self) -> None:
        """Run the chosen files, or what the view shows."""
        match self.results.view:
            case "Layers":
                self._run(layers=True)
            case "Memory":
                self._ask_board(BOARD_MEMORY, self.subject.memory(), f"memory {self.subject.name}")
            case "Compare":
                self._compare()
            case _:
                self._run()

    def action_layers(self) -> None:
        """Show Layers, and have them timed."""
        if self.results.view != "Layers":
            self.results.bar.choose("Layers")
        self._run(layers=True)

    def action_live(self) -> None:
        """Repeat the times, or stop that."""
        if self.live.on:
            self.live.stop()
        elif (inputs := self._chosen_inputs()) is not None:
            self.live.start(self.subject.live(inputs))

    def _chosen_inputs(self) -> tuple[str, ...] | None:
        """The files; where one is missing it is asked for, and there is None."""
        paths = self.inputs_pane.paths
        if paths is None:
            missing = self.inputs_pane.select_missing()
            self.notify(f"{sanitize(missing, 60)} needs a file.", markup=False)
            self.action_pick()
        return paths

    def _run(self, save: str | None = None, force: bool = False, *, layers: bool = False) -> None:
        inputs, subject = self._chosen_inputs(), self.subject
        if inputs is None:
            return
        title = " ".join(["run", *[sanitize(Path(path).name, 60) for path in inputs[:1]]])
        if self.target is None:
            simulation = subject.simulation(inputs, MOST_VALUES, save, force)
            self.start_job(SIMULATE, simulation, title)
            return
        run = subject.run(inputs, MOST_VALUES, layers=layers, save=save, force=force)
        self._ask_board(BOARD_RUN, run, title)

    def _compare(self) -> None:
        inputs = self.inputs_pane.paths
        if inputs is None and not self.session.recipe.get("dataset"):
            inputs = self._chosen_inputs()
            if inputs is None:
                return
        comparison = self.subject.comparison(inputs)
        self._ask_board(COMPARE_BOARD, comparison, f"compare {self.subject.name}")

    def _ask_board(self, method: Task[P, R], params: P, title: str) -> None:
        """Start a job on the board, once live runs have let it go."""
        self.live.stop(lambda: self.start_job(method, params, title))

    def _take(self, job: JobView, result: Simulated | Ran) -> None:
        self.results.run, self._job = result, job
        label = result.label if isinstance(result, Ran) else "simulated"
        self.results.outputs.take(result.outputs, label)
        if isinstance(result, Ran) and (result.memory is not None or result.memory_reason):
            self.results.memory.take_beside(result, None)
        if isinstance(result, Ran) and job.params.get("layers"):
            self.live.error = ""
            self.results.timed.take(result, errors_of(self.session))
        if result.saved:
            folder = str(job.params.get("save") or "")
            self.notify(f"Wrote {len(result.saved)} files to {folder}.", markup=False)
        if self.shown and self.screen is self.app.screen and self.results.view == "Outputs":
            self.outputs.focus()

    def _take_live(self, look: LiveLook, more: bool) -> None:
        self.results.timed.take(look, errors_of(self.session), more=more)
        self.results.memory.take_beside(look, look.system)

    def action_more(self) -> None:
        """Show more values."""
        self.results.outputs.step(1)

    def action_fewer(self) -> None:
        """Show fewer values."""
        self.results.outputs.step(-1)

    def arrive(self, link: Link) -> None:
        """Take a compiled model that another workspace made; where no board is used, choose one."""
        if isinstance(link, GoToCompiled):
            self._changed(compiled=link.path)
            if self.target is None:
                self.action_target()

    # -- inputs ----------------------------------------------------------------------------------

    @on(Rows.Chosen, "#inputs")
    def action_pick(self) -> None:
        """Choose the file of the input under the cursor."""
        self.inputs_pane.pick(self.session.recipe.get("dataset"), self._draw)

    def action_sample(self) -> None:
        """Take the files of the next calibration sample."""
        self.ask(DATASET_LIST, ListParams(self.session.recipe), self._listed)

    def _listed(self, answer: Samples) -> None:
        self.inputs_pane.take_sample([entry[1] for entry in answer.entries])
        self._draw()

    # -- files -----------------------------------------------------------------------------------

    def action_save(self) -> None:
        """Choose a folder, run, and write each output there as npy."""
        start = Path.cwd() / "outputs"
        ask_new_file(self.app, "Folder for the outputs (Ctrl+S)", start, self._run, folder=True)

    # -- what the shell asks ---------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if not self.is_attached:
            return ""
        if method in ("node", "drill") and not self.results.layer_id:
            return "no layer of the build is under the cursor."
        if method in ("more", "fewer") and self.results.run is None:
            return "there is no result yet ({result.run} runs)."
        return reason(method, self.results.view, self.subject) or super().unavailable_reason(method)

    def copy_text(self) -> str:
        report = self.results.memory.result
        if self.results.view == "Memory" and report is not None and report.text:
            return report.text
        return self.record_text()

    def command_line(self) -> list[str]:
        return self.subject.command_line(self.results.view, self.inputs_pane.files)
