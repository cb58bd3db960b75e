"""The views Code and Export: a project for a board, and every form in which a build leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.containers import Vertical

from engine import sanitize
from engine.wire.codegen import CODEGEN, MODEL_TASKS, CodegenParams, Generated
from engine.wire.project_tables import PROJECT_FILES, PROJECT_SETTINGS
from rknntui.keys.actions import with_keys
from rknntui.keys.commandline import command_with
from rknntui.screens.dialogs.picker import ask_overwrite, is_taken, start_folder
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult

    from rknntui.screens.base.workspace import Workspace
    from rknntui.screens.dialogs.dialogs import Dialog
    from rknntui.session.state import Session


def stem_of(workspace: Workspace) -> str:
    """What the names of files begin with: the model's own."""
    session = workspace.session
    return Path(str(session.recipe.get("model") or session.path or "model")).stem


LANGUAGES: dict[str, str] = {
    "cpp": "C++ with the RKNN C API and CMake; no Python on the board",
    "python": "Python with rknnlite on the board",
}
_OF_RECIPE = "recipe"
"""The choice of the recipe's chip."""
_MOST_BYTES = 200_000
"""Bytes of a written file that are shown."""


UNSET = CodegenParams(path="")
"""A project as it is at first; without a path it is written beside the workbench."""


def project_path(project: CodegenParams, workspace: Workspace) -> str:
    """The folder that is written."""
    return project.path or str(Path.cwd() / f"{stem_of(workspace)}-{project.language}")


def project_request(project: CodegenParams, workspace: Workspace) -> CodegenParams:
    """The request for what is open."""
    session = workspace.session
    return replace(
        project,
        path=project_path(project, workspace),
        recipe=dict(session.recipe) if session.container is None else None,
        build=None if session.vendor else session.container,
        model=project.model or (session.container if session.vendor else None),
    )


def project_command(project: CodegenParams, workspace: Workspace) -> list[str]:
    """The command that writes it; empty where nothing is open."""
    request = project_request(project, workspace)
    if workspace.session.vendor:  # it is the verb's target
        request = replace(request, model=None)
    return command_with("codegen", workspace.session, request)


_TITLES = {
    "language": "language",
    "task": "the model is",
    "chip": "chip",
    "model": "compiled model",
    "inputs": "inputs",
    "path": "folder",
}
"""What is asked for, by its field of the request."""


def _shown(project: CodegenParams, name: str, path: str, chip: str) -> tuple[str, str]:
    """(value, what it means) of a setting; ``chip`` as of ``CodePane.chip``."""
    match name:
        case "language":
            return project.language, LANGUAGES[project.language]
        case "task":
            return project.task, MODEL_TASKS[project.task]
        case "chip":
            if not chip:
                return "! none", "the recipe names none: Enter chooses one"
            return chip, "" if project.chip else "as the recipe or the file says"
        case "model":
            about = "" if project.model else "the project says which command makes it"
            return project.model or "none chosen", about
        case "inputs":
            about = "" if project.inputs else "stored with the outputs they must give"
            return ", ".join(map(str, project.inputs)) or "none", about
        case _:
            return path, ""


class CodePane(Vertical):
    """What is to be written on top; below it the files that were."""

    DEFAULT_CSS = """
    CodePane > #code-settings-view { height: 8; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.table = self.settings = RecordTable(
            PROJECT_SETTINGS, id="code-settings", what="settings"
        )
        self.files = RecordTable(PROJECT_FILES, id="code-files", what="files")
        self.project = UNSET
        self.result: Generated | None = None

    def compose(self) -> ComposeResult:
        yield RecordView("Project", self.settings, id="code-settings-view")
        yield RecordView("Files", self.files, id="code-files-view")

    @property
    def setting(self) -> str:
        """The setting under the cursor."""
        record = self.settings.record
        return str(record["key"]) if record is not None else next(iter(_TITLES))

    @property
    def about(self) -> str:
        """What the value under the cursor means; empty where there is nothing to say."""
        record = self.settings.record
        return str(record["about"]) if record is not None and self.settings.has_focus else ""

    @property
    def file(self) -> str:
        """The path of the file under the cursor; empty for none."""
        record = self.files.record
        if record is None or self.result is None:
            return ""
        return str(Path(self.result.path) / str(record["file"]))

    def chip(self, session: Session) -> str:
        """The chip that the project is for; empty where nothing names one."""
        if self.project.chip:
            return self.project.chip
        if self.project.model or session.container is not None:
            return "of the file"
        return str(session.recipe.get("target_platform") or "")

    def draw(self, workspace: Workspace) -> None:
        """Show the settings, and the files of the last project."""
        path = project_path(self.project, workspace)
        records = []
        chip = self.chip(workspace.session)
        for name, title in _TITLES.items():
            value, about = _shown(self.project, name, path, chip)
            records.append({"key": name, "title": title, "value": value, "about": about})
        self.settings.set_records(records, keep="key")
        files: Iterable[str] = self.result.files if self.result is not None else ()
        self.files.set_empty(with_keys("No project is written yet: {deploy.start} writes it."))
        self.files.set_records([{"file": name} for name in files], keep="file")

    def forget(self) -> None:
        """Another model is open: what is about files is no longer so."""
        self.project = replace(UNSET, language=self.project.language, chip=self.project.chip)
        self.result = None


def ask_setting(
    workspace: Workspace,
    project: CodegenParams,
    name: str,
    chips: Iterable[str],
    then: Callable[[CodegenParams], None],
) -> None:
    """Ask for a setting of the project; ``then`` is called with the other project."""
    from rknntui.screens.dialogs.dialogs import ChoiceDialog
    from rknntui.screens.dialogs.picker import PathPicker

    def chosen(value: str | tuple[str, ...] | None) -> None:
        if value is not None:
            changed: dict[str, Any] = {name: None if value == _OF_RECIPE else value}
            then(replace(project, **changed))

    start = start_folder(workspace.session.recipe.get("model"))
    dialog: Dialog
    match name:
        case "language":
            dialog = ChoiceDialog("Language", list(LANGUAGES), project.language, LANGUAGES)
        case "task":
            kinds = {str(task): text for task, text in MODEL_TASKS.items()}
            dialog = ChoiceDialog("The model is", list(kinds), project.task, kinds)
        case "chip":
            dialog = ChoiceDialog("Chip", [_OF_RECIPE, *chips], project.chip or _OF_RECIPE)
        case "inputs":
            count = max(1, len(workspace.session.inputs))
            first = project.inputs[0] if project.inputs else start
            ask_inputs(workspace.app, count, first, lambda paths: chosen(tuple(paths or ())))
            return
        case "model":
            dialog = PathPicker("Compiled model (.rknn)", project.model or start)
        case _:
            title, path = "Folder of the project (Ctrl+S)", project_path(project, workspace)
            dialog = PathPicker(title, path, folders=True, new=True)
    workspace.app.push_screen(dialog, chosen)


def ask_inputs(app: Any, count: int, start: str, then: Callable[[list[str] | None], None]) -> None:
    """Ask for a picture or array for each input, one after the other.

    Args:
        app: shows the pickers.
        count: of the model's inputs.
        start: where each picker starts.
        then: called with the paths; with None where the user wants the calibration sample.
    """
    from rknntui.screens.dialogs.picker import PathPicker

    chosen: list[str] = []

    def take(path: str | None) -> None:
        if path is None:
            then(None)
            return
        chosen.append(path)
        if len(chosen) < count:
            ask()
        else:
            then(chosen)

    def ask() -> None:
        title = f"Input {len(chosen) + 1} of {count}; Esc: the first calibration sample"
        app.push_screen(PathPicker(title, start), take)

    ask()


def write_project(workspace: Workspace, project: CodegenParams) -> None:
    """Start the job; before a folder with something in it is replaced, ask."""
    path = project_path(project, workspace)

    def start(overwrite: bool) -> None:
        params = replace(project_request(project, workspace), overwrite=overwrite)
        workspace.start_job(CODEGEN, params, f"codegen {sanitize(Path(path).name, 80)}")

    ask_overwrite(workspace.app, [path] if is_taken(Path(path)) else [], start)


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
