"""What the terminal itself shows of long work: its title, its progress, a notification at the end.

Only what the terminal has is sent, known by its variables: what one takes for progress (OSC 9;4)
another shows as a notification.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

LONG_SECONDS = 10.0
"""A job that took less is told on the screen alone."""
_PROGRAMS = ("ghostty", "WezTerm")
_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_NO_PROGRESS = "\x1b]9;4;0\x07"


class Announcer:
    """Tells the terminal what runs.

    Args:
        send: writes to the terminal.
        environment: of the process, which says what the terminal has.
    """

    def __init__(
        self, send: Callable[[str], object], environment: Mapping[str, str] = os.environ
    ) -> None:
        self._send = send
        program, term = environment.get("TERM_PROGRAM", ""), environment.get("TERM", "")
        nested = any(environment.get(name) for name in ("TMUX", "STY"))
        windows = any(environment.get(name) for name in ("WT_SESSION", "ConEmuPID"))
        modern = program in _PROGRAMS or "ghostty" in term
        self._titled = term not in ("", "dumb", "linux")
        self._progress = not nested and (modern or windows)
        self._notifies = not nested and (modern or program == "iTerm.app" or term == "xterm-kitty")
        self.begin()

    def begin(self) -> None:
        """The terminal is ours, or again: everything is to be sent."""
        self._shown: tuple[str, int | None] | None = None

    @property
    def restore(self) -> str:
        """What gives the terminal back as it was; empty where nothing was sent."""
        if self._shown is None:
            return ""
        return (_POP_TITLE if self._titled else "") + (_NO_PROGRESS if self._progress else "")

    def show(self, session: Session) -> None:
        """Show what is open and what runs, where that is something else than before."""
        from engine import sanitize

        job = session.running
        percent = None if job is None else round(100 * job.fraction)
        path = session.recipe_path or session.path or ""
        words = [sanitize(path.rsplit("/", 1)[-1], 80), "rknntui"]
        if job is not None:
            words.insert(0, f"{percent} % {sanitize(job.method, 40)}")
        shown = " · ".join(word for word in words if word), percent
        if shown == self._shown:
            return
        first, before, self._shown = self._shown is None, self._shown, shown
        text = (_PUSH_TITLE if first else "") + f"\x1b]2;{shown[0]}\x07" if self._titled else ""
        if self._progress and percent != (before or ("", None))[1]:
            text += _NO_PROGRESS if percent is None else f"\x1b]9;4;1;{percent}\x07"
        if text:
            self._send(text)

    def ended(self, job: JobView, *, watched: bool) -> None:
        """A job ended: where nobody watches, and it was a long one, call the user."""
        from engine import sanitize

        if watched or job.quiet or (job.seconds or 0.0) < LONG_SECONDS:
            return
        text = sanitize(f"{job.title}: {job.state}{job.took}", 120)
        self._send(f"\x1b]9;{text}\x07" if self._notifies else "\x07")
