"""The view Code: a project that runs the compiled model on a board, written for the user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from textual.containers import Vertical

from engine import sanitize
from engine.wire.codegen import CODEGEN, MODEL_TASKS, CodegenParams, Generated, Language, ModelTask
from rknntui.keys.commandline import command_with
from rknntui.keys.text import with_keys
from rknntui.screens.accuracy.inputs import start_folder
from rknntui.screens.deploy.forms import stem_of
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import Field, RecordTable, name_text
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult

    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.state import Session

__all__ = ["CodePane", "Project", "ask_setting", "show_file", "write_project"]

LANGUAGES: dict[str, str] = {
    "cpp": "C++ with the RKNN C API and CMake; no Python on the board",
    "python": "Python with rknnlite on the board",
}
_MOST_BYTES = 200_000
"""Bytes of a written file that are shown."""


@dataclass(frozen=True)
class Project:
    """What is written.

    Attributes:
        language: of the project.
        task: what the model is.
        chip: empty: the recipe's.
        model: a compiled model; empty: the project has a place for it.
        inputs: a file for every input; empty: none.
        folder: empty: beside the workbench, after the model's name.
    """

    language: Language = "cpp"
    task: ModelTask = "none"
    chip: str = ""
    model: str = ""
    inputs: tuple[str, ...] = ()
    folder: str = ""

    def path(self, workspace: Workspace) -> str:
        """The folder that is written."""
        return self.folder or str(Path.cwd() / f"{stem_of(workspace)}-{self.language}")

    def params(self, workspace: Workspace, *, overwrite: bool) -> CodegenParams:
        """The request."""
        session = workspace.session
        return CodegenParams(
            path=self.path(workspace),
            recipe=dict(session.recipe) if session.container is None else None,
            build=None if session.vendor else session.container,
            model=self.model or (session.container if session.vendor else None),
            language=self.language,
            task=self.task,
            inputs=self.inputs,
            chip=self.chip or None,
            overwrite=overwrite,
        )

    def command_line(self, workspace: Workspace) -> list[str]:
        """The command that writes it; empty where nothing is open."""
        request = self.params(workspace, overwrite=False)
        if workspace.session.vendor:  # it is the verb's target
            request = replace(request, model=None)
        return command_with("codegen", workspace.session, request)


_SETTINGS = ("language", "task", "chip", "model", "inputs", "folder")
_TITLES = {
    "language": "language",
    "task": "the model is",
    "chip": "chip",
    "model": "compiled model",
    "inputs": "inputs",
    "folder": "folder",
}


def _shown(project: Project, name: str, path: str, chip: str) -> tuple[str, str]:
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
            told = "" if project.model else "the project says which command makes it"
            return project.model or "none chosen", told
        case "inputs":
            told = "" if project.inputs else "stored with the outputs they must give"
            return ", ".join(map(str, project.inputs)) or "none", told
        case _:
            return path, ""


class CodePane(Vertical):
    """What is to be written on top; below it the files that were."""

    DEFAULT_CSS = """
    CodePane > #code-settings-view { height: 8; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        settings = (
            Field("title", Column("setting", 14)),
            Field("value", Column("value", 12, grow=1, text=name_text)),
            Field("about", Column("", 20, grow=1, text=name_text, name="about"), 116),
        )
        self.settings = RecordTable(settings, id="code-settings", what="settings")
        fields = (Field("file", Column("file", 20, grow=1, text=name_text)),)
        self.files = RecordTable(fields, id="code-files", what="files")
        self.project = Project()
        self.result: Generated | None = None

    def compose(self) -> ComposeResult:
        yield RecordView("Project", self.settings, id="code-settings-view")
        yield RecordView("Files", self.files, id="code-files-view")

    @property
    def setting(self) -> str:
        """The setting under the cursor."""
        record = self.settings.record
        return str(record["key"]) if record is not None else _SETTINGS[0]

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
        path = self.project.path(workspace)
        records = []
        chip = self.chip(workspace.session)
        for name in _SETTINGS:
            value, about = _shown(self.project, name, path, chip)
            records.append({"key": name, "title": _TITLES[name], "value": value, "about": about})
        self.settings.set_records(records, keep="key")
        files: Iterable[str] = self.result.files if self.result is not None else ()
        self.files.set_empty(with_keys("No project is written yet: {deploy.start} writes it."))
        self.files.set_records([{"file": name} for name in files], keep="file")

    def forget(self) -> None:
        """Another model is open: what is about files is no longer so."""
        self.project = Project(self.project.language, chip=self.project.chip)
        self.result = None


def ask_setting(
    workspace: Workspace,
    project: Project,
    name: str,
    chips: Iterable[str],
    then: Callable[[Project], None],
) -> None:
    """Ask for a setting of the project; ``then`` is called with the other project."""
    from rknntui.screens.dialogs.dialogs import ChoiceDialog

    app = workspace.app
    match name:
        case "language":
            languages: dict[str, Language] = {value: value for value in get_args(Language)}

            def spoken(value: str | None) -> None:
                if value is not None:
                    then(replace(project, language=languages[value]))

            dialog = ChoiceDialog("Language", list(languages), project.language, LANGUAGES)
            app.push_screen(dialog, spoken)
        case "task":
            tasks: dict[str, ModelTask] = {value: value for value in MODEL_TASKS}

            def meant(value: str | None) -> None:
                if value is not None:
                    then(replace(project, task=tasks[value]))

            kinds = {str(task): text for task, text in MODEL_TASKS.items()}
            app.push_screen(ChoiceDialog("The model is", list(kinds), project.task, kinds), meant)
        case "chip":

            def targeted(value: str | None) -> None:
                if value is not None:
                    then(replace(project, chip="" if value == "recipe" else value))

            names = ["recipe", *chips]
            app.push_screen(ChoiceDialog("Chip", names, project.chip or "recipe"), targeted)
        case _:
            _ask_files(workspace, project, name, then)


def _ask_files(
    workspace: Workspace, project: Project, name: str, then: Callable[[Project], None]
) -> None:
    from rknntui.screens.accuracy.inputs import ask_inputs
    from rknntui.screens.dialogs.picker import PathPicker

    start = start_folder(workspace.session.recipe.get("model"))
    if name == "inputs":

        def fed(paths: list[str] | None) -> None:
            then(replace(project, inputs=tuple(paths or ())))

        count = max(1, len(workspace.session.inputs))
        ask_inputs(workspace.app, count, project.inputs[0] if project.inputs else start, fed)
        return
    if name == "model":

        def compiled(path: str | None) -> None:
            if path is not None:
                then(replace(project, model=path))

        picker = PathPicker("Compiled model (.rknn)", project.model or start)
        workspace.app.push_screen(picker, compiled)
        return

    def placed(path: str | None) -> None:
        if path is not None:
            then(replace(project, folder=path))

    proposed = project.path(workspace)
    picker = PathPicker("Folder of the project (Ctrl+S)", proposed, folders=True, new=True)
    workspace.app.push_screen(picker, placed)


def write_project(workspace: Workspace, project: Project) -> None:
    """Start the job; before a folder with something in it is replaced, ask."""
    from rknntui.screens.dialogs.dialogs import ConfirmDialog

    path = project.path(workspace)

    def start(*, overwrite: bool) -> None:
        params = project.params(workspace, overwrite=overwrite)
        workspace.start_job(CODEGEN, params, f"codegen {sanitize(Path(path).name, 80)}")

    if not _taken(Path(path)):
        start(overwrite=False)
        return
    answers = [("y", "replace", True), ("n", "keep", False)]
    dialog = ConfirmDialog("Overwrite", f"{path} exists. Replace what is there?", answers)
    workspace.app.push_screen(dialog, lambda yes: start(overwrite=True) if yes else None)


def _taken(path: Path) -> bool:
    try:
        return any(path.iterdir()) if path.is_dir() else path.exists()
    except OSError:
        return True


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
