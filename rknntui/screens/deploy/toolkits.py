"""The view Toolkits: environments of the vendor's toolkits, made, adopted, checked, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import human_bytes, sanitize
from engine.wire.build_tables import ENVIRONMENTS, toolkit_sign
from engine.wire.vendor import (
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
from rknntui.screens.deploy.jobs import WithJob
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rknntui.screens.base.workspace import Workspace

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


_SMALL, _NETWORK, _WHEELS = "PyPI and PyTorch's index", "PyPI alone", "folder of wheels"
_SOURCES = {
    _SMALL: "with the CPU build of torch, from download.pytorch.org: 1.6 GB on disk",
    _NETWORK: "on x86-64 with the CUDA build of torch: 5.6 GB on disk",
    _WHEELS: "a folder of wheels on this machine; nothing is taken from a network",
}
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Has the CPU builds of torch."""


def ask_install(workspace: Workspace) -> None:
    """Ask where the packages are from, and start the job."""
    from rknntui.screens.dialogs.dialogs import ChoiceDialog
    from rknntui.screens.dialogs.picker import PathPicker

    def install(wheels: str | None = None, index: str | None = None) -> None:
        params = ToolkitInstallParams(wheels=wheels, index=index)
        workspace.start_job(VENDOR_INSTALL, params, "install rknn-toolkit2")

    def picked(path: str | None) -> None:
        if path is not None:
            install(path)

    def chosen(source: str | None) -> None:
        if source == _SMALL:
            install(index=CPU_INDEX)
        elif source == _NETWORK:
            install()
        elif source == _WHEELS:
            picker = PathPicker("Folder of wheels (Ctrl+S takes it)", folders=True)
            workspace.app.push_screen(picker, picked)

    dialog = ChoiceDialog("Install rknn-toolkit2 from", list(_SOURCES), "", _SOURCES)
    workspace.app.push_screen(dialog, chosen)


def ask_adopt(workspace: Workspace) -> None:
    """Ask for an interpreter, or the folder of an environment, and take it into the list."""
    from rknntui.screens.dialogs.picker import PathPicker

    def picked(path: str | None) -> None:
        if path is not None:
            params = ToolkitAdoptParams(path)
            workspace.start_job(VENDOR_ADOPT, params, f"adopt {sanitize(path, 80)}")

    title = "Python of an environment with a toolkit, or its folder (Ctrl+S)"
    workspace.app.push_screen(PathPicker(title, folders=True), picked)


def check(workspace: Workspace, row: ToolkitEnvironment) -> None:
    """Import the toolkit there, and tell what is wrong."""
    workspace.start_job(VENDOR_CHECK, ToolkitName(row.name), f"check {sanitize(row.name, 60)}")


def ask_remove(workspace: Workspace, row: ToolkitEnvironment) -> None:
    """Ask, then remove an environment: its files only where this program made it."""
    from rknntui.screens.dialogs.dialogs import ConfirmDialog

    name = sanitize(row.name, 60)
    if row.managed:
        size = f", {human_bytes(row.size)}" if row.size else ""
        question = f"Delete the files of {name} in {sanitize(row.folder, 200)}{size}?"
    else:
        question = f"Take {name} out of the list? Its files stay: {sanitize(row.folder, 200)}."

    def answered(yes: bool | None) -> None:
        if yes:
            workspace.start_job(VENDOR_REMOVE, ToolkitName(row.name), f"remove {name}")

    answers = [("y", "remove", True), ("n", "keep (also Esc)", False)]
    workspace.app.push_screen(ConfirmDialog("Remove a toolkit", question, answers), answered)
