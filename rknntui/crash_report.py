"""Errors as dialogs: known ones as they are; errors of this program are logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.screen import ModalScreen


def error_screen(error: Exception) -> ModalScreen:
    """The dialog of an error."""
    from engine import EngineError
    from rknntui.screens.dialogs.dialogs import ErrorDialog

    if isinstance(error, EngineError):
        return ErrorDialog(error)
    shown = EngineError(
        f"Internal error in the workbench: {type(error).__name__}: {error}.",
        cause=f"This is a bug in rknntui; please report it. {crash_line(error)}",
        remedy="The workbench continues; the last action may have failed.",
    )
    return ErrorDialog(shown)


def crash_line(error: BaseException) -> str:
    """Log a mistake of this program; one line that says where."""
    from engine import log_crash

    try:
        return f"Details: {log_crash(error)}"
    except OSError as failure:
        return f"Its details could not be written: {failure}."
