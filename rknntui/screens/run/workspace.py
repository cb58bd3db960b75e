"""Workspace Run: an input through the simulator, its outputs, and the exports."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from engine import CONTAINER_NOTE, human_bytes, not_finite, sanitize
from engine.wire.build import (
    EXPORT,
    SIMULATE,
    Exported,
    ExportForm,
    ExportParams,
    Simulated,
    SimulatedOutput,
    SimulateParams,
)
from engine.wire.codec import encode
from engine.wire.dataset import DATASET_LIST, ListParams, Samples
from rknntui.keys.actions import Action
from rknntui.keys.commandline import command_for
from rknntui.keys.text import key_text, with_keys
from rknntui.screens.accuracy.inputs import start_folder
from rknntui.screens.base.tables import TableWorkspace
from rknntui.screens.dialogs.new_file import ask_new_file
from rknntui.screens.run.tables import input_fields, output_fields, top_fields, top_records
from rknntui.widgets.facts_line import Fact, FactsLine
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView, table_actions
from rknntui.widgets.records import Record, RecordTable
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from rknntui.session.messages import JobChanged, JobEnded
    from rknntui.widgets.strips import Line

__all__ = ["Run"]

_NO_MODEL = "No model is open.\n\n{app.open} opens a model, a recipe or a .rknn file."
_NO_RUN = "No result yet: {run.run} runs the input."
_TOPS = (5, 10, 20, 50, 100, 1000)


class Run(TableWorkspace):
    """Inputs on top; outputs and the largest values of the one under the cursor below."""

    NAME = "run"
    HELP = (
        "Runs one sample in the simulator: the quantized graph on the CPU of this machine. "
        "Outputs are simulated; seconds are measured on this machine, not on an NPU. {run.export} "
        "exports the build as a container or as a QDQ ONNX file, from which the vendor's toolkit "
        "makes a model for the NPU."
    )
    FIRST_FOCUS = "#inputs"
    ACTIONS = (
        Action("run.run", "Run", "Run the inputs on the simulator.", ("r",), True),
        Action("run.pick", "Input…", "Choose the file of an input.", ("e",), True),
        Action("run.sample", "Next sample", "Use the next calibration sample.", ("n",), True),
        Action("run.save", "Save npy…", "Run, and write each output to an npy file.", ("w",), True),
        Action("run.export", "Export…", "Export a .rknn container or QDQ ONNX.", ("x",), True),
        Action("run.more", "More values", "Show more top values.", ("plus",)),
        Action("run.fewer", "Fewer values", "Show fewer top values.", ("minus",)),
        *table_actions("run"),
    )
    DEFAULT_CSS = """
    Run {
        & #inputs-view { height: auto; max-height: 8; }
        & #inputs { height: auto; min-height: 2; max-height: 6; }
        & #run-body { height: 1fr; }
        & #outputs-view { width: 5fr; }
        & #top-view { width: 4fr; margin: 0 0 0 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, str] = {}
        self._result: Simulated | None = None
        self._of: str | None = None
        self._top = 0
        self._sample = -1

    def compose(self) -> ComposeResult:
        yield FactsLine(id="run-facts")
        inputs = RecordTable(input_fields(), id="inputs", what="inputs", empty=with_keys(_NO_MODEL))
        yield RecordView("Inputs", inputs, id="inputs-view")
        with Horizontal(id="run-body"):
            outputs = RecordTable[SimulatedOutput](
                output_fields(), id="outputs", what="outputs", empty=with_keys(_NO_RUN)
            )
            yield RecordView("Outputs (simulated)", outputs, id="outputs-view")
            top = RecordTable(top_fields(), id="top", what="top", empty="")
            yield RecordView("Largest values", top, id="top-view")

    @property
    def inputs(self) -> RecordTable:
        """The inputs and their files."""
        return self.query_one("#inputs", RecordTable)

    @property
    def outputs(self) -> RecordTable[SimulatedOutput]:
        """The outputs of the last run."""
        return self.query_one("#outputs", RecordTable)

    # -- the session -----------------------------------------------------------------------------

    def update_view(self) -> None:
        self._draw()

    def on_model_opened(self) -> None:
        """Other inputs, no outputs."""
        self._files.clear()
        self._result = self._of = None
        self._sample = -1
        self.outputs.set_records([])
        self.query_one("#top", RecordTable).set_records([])
        if self.shown:
            self._draw()

    def on_recipe_changed(self) -> None:
        """The last outputs may be outdated."""
        if self.shown:
            self._draw()

    def on_job_changed(self, message: JobChanged) -> None:
        """Tell how far the run is."""
        if self.shown:
            self._tell()

    def on_job_ended(self, message: JobEnded) -> None:
        """Show what came out, or what was written."""
        self._tell()
        job = self.session.jobs.get(message.job)
        if job is not None and isinstance(message.result, Simulated):
            self._take(message.result, str(job.params.get("save") or ""))
        elif isinstance(message.result, Exported) and self.shown:
            self._exported(message.result)

    def _draw(self) -> None:
        none = f"{key_text('run.pick')} chooses a file"
        records = [
            {**encode(value), "number": i + 1, "file": self._files.get(value.name, none)}
            for i, value in enumerate(self.session.inputs)
        ]
        self.inputs.set_records(records, keep="name")
        self._tell()

    def _tell(self) -> None:
        session, facts = self.session, self.query_one(FactsLine)
        job = session.running
        if job is not None and job.method in (SIMULATE.name, EXPORT.name):
            stage = job.stage
            where = f"{stage.title}, " if stage is not None else ""
            facts.show(f"▶ {job.title}: {where}{job.fraction:.0%}, {key_text('job.cancel')} stops")
        elif session.model is None:
            facts.show("no model is open")
        elif self._result is not None:
            how = "quantized" if self._result.quantized else "float32"
            runs = f"{key_text('run.run')} runs"
            again = Fact(f"! the recipe changed since: {runs}", (f"! the recipe changed: {runs}",))
            ran = f"✓ ran {how}, simulated, in {self._result.seconds:.4f} s here (measured"
            took = Fact(f"{ran}, no NPU time)", (f"{ran})", f"✓ ran {how}, simulated"))
            facts.show(took, "" if self._of == self._state() else again)
        elif session.vendor:
            facts.show("a compiled vendor model: it runs only on its NPU")
        elif session.container is not None:
            facts.show("the container is simulated directly")
        else:
            runs = "runs the build of this recipe (simulated)"
            facts.show(Fact(f"{runs}; builds first if needed", (runs,)))

    def _state(self) -> str:
        return self.session.container or repr(sorted(self.session.recipe.items(), key=str))

    # -- running ---------------------------------------------------------------------------------

    def action_run(self) -> None:
        """Run the chosen files."""
        self._simulate()

    def _simulate(self, save: str | None = None, force: bool = False) -> None:
        names = [value.name for value in self.session.inputs]
        missing = [name for name in names if name not in self._files]
        if missing:
            self.inputs.select_record("name", missing[0])
            self.notify(f"{sanitize(missing[0], 60)} needs a file.", markup=False)
            self.action_pick()
            return
        container = self.session.container
        params = SimulateParams(
            path=container,
            recipe=dict(self.session.recipe) if container is None else None,
            inputs=tuple(self._files[name] for name in names),
            top=max(_TOPS),
            save=save,
            force=force,
        )
        files = [sanitize(Path(path).name, 60) for path in params.inputs]
        self.start_job(SIMULATE, params, " ".join(["run", *files[:1]]))

    def _take(self, result: Simulated, folder: str | None) -> None:
        self._result, self._of = result, self._state()
        self.outputs.set_records(result.outputs, keep="name")
        self._show_top()
        self._tell()
        if result.saved:
            self.notify(f"Wrote {len(result.saved)} files to {folder}.", markup=False)
        if self.shown and self.screen is self.app.screen:
            self.outputs.focus()
        self.screen.refresh_bindings()

    @on(Rows.Highlighted, "#outputs")
    def _show_top(self) -> None:
        output, table = self.outputs.record, self.query_one("#top", RecordTable)
        if output is None:
            table.set_records([])
            return
        odd = f" ({not_finite(output.not_finite)})" if output.not_finite else ""
        title = f"Top {_TOPS[self._top]} of {sanitize(output.name, 40)}{odd}"
        self.query_one("#top-view", RecordView).set_title(title)
        table.set_records(top_records(output.top[: _TOPS[self._top]]))

    def action_more(self) -> None:
        """Show more values."""
        self._top = min(self._top + 1, len(_TOPS) - 1)
        self._show_top()

    def action_fewer(self) -> None:
        """Show fewer values."""
        self._top = max(self._top - 1, 0)
        self._show_top()

    # -- inputs ----------------------------------------------------------------------------------

    @on(Rows.Chosen, "#inputs")
    def action_pick(self) -> None:
        """Choose the file of the input under the cursor."""
        from rknntui.screens.dialogs.picker import PathPicker

        record = self.inputs.record
        if record is None:
            return
        dataset = self.session.recipe.get("dataset")
        start = start_folder(self._files.get(record["name"]) or dataset)
        title = f"Input {sanitize(record['name'], 40)}: an image or npy"
        self.app.push_screen(PathPicker(title, start), partial(self._picked, record))

    def _picked(self, record: Record, path: str | None) -> None:
        if path is not None:
            self._files[record["name"]] = path
            self._draw()

    def action_sample(self) -> None:
        """Take the files of the next calibration sample."""
        self.ask(DATASET_LIST, ListParams(self.session.recipe), self._listed)

    def _listed(self, answer: Samples) -> None:
        if not answer.entries:
            return
        self._sample = (self._sample + 1) % len(answer.entries)
        names = [value.name for value in self.session.inputs]
        files = answer.entries[self._sample][1]
        self._files.update(zip(names, files, strict=False))
        self._draw()

    # -- files -----------------------------------------------------------------------------------

    def action_save(self) -> None:
        """Choose a folder, run, and write each output there as npy."""
        start = Path.cwd() / "outputs"
        ask_new_file(
            self.app, "Folder for the outputs (Ctrl+S)", start, self._simulate, folder=True
        )

    def action_export(self) -> None:
        """Choose the form, then the file."""
        from rknntui.screens.dialogs.dialogs import ConfirmDialog

        answers = [("r", ".rknn container", "rknn"), ("q", "QDQ ONNX", "onnx")]
        question = f"Choose the file type. {CONTAINER_NOTE}"
        self.app.push_screen(ConfirmDialog("Export", question, answers), self._form_chosen)

    def _form_chosen(self, form: ExportForm | None) -> None:
        if form is None:
            return
        stem = Path(str(self.session.recipe.get("model") or "model")).stem
        name = f"{stem}.rknn" if form == "rknn" else f"{stem}-qdq.onnx"
        ask_new_file(self.app, "Export to", Path.cwd() / name, partial(self._export, form))

    def _export(self, form: ExportForm, path: str, force: bool) -> None:
        recipe = dict(self.session.recipe)
        params = ExportParams(recipe=recipe, path=path, format=form, force=force)
        self.start_job(EXPORT, params, f"export {sanitize(Path(path).name, 80)}")

    def _exported(self, result: Exported) -> None:
        from rknntui.screens.dialogs.dialogs import TextDialog

        lines: list[Line] = [
            [(sanitize(result.path, 300), "accent")],
            [(f"{human_bytes(result.bytes)}, SHA-256", "")],
            [(result.sha256, "dim")],
            [],
            *[[(row, "")] for row in wrap(result.note, 70)],
            [],
            [(with_keys("{app.open} opens it here again."), "dim")] * (result.format == "rknn"),
        ]
        self.app.push_screen(TextDialog("Exported", lines))

    # -- what the shell asks ---------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if method in ("run", "pick", "save"):
            if self.session.model is None:
                return "no model is open ({app.open} opens one)."
            if self.session.vendor:
                return "a compiled vendor model runs only on its NPU."
        if method == "sample":
            dataset = self.session.recipe.get("dataset")
            if self.session.container is not None or not dataset:
                return "there is no calibration dataset ({go.dataset} chooses one)."
        if method == "export":
            if self.session.container is not None:
                return "this is the container; open its model to export again."
            return (
                ""
                if self.session.recipe.get("model")
                else "no model is open ({app.open} opens one)."
            )
        if method in ("more", "fewer") and self._result is None:
            return "there is no result yet ({run.run} runs)."
        return super().unavailable_reason(method)

    def copy_text(self) -> str:
        return self.record_text()

    def command_line(self) -> list[str]:
        words = command_for("simulate", self.session)
        for value in self.session.inputs:
            words += ["--input", self._files.get(value.name, "FILE")]
        return words
