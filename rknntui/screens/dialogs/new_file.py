"""Asking for a path to write to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import App


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
    from rknntui.screens.dialogs.picker import PathPicker

    def chosen(path: str | None) -> None:
        if path is not None:
            taken = [path] if is_taken(Path(path)) else []
            ask_overwrite(app, taken, lambda force: then(path, force))

    picker = PathPicker(title, str(start), folders=folder, new=True)
    app.push_screen(picker, chosen)


def ask_overwrite(app: App[None], taken: Sequence[str], then: Callable[[bool], None]) -> None:
    """Ask before files are replaced; ``then`` is told whether any are, and not called where not."""
    from rknntui.screens.dialogs.dialogs import ConfirmDialog

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
        return any(path.iterdir()) if path.is_dir() else path.exists()
    except OSError:
        return True
