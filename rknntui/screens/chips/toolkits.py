"""The view Toolkits: environments of the vendor's toolkits, made, adopted, checked, removed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
    ToolkitInstallParams,
    ToolkitName,
    ToolkitsParams,
)
from rknntui.keys.actions import key_text
from rknntui.screens.chips.compiling import error_lines, failed_lines
from rknntui.screens.dialogs.dialogs import ConfirmDialog, ask_user, error_parts
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.screens.dialogs.request import Form
from rknntui.session.target import toolkit_for
from rknntui.widgets.job_pane import WithJob
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.wrap import finding_lines, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.wire.vendor import ToolkitEnvironment, Toolkits
    from rknntui.screens.base.workspace import Workspace
    from rknntui.screens.chips.workspace import Chips
    from rknntui.widgets.strips import Line

TOOLKIT_JOBS = tuple(
    method.name for method in (VENDOR_INSTALL, VENDOR_CHECK, VENDOR_ADOPT, VENDOR_REMOVE)
)


class KnownToolkits:
    """The environments that the session knows, asked for anew.

    Args:
        workspace: asks and shows.
        changed: called when there is another answer.

    Attributes:
        error: why there is no answer, by ``what``, ``cause``, ``remedy``.
    """

    def __init__(self, workspace: Workspace, changed: Callable[[], None]) -> None:
        self._workspace = workspace
        self._changed = changed
        self.error: dict[str, str] | None = None

    @property
    def rows(self) -> tuple[ToolkitEnvironment, ...] | None:
        """The environments; None before an answer."""
        return self._workspace.session.toolkits

    def ask(self) -> None:
        """Ask again; how large they are, which takes seconds, for the view that shows it."""
        params = ToolkitsParams(sizes=self._workspace.view == "Toolkits")
        self._workspace.ask(VENDOR_KNOWN, params, self._took, failed=self._failed)

    def _took(self, answer: Toolkits) -> None:
        self.error = None
        self._changed()

    def _failed(self, error: Exception) -> None:
        self.error = error_parts(error)
        self._changed()

    def use(self, row: ToolkitEnvironment) -> None:
        """Have an environment used for its generation where none is named."""
        self._workspace.ask(VENDOR_DEFAULT, ToolkitName(row.name), lambda _: self.ask())

    def for_generation(self, generation: int, name: str | None) -> ToolkitEnvironment | None:
        """What compiles for chips of a generation: the named one, else its default."""
        return toolkit_for(self._workspace.session, generation, name)

    def text_for(self, generation: int, name: str | None) -> str:
        """The same with its sign, for a table: ``✓ 2.3.2``."""
        if self.rows is None:
            return "…"
        row = self.for_generation(generation, name)
        return f"{toolkit_sign(row.state)[0]} {row.version or row.name}" if row else "! none"


class ToolkitsPane(WithJob):
    """A row for each environment; while one is made, how far that is."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        self.table = RecordTable["ToolkitEnvironment"](ENVIRONMENTS, id="toolkits", what="toolkits")
        super().__init__(RecordView("Toolkits of the vendor", self.table), id=id)

    def take(self, chips: Chips) -> None:
        """Show the environments, and the job that makes one."""
        self.table.set_records(chips.toolkits.rows or (), keep="name")
        self.show_job(chips.session.jobs.newest(*TOOLKIT_JOBS))

    def notes(self, chips: Chips, width: int) -> list[Line]:
        """Why a job failed, and what is known of the environment under the cursor."""
        if chips.toolkits.error is not None:
            return error_lines(chips.toolkits.error, width)
        failed = failed_lines(chips.session.jobs.newest(*TOOLKIT_JOBS), width)
        return [*failed, *toolkit_lines(self.environment, width)]

    @property
    def environment(self) -> ToolkitEnvironment | None:
        """The one under the cursor."""
        return self.table.record


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


NO_TOOLKIT = (
    "No toolkit of the vendor is set up, so nothing can be compiled for an NPU yet.\n\n"
    "In Toolkits {chips.install} installs rknn-toolkit2 in an environment of its own (1.6 GB or "
    "more), {chips.adopt} uses one that is there already."
)


def toolkit_lines(row: ToolkitEnvironment | None, width: int) -> list[Line]:
    """State, interpreter and findings of an environment."""
    if row is None:
        return []
    sign, style = toolkit_sign(row.state)
    about = {
        "ready": "its toolkit was imported",
        "unchecked": f"not imported yet; {key_text('chips.run')} checks it",
        "unfinished": f"its making was interrupted; {key_text('chips.install')} makes it anew",
        "broken": "a package is missing or does not fit",
        "missing": f"its folder is gone; {key_text('chips.remove')} takes it out of the list",
    }[row.state]
    lines: list[Line] = wrapped(f"{sign} {sanitize(row.name, 60)}: {about}", width, style)
    lines += wrapped(f"Python: {sanitize(row.python, 400)}", width, "dim")
    return lines + finding_lines(row.findings, width, "chips.apply-remedy")
