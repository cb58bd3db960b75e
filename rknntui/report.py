"""Errors on their way to the screen: known ones as they are, mistakes of this program logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.screen import ModalScreen

__all__ = ["crash_line", "told"]


def told(error: Exception) -> ModalScreen:
    """The dialog of an error."""
    from engine import EngineError
    from rknntui.screens.dialogs.dialogs import ErrorDialog

    if isinstance(error, EngineError):
        return ErrorDialog(error)
    shown = EngineError(
        f"The workbench made a mistake: {type(error).__name__}: {error}.",
        cause=f"A fault in this program. {crash_line(error)}",
        remedy="The workbench goes on; what you were doing may not have worked.",
    )
    return ErrorDialog(shown)


def crash_line(error: BaseException) -> str:
    """Log a mistake of this program; one line that says where."""
    from engine import log_crash

    try:
        return f"Details: {log_crash(error)}"
    except OSError as failure:
        return f"Its details could not be written: {failure}."
