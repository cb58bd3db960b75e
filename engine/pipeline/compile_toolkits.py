"""The toolkits' processes of one job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.events import Event, LogLine, Reporter
from engine.toolkit.toolkit import Toolkit

if TYPE_CHECKING:
    from engine.wire.vendor import ToolkitEnvironment

__all__ = ["Toolkits", "toolkit_words"]


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
        return any(each.stopped for each in self._open.values())

    def get(self, environment: ToolkitEnvironment) -> Toolkit:
        """One that can be asked.

        Raises:
            ToolkitError: it does not start.
        """
        found = self._open.get(environment.python)
        if found is None or not found.alive:
            if found is not None:
                found.close(kill=True)
            found = Toolkit(environment, self._folder, self._reporter)
            self._open[environment.python] = found
        return found

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

    def __init__(self, reporter: Reporter, told: Callable[[str], str]) -> None:
        self._reporter = reporter
        self._told = told

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


def toolkit_words(environment: ToolkitEnvironment) -> str:
    """``rknn-toolkit2 2.3.2``."""
    name = "rknn-toolkit" if environment.generation == 1 else "rknn-toolkit2"
    return f"{name} {environment.version}".strip()
