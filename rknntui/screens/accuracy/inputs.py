"""Asking for samples in the place of the first calibration sample."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App


def start_folder(beside: object) -> str:
    """Where a picker starts that is to be at or beside a file or folder; empty without one."""
    if not isinstance(beside, str) or not beside:
        return ""
    return str(beside if Path(beside).is_dir() else Path(beside).parent) + "/"


def ask_inputs(
    app: App[None], count: int, start: str, then: Callable[[list[str] | None], None]
) -> None:
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
