"""A terminal of our own: runs the workbench on a real pty and looks at what it leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

import pyte

from tests.safety import PATIENCE

__all__ = ["Terminal"]

MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
KITTY = re.compile(rb"\x1b\[([<>])[0-9;]*u")
UNKNOWN = re.compile(
    rb"\x1b\[[<>=][0-9;:]*[ -/]*[@-~]|\x1b\[\?[0-9;]*\$p|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
)
KEPT = {"1049", "1000", "1002", "1003", "1006", "1015", "2004", "1004", "2048"}
"""Modes that must be off at the end; the cursor (25) and line wrap (7) must be on."""


class Terminal:
    """One run of a program on a pty of 80x24."""

    def __init__(self, *arguments: str, ignore_hangup: bool = False, code: str = "") -> None:
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.raw = bytearray()
        slave = self.slave

        def child() -> None:
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            if ignore_hangup:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        root = str(Path(__file__).resolve().parents[2])
        command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "rknntui"]
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": root},
            preexec_fn=child,  # noqa: PLW1509 - the tests have no threads of their own
        )

    def pump(self, seconds: float) -> None:
        """Read what comes for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.master], [], [], left)
            if ready:
                try:
                    data = os.read(self.master, 1 << 16)
                except OSError:
                    return
                if not data:
                    return
                self.raw += data

    @property
    def text(self) -> str:
        """The screen."""
        screen = pyte.Screen(80, 24)
        data = UNKNOWN.sub(b"", bytes(self.raw)).decode("utf-8", "replace")
        pyte.Stream(screen).feed(data)
        return "\n".join(screen.display)

    def wait_for(self, text: str, seconds: float = PATIENCE) -> None:
        """Read until a text is on the screen."""
        end = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < end, f"never on the screen: {text}\n{self.text}"
            over = self.process.poll() is not None
            self.pump(0.1)  # what it wrote last is there after its end
            assert not over or text in self.text, self.text

    def type(self, keys: str) -> None:
        """Send keys."""
        os.write(self.master, keys.encode())

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for the end; returns the exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.pump(0.02)
        self.pump(0.1)
        code = self.process.poll()
        assert code is not None, "it did not end"
        return code

    def not_restored(self) -> list[str]:
        """What the program left switched on."""
        modes: dict[str, bool] = {}
        for match in MODE.finditer(self.raw):
            for number in match[1].decode().split(";"):
                modes[number] = match[2] == b"h"
        left = sorted(number for number in KEPT if modes.get(number))
        left += [f"{number} off" for number in ("25", "7") if modes.get(number) is False]
        kitty = sum(1 if match[1] == b">" else -1 for match in KITTY.finditer(self.raw))
        if kitty > 0:
            left.append("kitty keyboard")
        if termios.tcgetattr(self.slave)[:4] != self.before[:4]:
            left.append("termios")
        return left

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = -1

    def __enter__(self) -> Self:
        """Wait until the workbench is shown."""
        try:
            self.wait_for("Palette")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the program where it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for handle in (self.master, self.slave):
            if handle >= 0:
                with contextlib.suppress(OSError):
                    os.close(handle)
