"""The only module that writes progress to standard error."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from engine import ArtifactWritten, Event, LogLine, Progress, StageFinished, StageStarted, sanitize
from engine.wire.formats import DURATION


class Narrator:
    """Turns events into lines; on a terminal the progress of a stage rewrites one line."""

    def __init__(self, *, quiet: bool = False) -> None:
        # a process may be started without standard error
        self._stream: TextIO | None = sys.stderr
        self._quiet = quiet or self._stream is None
        self._live = not self._quiet and self._stream is not None and self._stream.isatty()
        self._titles: dict[str, str] = {}
        self._running = ""
        self._open = False
        self._painted = 0.0

    def __call__(self, event: Event) -> None:
        """Tell one event."""
        if self._quiet:
            return
        if isinstance(event, StageStarted):
            number = f"[{event.index + 1}/{event.count}] " if event.count else ""
            self._running = f"{number}{event.title}"
            self._titles[event.stage] = self._running
            if self._live:
                self._paint(self._titles[event.stage] + " …")
        elif isinstance(event, Progress):
            now = time.monotonic()
            if self._live and now - self._painted > 0.1:
                self._painted = now
                part = f" {event.done}/{event.total}" if event.total else ""
                step = "" if event.stage in self._titles else f" {event.stage}"
                title = self._titles.get(event.stage, self._running)
                self._paint(f"{title} …{step}{part} {event.note}".rstrip())
        elif isinstance(event, StageFinished):
            title = self._titles.get(event.stage, event.stage)
            took = "from the cache" if event.cached else DURATION.text(event.seconds)
            self._line(f"{title}: {took}")
        elif isinstance(event, LogLine):
            if event.level in ("warning", "error"):
                self._line(f"{event.level}: {sanitize(event.text)}")
        elif isinstance(event, ArtifactWritten):
            self._line(f"wrote {sanitize(event.path)}")

    def say(self, text: str) -> None:
        """One line of narration."""
        if not self._quiet:
            self._line(sanitize(text, 2000))

    def _paint(self, text: str) -> None:
        self._write(f"\r\x1b[K{sanitize(text, 200)}")
        self._open = True

    def _line(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}\n" if self._open else f"{text}\n")
        self._open = False

    def _write(self, text: str) -> None:
        """What cannot be told (a closed pipe, a full disk) must not end the work itself."""
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._quiet = True
