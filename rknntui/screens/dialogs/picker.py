"""Choosing a file or folder by typing or by arrows, one to read or one to write."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from textual.binding import Binding

from engine import sanitize
from rknntui.screens.dialogs.dialogs import ConfirmDialog, ask_user
from rknntui.screens.dialogs.lists import ListDialog
from rknntui.widgets.entries import PathInput, expanded
from rknntui.widgets.strips import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import App, ComposeResult

    from rknntui.widgets.strips import Line

ENTRIES = 2000
"""Entries of a folder that are listed; typing narrows them down."""
HERE = "."
"""The row for the folder itself, where folders can be taken."""
RECIPES = (".yaml", ".yml")
MODELS = (
    *(".onnx", ".tflite", ".pb", ".pt", ".pth", ".pt2", ".torchscript", ".caffemodel", ".cfg"),
    *(".prototxt", ".weights", ".params", "-symbol.json", ".rknn", ".enc"),
)
"""Suffixes that models have as a rule; what a file is its first bytes say."""


class PathPicker(ListDialog):
    """A path line over the entries of its folder; dismissed with the path as text, None for Esc.

    Args:
        title: what is chosen.
        start: path to begin with; empty for the current folder.
        folders: whether a folder may be chosen: by the first row, or Ctrl+S for what is typed.
        new: whether a path that does not exist yet may be given.
        suffixes: of the files that can be taken; others are dim, and taken only if typed in full.
    """

    BINDINGS = [
        Binding("tab", "complete", "Complete", show=False, priority=True),
        Binding("ctrl+s", "take", "Take", show=False, priority=True),
    ]
    KEYS_TEXT = "↑↓ choose · Tab complete · Enter open · Esc cancel"

    def __init__(
        self,
        title: str,
        start: str = "",
        *,
        folders: bool = False,
        new: bool = False,
        suffixes: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.TITLE_TEXT = title
        self._folders = folders
        self._new = new
        self._suffixes = tuple(suffixes)
        if folders or new:
            enter = "accept" if new else "open"
            self.KEYS_TEXT = f"Tab complete · Enter {enter} · Ctrl+S use this path · Esc cancel"
        self._start = start or str(Path.cwd()) + os.sep
        self._entries: list[tuple[str, bool]] = []
        self._moved = True  # Enter takes the row under the cursor, not what is typed

    def compose(self) -> ComposeResult:
        whole = not self._start.endswith(os.sep)  # a proposal: typing replaces it
        yield from self.over_list(PathInput(self._start, select_on_focus=whole))

    def on_mount(self) -> None:
        self.rows.styles.height = max(4, min(14, self.app.size.height - 6))
        self.narrow()
        self._moved = True

    def fill(self, text: str) -> None:
        self._moved = False
        folder, prefix = _split(text)
        self._entries = sorted(
            _entries(folder, prefix), key=lambda entry: bool(self._refused(*entry))
        )
        if self._folders and not self._new and not prefix and folder.is_dir():
            self._entries.insert(0, (HERE, True))
        said = "new file" if self._new else "no matches"
        self.rows.set_lines([self._row(*entry) for entry in self._entries] or [[(said, "dim")]])
        self.say("")

    def _row(self, name: str, is_folder: bool) -> Line:
        if name == HERE:
            return [("this folder", "good")]
        why = self._refused(name, is_folder)
        shown = shorten(sanitize(name, 300) + os.sep * is_folder, self.text_width - len(why) - 2)
        style = "accent" if is_folder else "dim" if why else ""
        return [(shown, style), (f"  {why}" if why else "", "dim")]

    def _refused(self, name: str, is_folder: bool) -> str:
        """Why a file of the list is not taken; empty where it is."""
        known = is_folder or not self._suffixes or name.lower().endswith(self._suffixes)
        return "" if known else f"not {self._kinds}"

    @property
    def _kinds(self) -> str:
        few = self._suffixes[:3]
        return " or ".join(few) if len(few) == len(self._suffixes) else "of a known kind"

    def action_step(self, by: int) -> None:
        super().action_step(by)
        self._moved = True

    def action_complete(self) -> None:
        """Put the entry under the cursor into the line."""
        at = self.rows.cursor
        if at < len(self._entries) and self._entries[at][0] != HERE:
            folder, _ = _split(self.line.value)
            name, is_folder = self._entries[at]
            self._put(str(folder / name) + (os.sep if is_folder else ""))

    def _put(self, text: str) -> None:
        self.line.value = text
        self.line.cursor_position = len(text)
        self.narrow()
        self._moved = True

    def action_take(self) -> None:
        """Accept the line as it stands."""
        self._accept(force=True)

    def submit(self) -> None:
        path = expanded(self.line.value)
        if path.is_file() or (self._new and not path.is_dir()) or not self._entries:
            self._accept()
        elif path.is_dir() and not self._moved:
            self._put(str(path).rstrip(os.sep) + os.sep)
        else:
            self.choose()

    def choose(self) -> None:
        """Open the folder or take the file under the cursor."""
        if self.rows.cursor >= len(self._entries):
            return
        name, is_folder = self._entries[self.rows.cursor]
        if name == HERE:
            self.action_take()
        elif why := self._refused(name, is_folder):
            self.say(f"{name} is {why} by its name. Type its whole path to take it anyway.")
        else:
            self.action_complete()
            self._accept()

    def _accept(self, *, force: bool = False) -> None:
        text = self.line.value
        path = expanded(text)
        if (
            path.is_file()
            or (self._new and text and not path.is_dir())
            or (path.is_dir() and self._folders and force)
        ):
            self.dismiss(str(path.absolute()))
        else:
            self.say(self._why_not(path))

    def _why_not(self, path: Path) -> str:
        """Why a path cannot be used; empty for a folder that is listed now."""
        name = sanitize(str(path), 200)
        if not str(path.name):
            return "Type the path of a file, or choose one below."
        if path.is_dir():
            return "" if self._entries or self._folders else f"There is no file in {name}."
        if path.exists():
            return f"{name} is not a file."
        if not path.parent.is_dir():
            return f"There is no folder {sanitize(str(path.parent), 200)}."
        return f"There is no file {name}."


def _split(text: str) -> tuple[Path, str]:
    """The folder to list and the start of the names in it."""
    head, _, prefix = text.rpartition(os.sep)
    folder = expanded(head + os.sep if head or text.startswith(os.sep) else ".")
    return folder, prefix


def _entries(folder: Path, prefix: str) -> list[tuple[str, bool]]:
    """Names in a folder with the prefix (hidden ones only when asked for), folders first."""
    start = prefix.lower()
    try:
        with os.scandir(folder) as entries:
            fits = (
                (entry.name, os.path.isdir(entry.path))  # noqa: PTH112 - False for what is closed to us
                for entry in entries
                if entry.name.lower().startswith(start)
                and (prefix.startswith(".") or not entry.name.startswith("."))
            )
            names = list(islice(fits, ENTRIES))
    except OSError:
        return []
    return sorted(names, key=lambda item: (not item[1], item[0].lower()))


# Asking for a path to write to.


def ask_new_file(
    app: App[None],
    title: str,
    start: Path,
    then: Callable[[str, bool], None],
    *,
    folder: bool = False,
) -> None:
    """Ask for a path to write to, and before anything there is replaced.

    Args:
        app: shows the dialogs.
        title: of the picker.
        start: what it proposes.
        then: called with the path and whether replacing was allowed.
        folder: whether a folder is meant; it counts as taken when it has something in it.
    """

    def chosen(path: str) -> None:
        ask_overwrite(app, [path], lambda force: then(path, force))

    ask_user(app, PathPicker(title, str(start), folders=folder, new=True), chosen)


def ask_overwrite(
    app: App[None], paths: Iterable[str | None], then: Callable[[bool], None]
) -> None:
    """Ask before files are replaced; ``then`` is told whether any are, and not called where not."""
    taken = [path for path in paths if path and is_taken(Path(path))]
    if not taken:
        then(False)
        return
    more = f" and {len(taken) - 1} more exist" if len(taken) > 1 else " exists"
    answers = [("y", "replace", True), ("n", "keep", False)]
    dialog = ConfirmDialog("Overwrite", f"{taken[0]}{more}. Replace what is there?", answers)
    app.push_screen(dialog, lambda yes: then(True) if yes else None)


def is_taken(path: Path) -> bool:
    """Whether something is there; of a folder, whether it has something in it."""
    try:
        return any(path.iterdir()) if path.is_dir() else os.path.lexists(path)
    except OSError:
        return True


def start_folder(beside: object) -> str:
    """Where a picker starts that is to be at or beside a file or folder; empty without one."""
    if not isinstance(beside, str) or not beside:
        return ""
    return str(beside if Path(beside).is_dir() else Path(beside).parent) + "/"
