"""The view Code: a project that runs the compiled model on a board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual.containers import Vertical

from engine import sanitize
from engine.wire.codegen import CODEGEN, MODEL_TASKS, CodegenParams, Generated
from engine.wire.project_tables import PROJECT_FILES, PROJECT_SETTINGS
from rknntui.keys.actions import with_keys
from rknntui.keys.commandline import command_with
from rknntui.screens.chips.compiling import APPLIES
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.divider import Divider
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.wrap import finding_lines, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from engine.wire.compile import Compiled
    from rknntui.screens.base.workspace import Workspace
    from rknntui.screens.chips.workspace import Chips
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line


LANGUAGES: dict[str, str] = {
    "cpp": "C++ with the RKNN C API and CMake; no Python on the board",
    "python": "Python with rknnlite on the board",
}
CODE_FORM = Form(
    "Project",
    (CodegenParams,),
    {
        "details": "the defaults of the task; the command line has them all",
        "overwrite": "asked for where the folder is there",
    },
)
_MOST_BYTES = 200_000
"""Bytes of a written file that are shown."""
UNSET = CodegenParams(path="")
"""A project as it is at first; without a path it is written beside the workbench."""


def project_request(project: CodegenParams, workspace: Workspace) -> CodegenParams:
    """The request for what is open, with the model that was compiled for its chip."""
    session = workspace.session
    path = project.path or str(Path.cwd() / f"{workspace.session.stem}-{project.language}")
    compiled = _compiled(project.chip or session.chip, session)
    chip = compiled.chip if compiled is not None and not session.chip else None
    model = compiled.path if compiled is not None else session.compiled
    return replace(
        project,
        path=path,
        recipe=dict(session.recipe) if session.container is None else None,
        build=None if session.vendor else session.container,
        chip=project.chip or chip,
        model=project.model or (session.container if session.vendor else model),
    )


def _compiled(chip: str, session: Session) -> Compiled | None:
    """What was compiled for the project's chip; where none is named, what boards run."""
    made = [row for row in session.compilations.values() if row.path]
    if not chip:
        return next((row for row in made if row.path == session.compiled), None)
    return next((row for row in made if row.chip == chip), None)


def project_command(project: CodegenParams, workspace: Workspace) -> list[str]:
    """The command that writes it; empty where nothing is open."""
    request = project_request(project, workspace)
    if workspace.session.vendor:  # it is the verb's target
        request = replace(request, model=None)
    return command_with("codegen", workspace.session, request)


_MEANINGS = {**LANGUAGES, **{str(task): text for task, text in MODEL_TASKS.items()}}
_SETTINGS = {
    "language": ("language", "", ""),
    "task": ("task", "", ""),
    "chip": ("chip", "! none", "neither the target nor a model names one"),
    "model": ("compiled model", "none yet", "{chips.run} in Chips compiles it"),
    "inputs": ("inputs", "first calibration sample", "stored with the outputs they must give"),
    "path": ("folder", "", ""),
}
"""Field of the request -> its title; where it is not set what stands there, and what that means."""


def chip_of(asked: CodegenParams, session: Session) -> str:
    """The chip that a request is for; empty where nothing names one."""
    return asked.chip or ("of the file" if session.container is not None else session.chip)


class CodePane(Vertical):
    """What is to be written on top; below it the files that were."""

    DEFAULT_CSS = """
    CodePane > #code-settings-view { height: 8; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.table = RecordTable(PROJECT_SETTINGS, id="code-settings", what="settings")
        self.files = RecordTable(PROJECT_FILES, id="code-files", what="files")
        self.project = UNSET
        self.result: Generated | None = None

    def compose(self) -> ComposeResult:
        yield RecordView("Project", self.table, id="code-settings-view")
        yield Divider("code-divider")
        yield RecordView("Files", self.files, id="code-files-view")

    @property
    def file(self) -> str:
        """The path of the file under the cursor; empty for none."""
        record = self.files.record
        if record is None or self.result is None:
            return ""
        return str(Path(self.result.path) / str(record["file"]))

    def take(self, chips: Chips) -> None:
        """Show the settings, and the files of the last project."""
        asked = project_request(self.project, chips)
        asked = replace(asked, chip=chip_of(asked, chips.session))
        records = []
        for name, (title, unset, means) in _SETTINGS.items():
            value = getattr(asked, name) or ""
            if name == "model" and self.waits(chips):
                value = "▶ being compiled"
            text = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            about = _MEANINGS.get(text, "") if text else with_keys(means)
            records.append({"key": name, "title": title, "value": text or unset, "about": about})
        self.table.set_records(records, keep="key")
        files = self.result.files if self.result is not None else ()
        text = "No project is written yet: {chips.run} writes it, {chips.edit} changes it first."
        self.files.set_empty(with_keys(text))
        self.files.set_records([{"file": name} for name in files], keep="file")

    def waits(self, chips: Chips) -> bool:
        """Whether the model that the project is to have is still being compiled."""
        chip, compiling = self.project.chip or chips.session.chip, chips.targets.compiling
        return not self.project.model and bool(chip in compiling if chip else compiling)

    def notes(self, _: Chips, width: int) -> list[Line]:
        """Where the project is, what a user should know, and what a setting means."""
        result, lines = self.result, []
        if result is not None:
            count = len(result.files)
            text = f"✓ {count} file{'' if count == 1 else 's'} in {sanitize(result.path, 400)}"
            lines = [*wrapped(text, width, "good"), *finding_lines(result.findings, width, APPLIES)]
        record = self.table.record
        if record is not None and record["about"] and self.table.has_focus:
            lines += wrapped(str(record["about"]), width, "dim")
        return lines

    def forget(self) -> None:
        """Another model is open: what is about files is no longer so."""
        self.project = replace(UNSET, language=self.project.language, chip=self.project.chip)
        self.result = None


def ask_project(
    workspace: Workspace,
    project: CodegenParams,
    chips: Sequence[str],
    then: Callable[[CodegenParams], None],
) -> None:
    """Ask for everything of the project; ``then`` is called with the other project."""
    now = project_request(project, workspace)

    def chosen(asked: CodegenParams) -> None:
        """What stays as it was proposed goes on to follow the target."""
        same = {
            name: getattr(project, name)
            for name in ("path", "chip", "model")
            if getattr(asked, name) == getattr(now, name)
        }
        then(replace(asked, recipe=None, build=None, **same))

    CODE_FORM.ask(workspace.app, now, then=chosen, choices={"chip": chips} if chips else None)


def write_project(workspace: Workspace, project: CodegenParams) -> None:
    """Start the job; before a folder with something in it is replaced, ask."""
    request = project_request(project, workspace)
    title = f"project {sanitize(Path(request.path).name, 80)}"
    workspace.start_writing(CODEGEN, request, title, request.path, replaces="overwrite")


def show_file(workspace: Workspace, path: str) -> None:
    """Show a file that was written."""
    from engine import EngineError, read_bounded
    from rknntui.screens.dialogs.dialogs import TextDialog

    try:
        content = read_bounded(Path(path), _MOST_BYTES, "a file of a project")
    except (EngineError, OSError) as error:
        workspace.notify(f"Not shown: {error}", severity="warning", markup=False)
        return
    if b"\0" in content:
        workspace.notify(f"{sanitize(Path(path).name, 80)} is data.", markup=False)
        return
    rows = content.decode("utf-8", "replace").splitlines() or [""]
    lines = [[(sanitize(row, 400), "")] for row in rows]
    workspace.app.push_screen(TextDialog(sanitize(Path(path).name, 80), lines))
