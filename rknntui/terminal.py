"""The terminal is given back whatever happens: signals, a crash, a closed window.

Textual 8.2.8 dies of SIGTERM, SIGHUP and SIGQUIT with the alternate screen, mouse reports and the
kitty keyboard mode left on, and spins at full load when its terminal goes away while SIGHUP is
ignored. The guard turns the signals into an orderly end and notices a closed terminal by ``poll``,
which costs nothing while idle.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknntui.keys.actions import key_text

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from textual.app import App

GRACE_SECONDS = 0.6
"""An orderly end gets so long before the guard ends the process itself."""

RESTORE = (
    "\x1b[?2026l"  # synchronized output
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?2004l\x1b[?1004l\x1b[?2048l"  # bracketed paste, focus reports, resize reports
    "\x1b[<u"  # kitty keyboard
    "\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"  # line wrap, alternate screen, cursor, colours
)


class Guard:
    """Watches signals and the terminal while the interface runs.

    Args:
        leave: ends the interface in an orderly way with an exit code; called in its loop.
        last_words: saves what must not be lost; called before the process is ended the hard way.
        also: tells what else gives the terminal back, such as its title.

    Make it before the interface runs: it keeps the terminal's modes to give them back.
    """

    def __init__(
        self,
        leave: Callable[[int], None],
        last_words: Callable[[], None],
        also: Callable[[], str] = str,
    ) -> None:
        self._also = also
        self._leave = leave
        self._last_words = last_words
        self._fd = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0
        self._modes: list[Any] | None = None
        with contextlib.suppress(termios.error, OSError):
            self._modes = termios.tcgetattr(self._fd)
        self._leaving = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start watching; call in the main thread once the loop runs."""
        self._loop = loop
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup keeps its meaning
                signal.signal(number, self._on_signal)
        if os.isatty(self._fd):
            threading.Thread(target=self._wait_for_hangup, name="hangup", daemon=True).start()

    def _on_signal(self, number: int, frame: object) -> None:
        if self._leaving:
            return
        self._leaving = True
        threading.Thread(target=self._end_hard, args=(128 + number,), daemon=True).start()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._leave, 128 + number)

    def _wait_for_hangup(self) -> None:
        poll = select.poll()
        poll.register(self._fd, 0)  # POLLHUP and POLLERR are always reported
        while True:
            events = poll.poll()
            if any(
                mask & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, mask in events
            ):
                break
        # Nothing can be written any more; Textual's own end would wait for its writer for ever.
        self._last_words()
        os._exit(128 + signal.SIGHUP)

    def _end_hard(self, code: int) -> None:
        threading.Event().wait(GRACE_SECONDS)
        self._last_words()
        self.restore()
        os._exit(code)

    def restore(self) -> None:
        """Give the terminal back without Textual."""
        with contextlib.suppress(OSError, ValueError):
            text = f"{self._also()}{RESTORE}"
            os.write(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1, text.encode())
        if self._modes is not None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(self._fd, termios.TCSANOW, self._modes)


def shell_waits() -> bool:
    """Whether a shell started this program's process group and could bring it back (``fg``).

    Without one, as in ``ssh HOST rknntui``, a stopped program would stay stopped.
    """
    group, session, pid = os.getpgrp(), os.getsid(0), os.getppid()
    try:
        while pid > 0 and os.getsid(pid) == session:
            if os.getpgid(pid) != group:
                return True
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return False
    return False


def stop_until_fg(app: App[None]) -> None:
    """Stop like every program of a shell, until its ``fg``; where no shell waits, say so."""
    if app.is_headless or not shell_waits():
        quit_key = key_text("app.quit")
        said = f"No shell is waiting to resume the workbench; {quit_key} quits."
        app.notify(said, severity="warning")
        return
    with app.suspend():  # gives the terminal back before the shell takes it
        # Textual's handler, where it runs as late as after this block, takes the terminal twice:
        # then the end would not give it back
        resumed = signal.signal(signal.SIGCONT, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)  # as a terminal does: a script that started us stops too
        signal.signal(signal.SIGCONT, resumed)
