"""The toolkits' processes of one job, and where what they print is kept."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.events import Event, LogLine, Reporter
from engine.base.files import output_errors
from engine.base.paths import private_file, private_folder, state_folder
from engine.toolkit.toolkit import Toolkit

if TYPE_CHECKING:
    from engine.wire.vendor import ToolkitEnvironment

_KEPT = 20
"""Folders of logs; the oldest are removed."""


class Toolkits:
    """Processes of toolkits, started where they are needed; one that ended is started again.

    Args:
        reporter: told what they print.
        folder: where they are run, and their logs lie.

    Attributes:
        told: gives what they print the user's names.
    """

    def __init__(self, reporter: Reporter, folder: Path) -> None:
        self.told: Callable[[str], str] = str
        self._reporter = _Quiet(reporter, self._words)
        self._folder = folder
        self._open: dict[str, Toolkit] = {}

    @property
    def stopped(self) -> bool:
        """Whether one of them was ended while it worked."""
        return any(toolkit.stopped for toolkit in self._open.values())

    def get(self, environment: ToolkitEnvironment) -> Toolkit:
        """One that can be asked.

        Raises:
            ToolkitError: it does not start.
        """
        toolkit = self._open.get(environment.python)
        if toolkit is None or not toolkit.alive:
            if toolkit is not None:
                toolkit.close(kill=True)
            toolkit = Toolkit(environment, self._folder, self._reporter)
            self._open[environment.python] = toolkit
        return toolkit

    def _words(self, text: str) -> str:
        return self.told(text)

    def close(self, *, kill: bool) -> None:
        """End all of them."""
        for one in self._open.values():
            one.close(kill=kill)


class _Quiet:
    """A reporter that is told what a toolkit prints as mere lines.

    It marks harmless things as errors; what matters of them becomes a finding of the result.
    """

    def __init__(self, reporter: Reporter, restore: Callable[[str], str]) -> None:
        self._reporter = reporter
        self._told = restore

    def emit(self, event: Event) -> None:
        """Tell it."""
        if isinstance(event, LogLine):
            level = "info" if event.level in ("warning", "error") else event.level
            event = LogLine(self._told(event.text), level)
        self._reporter.emit(event)

    def check_cancelled(self) -> None:
        """Raise where the user cancelled."""
        self._reporter.check_cancelled()

    def finish_requested(self) -> bool:
        """Whether the best found so far is enough."""
        return self._reporter.finish_requested()


class LogFolder:
    """A folder in the user's state folder for what toolkits print during one compilation.

    Attributes:
        raw: matches the paths of the toolkits' own logs in it.

    Raises:
        OutputError: it cannot be made.
    """

    def __init__(self) -> None:
        place = state_folder() / "compile"
        with output_errors(place):
            private_folder(place)
            _prune(place)
            stamp = time.strftime("%Y%m%d-%H%M%S")
            name = f"{stamp}-{os.getpid()}-{secrets.token_hex(3)}"
            self.folder = private_folder(place / name)
        self.raw = re.compile(re.escape(str(self.folder / "toolkit")) + r"(?:-\d+)?\.log")

    def path(self, name: str) -> Path:
        """A file in it."""
        return self.folder / name

    def write(self, path: Path, text: str) -> None:
        """Keep a log; where that fails, the compilation goes on without it."""
        with contextlib.suppress(OSError), private_file(path) as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))

    @contextlib.contextmanager
    def file(self, name: str, content: bytes) -> Iterator[Path]:
        """A file for the time of the block.

        Raises:
            OutputError: it cannot be written.
        """
        path = self.path(name)
        try:
            with output_errors(path):
                path.write_bytes(content)
            yield path
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _prune(place: Path) -> None:
    """Remove all but the newest folders; their names begin with their time."""
    folders = sorted(folder for folder in place.iterdir() if folder.is_dir())
    for folder in folders[: max(0, len(folders) - _KEPT + 1)]:
        shutil.rmtree(folder, ignore_errors=True)
