"""The views of Deploy and what is said below each; the view Toolkits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual import getters, on

from engine import human_bytes, sanitize
from engine.wire.build_tables import ENVIRONMENTS, toolkit_sign
from engine.wire.vendor import (
    CPU_INDEX,
    VENDOR_ADOPT,
    VENDOR_CHECK,
    VENDOR_DEFAULT,
    VENDOR_INSTALL,
    VENDOR_KNOWN,
    VENDOR_REMOVE,
    ToolkitAdoptParams,
    ToolkitEnvironment,
    ToolkitInstallParams,
    ToolkitName,
    Toolkits,
    ToolkitsParams,
)
from rknntui.keys.actions import with_keys
from rknntui.screens.base.views import Views
from rknntui.screens.deploy import words
from rknntui.screens.deploy.code import CodePane
from rknntui.screens.deploy.compiling import AgreementPane, CompilePane, LayersPane
from rknntui.screens.deploy.exports import ExportPane
from rknntui.screens.dialogs.dialogs import ConfirmDialog, ask_user
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.findings import wrapped
from rknntui.widgets.job_pane import JobPane, WithJob
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rknntui.screens.base.workspace import Workspace
    from rknntui.screens.deploy.compiling import Targets
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

# The view Toolkits: environments of the vendor's toolkits, made, adopted, checked, removed.

TOOLKIT_JOBS = tuple(
    method.name for method in (VENDOR_INSTALL, VENDOR_CHECK, VENDOR_ADOPT, VENDOR_REMOVE)
)


class KnownToolkits:
    """The environments, as the last answer told them.

    Args:
        workspace: asks and shows.
        changed: called when there is another answer.

    Attributes:
        rows: the environments; None before an answer.
        error: why there is no answer: what, cause, remedy.
    """

    def __init__(self, workspace: Workspace, changed: Callable[[], None]) -> None:
        self._workspace = workspace
        self._changed = changed
        self.rows: tuple[ToolkitEnvironment, ...] | None = None
        self.error: tuple[str, str, str] | None = None

    def ask(self) -> None:
        """Ask again."""
        params = ToolkitsParams(sizes=True)
        self._workspace.ask(VENDOR_KNOWN, params, self._took, failed=self._failed)

    def _took(self, answer: Toolkits) -> None:
        self.rows, self.error = answer.environments, None
        self._changed()

    def _failed(self, error: Exception) -> None:
        parts = (getattr(error, name, "") for name in ("what", "cause", "remedy"))
        what, cause, remedy = (sanitize(str(part), 2000) for part in parts)
        self.error = (what or sanitize(str(error), 2000), cause, remedy)
        self._changed()

    def use(self, row: ToolkitEnvironment) -> None:
        """Have an environment used for its generation where none is named."""
        self._workspace.ask(VENDOR_DEFAULT, ToolkitName(row.name), lambda _: self.ask())

    def for_generation(self, generation: int, name: str | None) -> ToolkitEnvironment | None:
        """What compiles for chips of a generation: the named one, else its default."""
        rows = [row for row in self.rows or () if row.generation == generation]
        if name is not None:
            return next((row for row in rows if row.name == name), None)
        return next((row for row in rows if row.default), rows[0] if rows else None)

    def text_for(self, generation: int, name: str | None) -> str:
        """The same with its sign, for a table: ``✓ 2.3.2``."""
        if self.rows is None:
            return "…"
        row = self.for_generation(generation, name)
        if row is None:
            return "! none"
        return f"{toolkit_sign(row.state)[0]} {row.version or row.name}"


class ToolkitsPane(WithJob):
    """A row for each environment; while one is made, how far that is."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        self.table = RecordTable(ENVIRONMENTS, id="toolkits", what="toolkits")
        super().__init__(RecordView("Toolkits of the vendor", self.table), id=id)
        self._rows: tuple[ToolkitEnvironment, ...] = ()

    def take(self, rows: tuple[ToolkitEnvironment, ...]) -> None:
        """Show environments."""
        self._rows = rows
        self.table.set_records([ENVIRONMENTS.record(row) for row in rows], keep="name")

    @property
    def environment(self) -> ToolkitEnvironment | None:
        """The one under the cursor."""
        record = self.table.record
        return next((row for row in self._rows if record and row.name == record["name"]), None)


INSTALL_FORM = Form("Install rknn-toolkit2", (ToolkitInstallParams,))


def ask_install(workspace: Workspace) -> None:
    """Ask where the packages are from, and start the job; the small torch is proposed."""

    def install(params: ToolkitInstallParams) -> None:
        workspace.start_job(VENDOR_INSTALL, params, "install rknn-toolkit2")

    now = ToolkitInstallParams(index=CPU_INDEX)
    INSTALL_FORM.ask(workspace.app, now, then=install, check=checked_source)


def checked_source(params: ToolkitInstallParams) -> ToolkitInstallParams:
    """The same; beside a folder of wheels nothing is taken from a network."""
    return params if params.wheels is None else replace(params, index=None)


def ask_adopt(workspace: Workspace) -> None:
    """Ask for an interpreter, or the folder of an environment, and take it into the list."""

    def picked(path: str) -> None:
        params = ToolkitAdoptParams(path)
        workspace.start_job(VENDOR_ADOPT, params, f"adopt {sanitize(path, 80)}")

    title = "Python of an environment with a toolkit, or its folder (Ctrl+S)"
    ask_user(workspace.app, PathPicker(title, folders=True), picked)


def check(workspace: Workspace, row: ToolkitEnvironment) -> None:
    """Import the toolkit there, and tell what is wrong."""
    workspace.start_job(VENDOR_CHECK, ToolkitName(row.name), f"check {sanitize(row.name, 60)}")


def ask_remove(workspace: Workspace, row: ToolkitEnvironment) -> None:
    """Ask, then remove an environment: its files only where this program made it."""
    name = sanitize(row.name, 60)
    if row.managed:
        size = f", {human_bytes(row.size)}" if row.size else ""
        question = f"Delete the files of {name} in {sanitize(row.folder, 200)}{size}?"
    else:
        question = f"Take {name} out of the list? Its files stay: {sanitize(row.folder, 200)}."

    def answered(yes: bool) -> None:
        if yes:
            workspace.start_job(VENDOR_REMOVE, ToolkitName(row.name), f"remove {name}")

    answers = [("y", "remove", True), ("n", "keep (also Esc)", False)]
    ask_user(workspace.app, ConfirmDialog("Remove a toolkit", question, answers), answered)


_NO_TOOLKIT = (
    "No toolkit of the vendor is set up, so nothing can be compiled for an NPU yet.\n\n"
    "{deploy.install} installs rknn-toolkit2 in an environment of its own (1.6 GB or more), "
    "{deploy.adopt} in Toolkits uses one that is there already."
)
_EMPTY = {
    "Layers": (
        "No layers yet.\n\nCompile: {deploy.start} there compiles; then the compiler's own table "
        "is here, with our estimate beside each figure. For some chips it prints none."
    ),
    "Agreement": (
        "No second opinion yet.\n\nEach compilation runs the vendor's simulator on one sample; "
        "its outputs are compared with ours here. {deploy.settings} in Compile sets on how many "
        "samples, or on which pictures of yours."
    ),
    "Toolkits": _NO_TOOLKIT,
}


@dataclass(frozen=True)
class Shown:
    """What the views show.

    Attributes:
        targets: the chips, and what came of them.
        toolkits: the environments.
        working, job: the job of Toolkits, and the newest of all.
    """

    targets: Targets
    toolkits: KnownToolkits
    working: JobView | None = None
    job: JobView | None = None


class DeployViews(Views):
    """One of seven views."""

    VIEWS = {
        "Export": (ExportPane, "export-pane"),
        "Compile": (CompilePane, "compile-pane"),
        "Layers": (LayersPane, "compiled-layers-pane"),
        "Agreement": (AgreementPane, "agreement-pane"),
        "Toolkits": (ToolkitsPane, "toolkits-pane"),
        "Code": (CodePane, "code-pane"),
        "Log": (JobPane, "deploy-log"),
    }

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._shown: Shown | None = None

    exports = getters.query_one(ExportPane)
    """The forms of a build."""

    compiled = getters.query_one(CompilePane)
    """The chips."""

    layer_rows = getters.query_one(LayersPane)
    """The layers of a chip."""

    agreement = getters.query_one(AgreementPane)
    """The second opinion."""

    toolkits = getters.query_one(ToolkitsPane)
    """The environments."""

    code = getters.query_one(CodePane)
    """The project."""

    job_log = getters.query_one("#deploy-log", JobPane)
    """Stages and log of the newest job."""

    def draw(self, shown: Shown) -> None:
        """Show what is known for the view."""
        self._shown = shown
        if self.view in _EMPTY and self.table is not None:
            self.table.set_empty(with_keys(_EMPTY[self.view]))
        match self.view:
            case "Compile":
                self.compiled.take(shown.targets, shown.toolkits)
                self.compiled.show_job(shown.targets.job)
            case "Layers":
                self.layer_rows.take(shown.targets.result)
            case "Agreement":
                self.agreement.take(list(shown.targets.found.values()))
            case "Toolkits":
                self.toolkits.take(shown.toolkits.rows or ())
                self.toolkits.show_job(shown.working)
            case "Log":
                self.job_log.set_job(shown.job)
        self.tell()

    def notes(self, width: int) -> list[Line]:
        shown = self._shown
        if shown is None:
            return []
        match self.view:
            case "Export":
                return wrapped(self.exports.form.about, width, "dim")
            case "Compile":
                return self._compile_notes(shown, width)
            case "Layers":
                compiled = shown.targets.result
                lines = words.layer_lines(self.layer_rows.layer_table.figures, compiled, width)
                return [*_outdated(shown, width), *lines]
            case "Agreement":
                lines = words.agreement_lines(self.agreement.table.record, width)
                return [*_outdated(shown, width), *lines]
            case "Toolkits":
                if shown.working is not None and shown.working.running:
                    return []
                if shown.toolkits.error is not None:
                    return words.error_lines(shown.toolkits.error, width)
                failed = _failed(shown.working, width)
                return [*failed, *words.toolkit_lines(self.toolkits.environment, width)]
            case "Code":
                lines = wrapped(self.code.about, width, "dim") if self.code.about else []
                return [*words.generated_lines(self.code.result, width), *lines]
            case _:
                return []

    def _compile_notes(self, shown: Shown, width: int) -> list[Line]:
        job = shown.targets.job
        if job is not None and job.running:
            return []
        if shown.toolkits.error is not None:
            return words.error_lines(shown.toolkits.error, width)
        lines = _failed(job, width)
        if shown.toolkits.rows == ():
            rows = with_keys(_NO_TOOLKIT).replace("\n\n", " ")
            lines += wrapped(f"! {rows}", width, "warn")
        chip = self.compiled.chip
        compiled = shown.targets.found.get(chip)
        if compiled is None and chip and not lines:
            return self._not_compiled(shown, chip, width)
        return [*lines, *_outdated(shown, width), *words.compiled_lines(compiled, width)]

    def _not_compiled(self, shown: Shown, chip: str, width: int) -> list[Line]:
        """What a chip lacks, or the keys that compile for it."""
        generation, named = shown.targets.generations[chip], shown.targets.settings.toolkit
        known, toolkits = shown.toolkits.rows is not None, shown.toolkits
        if known and toolkits.for_generation(generation, named) is None:
            which = f"toolkit {sanitize(named, 60)}" if named else "toolkit"
            sets = "installs or " if generation > 1 else ""
            text = (
                f"! {chip} is of generation {generation}, and no {which} of that is set up: "
                f"Toolkits {sets}adopts one ({{deploy.adopt}} there)."
            )
            return wrapped(with_keys(text), width, "warn")
        text = "{deploy.start} compiles for it alone"
        if shown.targets.marked:
            text = "{deploy.start} compiles for the marked chips"
        if chip not in shown.targets.marked:
            text += ", {deploy.mark} marks this one too"
        return wrapped(with_keys(f"{chip}: not compiled yet; {text}."), width, "dim")

    @on(Rows.Highlighted)
    def _moved(self) -> None:
        self.tell()
        self.post_message(self.Changed(view=False))


def _failed(job: JobView | None, width: int) -> list[Line]:
    """Why the last job made nothing."""
    if job is None or job.running or job.error is None or job.state == "cancelled":
        return []
    return words.error_lines(words.job_error(job.error), width)


def _outdated(shown: Shown, width: int) -> list[Line]:
    text = "! The recipe changed since this was compiled."
    return wrapped(text, width, "warn") if shown.targets.outdated else []
