"""The view Export: every form in which a build leaves, what it is for and what runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine import CONTAINER_NOTE, human_bytes, sanitize
from engine.wire.build import EXPORT, Exported, ExportForm, ExportParams
from engine.wire.project_tables import FORMS as FORM_TABLE
from rknntui.keys.commandline import command_with
from rknntui.keys.text import with_keys
from rknntui.screens.dialogs.new_file import ask_new_file
from rknntui.widgets.findings import finding_lines
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.app import App

    from rknntui.screens.base.workspace import Workspace
    from rknntui.widgets.strips import Line


@dataclass(frozen=True)
class Form:
    """A form in which a build leaves.

    Attributes:
        name: in the table.
        purpose: what it is for, in a few words.
        runs: what runs it.
        about: the same whole, for the lines below the table.
        format: of an export; empty where something else makes it.
        view: the view that makes it, where no export does.
        of_file: ``encrypt`` or ``segments``, of a file that was written; else empty.
        suffix: what follows the model's name in the name of its file.
    """

    name: str
    purpose: str
    runs: str
    about: str
    format: ExportForm | None = None
    view: str = ""
    of_file: str = ""
    suffix: str = ""


FORMS = (
    Form(
        ".rknn container",
        "keep, simulate, inspect it",
        "this program",
        CONTAINER_NOTE,
        "rknn",
        suffix=".rknn",
    ),
    Form(
        "QDQ ONNX",
        "hand it to other tools",
        "CPU (ONNX Runtime)",
        "An ONNX file with the quantization in the graph, as QuantizeLinear and DequantizeLinear "
        "pairs. ONNX Runtime runs it; rknn-toolkit2 makes a model for an NPU from it, with "
        "do_quantization=False. The view Compile does that for you.",
        "onnx",
        suffix="-qdq.onnx",
    ),
    Form(
        "int8 TFLite",
        "the open NPU driver",
        "CPU (TFLite), NPU",
        "A TFLite file in int8 for the open NPU driver of mainline Linux (Mesa's Teflon), which "
        "needs no software of the vendor; TFLite's interpreter runs it on every CPU. The vendor's "
        "runtime does not take it.",
        "tflite",
        suffix="-int8.tflite",
    ),
    Form(
        "compiled .rknn",
        "run it on an NPU",
        "NPU of the chosen chips",
        "The vendor's compiler makes the program of the NPU. It needs a toolkit of the vendor, "
        "which the view Toolkits installs.",
        view="Compile",
    ),
    Form(
        "segments",
        "cut a long model into parts",
        "as its file",
        "A container, or a compiled model of generation 1, in segments: it computes the same, but "
        "other work can run between two of them. Cut after layers that you name, or so that none "
        "takes longer than a time (estimated).",
        of_file="segments",
    ),
    Form(
        "encrypted .rknn",
        "hide the weights",
        "as its file",
        "A container with a key of yours (AES-256-GCM; there is no way to open it without the "
        "key), or a compiled model by the vendor's toolkit, whose runtime opens it by itself.",
        of_file="encrypt",
    ),
    Form(
        "project",
        "an application on a board",
        "the board",
        "A C++ or Python project that runs the compiled model on a board: preprocessing, "
        "post-processing, build and run scripts, and data that its outputs are compared with.",
        view="Code",
    ),
)


class ExportPane(RecordView):
    """A row for each form."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(FORM_TABLE, id="export-forms", what="forms")
        super().__init__("Forms of the build", table, id=id)
        self._written: dict[str, str] = {}

    def on_mount(self) -> None:
        super().on_mount()
        self._fill()

    def _fill(self) -> None:
        records = [
            FORM_TABLE.record(form, path=self._written.get(str(form.format))) for form in FORMS
        ]
        self.table.set_records(records, keep="name")

    @property
    def form(self) -> Form:
        """The form under the cursor."""
        record = self.table.record
        return next((f for f in FORMS if record and f.name == record["name"]), FORMS[0])

    @property
    def last(self) -> str:
        """The container that was written last; empty for none."""
        return self._written.get("rknn", "")

    def written(self, result: Exported) -> None:
        """A form was written."""
        self._written[result.format] = result.path
        self._fill()

    def forget(self) -> None:
        """Another model is open."""
        self._written.clear()
        self._fill()


def stem_of(workspace: Workspace) -> str:
    """What the names of files begin with: the model's own."""
    session = workspace.session
    return Path(str(session.recipe.get("model") or session.path or "model")).stem


def ask_export(workspace: Workspace, form: Form) -> None:
    """Ask for the file of a form, and start the job."""
    recipe = dict(workspace.session.recipe)
    kind = form.format
    if kind is None:
        return

    def export(path: str, force: bool) -> None:
        params = ExportParams(recipe=recipe, path=path, format=kind, force=force)
        workspace.start_job(EXPORT, params, f"export {sanitize(Path(path).name, 80)}")

    start = Path.cwd() / f"{stem_of(workspace)}{form.suffix}"
    ask_new_file(workspace.app, f"Export {form.name} to", start, export)


def export_command(workspace: Workspace, form: Form) -> list[str]:
    """The command line that writes a form; empty where another view does."""
    if form.of_file:
        verb = "encrypt" if form.of_file == "encrypt" else "segment"
        return ["rknntui", verb, workspace.session.container or f"{stem_of(workspace)}.rknn"]
    if form.format is None:
        return []
    path = f"{stem_of(workspace)}{form.suffix}"
    request = ExportParams(recipe={}, path=path, format=form.format)
    return command_with("export", workspace.session, request)


def show_exported(app: App[None], result: Exported) -> None:
    """Tell what was written, and how it is used."""
    from rknntui.screens.dialogs.dialogs import TextDialog

    lines: list[Line] = [
        [(sanitize(result.path, 300), "accent")],
        [(f"{human_bytes(result.bytes)}, SHA-256", "")],
        [(result.sha256, "dim")],
        [],
        *[[(row, "")] for row in wrap(sanitize(result.note, 2000), 70)],
        *finding_lines(result.findings, 70, "deploy.apply-remedy"),
        [],
        [(with_keys("{app.open} opens it here again."), "dim")] * (result.format == "rknn"),
    ]
    app.push_screen(TextDialog("Exported", lines))
