"""Asking for a path to write to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

__all__ = ["ask_new_file"]


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
    from rknntui.screens.dialogs.dialogs import ConfirmDialog
    from rknntui.screens.dialogs.picker import PathPicker

    def chosen(path: str | None) -> None:
        if path is None:
            return
        if not _taken(Path(path)):
            then(path, False)
            return
        question = f"{path} exists. Replace what is there?"
        answers = [("y", "replace", True), ("n", "keep", False)]
        app.push_screen(
            ConfirmDialog("Overwrite", question, answers),
            lambda yes: then(path, True) if yes else None,
        )

    picker = PathPicker(title, str(start), folders=folder, new=True)
    app.push_screen(picker, chosen)


def _taken(path: Path) -> bool:
    try:
        return any(path.iterdir()) if path.is_dir() else path.exists()
    except OSError:
        return True
