"""What leaves the workbench as text: the clipboard, and files that the user asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

CLIPBOARD_LIMIT = 74_000
"""Bytes that terminals and tmux still take in one OSC 52 sequence (100,000 of base64)."""


class Output:
    """Copies and writes texts.

    Args:
        app: tells what was done, and asks before a file is replaced.
        show_error: tells why it was not.
    """

    def __init__(self, app: App[None], show_error: Callable[[Exception], None]) -> None:
        self._app = app
        self._show_error = show_error

    def copy(self, text: str) -> None:
        """Copy a text by the terminal (OSC 52), or into a file when it is too long for that."""
        if not text:
            self._app.notify("There is nothing to copy here.", severity="warning")
            return
        if len(text.encode()) > CLIPBOARD_LIMIT:
            self._keep(text)
            return
        self._app.copy_to_clipboard(text)
        lines = text.count("\n") + 1
        self._app.notify(
            f"Copied {lines} lines." if lines > 1 else f"Copied: {text[:60]}", markup=False
        )

    def _keep(self, text: str) -> None:
        """Write what is too long for the clipboard."""
        from engine import EngineError, atomic_write, output_errors, private_folder, state_folder

        path = state_folder() / "clipboard.txt"
        try:
            with output_errors(path):
                private_folder(path.parent)
            atomic_write(path, text.encode(), overwrite=True, private=True)
        except EngineError as error:
            self._show_error(error)
        else:
            said = f"Too long for the terminal's clipboard: written to {path}."
            self._app.notify(said, markup=False)

    def save(self, title: str, name: str, text: str) -> None:
        """Ask for a file, proposing a name, and write a text into it."""
        from rknntui.screens.dialogs.dialogs import ask_user
        from rknntui.screens.dialogs.picker import PathPicker

        picker = PathPicker(title, name, new=True)
        ask_user(self._app, picker, lambda path: self.write_file(path, text))

    def write_file(self, path: str, text: str, note: str = "") -> None:
        """Write what the user asked for, an existing file only after a yes, and say so."""
        from pathlib import Path

        from engine import EngineError, atomic_write
        from rknntui.screens.dialogs.picker import ask_overwrite

        def write(overwrite: bool) -> None:
            try:
                atomic_write(Path(path), text.encode(), overwrite=overwrite)
            except EngineError as error:
                self._show_error(error)
            else:
                self._app.notify(f"Written: {path}{note}", markup=False)

        ask_overwrite(self._app, [path], write)
