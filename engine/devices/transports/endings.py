"""How a program of a board ended, in words for a user."""

from __future__ import annotations

import signal

from engine.base.process import exit_reason

__all__ = ["STOP_SECONDS", "ending"]

STOP_SECONDS = 0.8
"""How long a program of a board may take after each step of what ends a call. Both steps and what
is left to do on the board are over before the job that asked is ended itself (2 s)."""


def ending(code: int) -> tuple[str, str]:
    """How a program ended and the likely cause, by the exit code of a shell, which is 128 and the
    number of a signal where one ended it.
    """
    if code == 127:
        return "was not found", "The board has no program of that name, or not on its PATH."
    if code == 126:
        return "could not be started", "It is not executable, or is for another processor."
    if code == 0:
        return "ended by itself", "Its input ended, or it was asked to end."
    if code > 128:
        if code - 128 in {int(number) for number in signal.Signals}:
            how, why = exit_reason(128 - code)
        else:  # such as one that SSH has no name for
            how, why = "was killed by a signal", "A library crashed."
        if code - 128 in (signal.SIGKILL, signal.SIGTERM):
            why += " A board that is restarted ends its programs so, too."
        return how, why
    return f"ended with exit code {code}", "It crashed."
