"""The events of a job, read as they come. Standard library only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from engine.base.events import Event, Finished, LogLine, Partial, event_from_dict
from engine.base.files import open_regular
from engine.jobs.live import LiveTail

_LINE_LIMIT = 4 << 20
_CHUNK_LIMIT = 64 << 20

_LOG = b'"event":{"type":"LogLine"'

_LATEST = 253_402_300_800.0
"""Seconds since the epoch at the end of the year 9999, the last one that Python knows."""

_MOST = 10**15
_MISSED = "Some of what was told came faster than it was read, and is missing here."


def is_time(value: Any) -> bool:
    """Whether it is seconds since the epoch."""
    return type(value) in (int, float) and 0 <= value < _LATEST


@dataclass(frozen=True)
class _Line:
    number: int
    at: float
    event: Event


class EventTail:
    """Reads the events of a job as they come, in their order; those that are not kept are in files
    of their own, see :mod:`engine.jobs.live`.

    A line that is not finished waits for the next look.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "events.jsonl"
        self._offset = 0
        self._live = LiveTail(folder)
        self._next = 0
        self._waiting: list[_Line] = []
        self._heard_live = False

    def read(self, *, whole: bool = False, logged: int | None = None) -> list[tuple[float, Event]]:
        """(seconds since the epoch, event) of every line that is new since the last look.

        Where one came into a file after it was read and before the next file was, those after it
        wait for the next look: so they are told in their order.

        Args:
            whole: nothing waits, as this look is the last one.
            logged: only so many lines of the log, the newest; None: all.
        """
        kept = self._lines(_without_old_log(self._read_kept(), logged))
        live = self._lines(self._live.read())
        waited = self._waiting[-1].number if self._waiting else -1
        lines = sorted([*self._waiting, *kept, *live], key=attrgetter("number"))
        whole = whole or any(isinstance(line.event, Finished) for line in kept)
        events: list[tuple[float, Event]] = []
        self._waiting = []
        for place, line in enumerate(lines):
            if line.number > self._next:
                if not whole and line.number > waited:
                    self._waiting = lines[place:]
                    break
                if self._heard_live:
                    events.append((line.at, LogLine(_MISSED, "warning")))
            self._heard_live |= isinstance(line.event, Partial) and not line.event.kept
            self._next = max(self._next, line.number + 1)
            events.append((line.at, line.event))
        return events

    def _read_kept(self) -> list[bytes]:
        try:
            with open_regular(self._path) as stream:
                stream.seek(self._offset)
                chunk = stream.read(_CHUNK_LIMIT)
        except OSError:
            return []
        whole = chunk.rfind(b"\n") + 1
        if not whole and len(chunk) == _CHUNK_LIMIT:  # no line of ours
            whole = len(chunk)
        self._offset += whole
        return chunk[:whole].splitlines()

    def _lines(self, lines: list[bytes]) -> list[_Line]:
        parsed: list[_Line] = []
        following = self._next
        for line in lines:
            if len(line) < _LINE_LIMIT:
                parsed.append(_line(line, following))
                following = parsed[-1].number + 1
        return parsed


def _without_old_log(lines: list[bytes], logged: int | None) -> list[bytes]:
    """The lines but those of the log before its newest: parsing a million takes a minute."""
    if logged is None or len(lines) <= logged:
        return lines
    old = sum(_LOG in line for line in lines) - logged
    kept = []
    for line in lines:
        if _LOG in line and old > 0:
            old -= 1
        else:
            kept.append(line)
    return kept


def event_of(line: bytes) -> Event:
    """What one line of the record tells."""
    return _line(line, 0).event


def _line(line: bytes, following: int) -> _Line:
    """What a line tells; one without a number comes after the one before it."""
    try:
        data = json.loads(line)
        at = float(data["t"])
        number = data.get("n")
        known = type(number) is int and 0 <= number < _MOST
        event = event_from_dict(data["event"])
        return _Line(number if known else following, at if is_time(at) else 0.0, event)
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError, RecursionError):
        unread = LogLine("A line of the job's record could not be read.", "debug")
        return _Line(following, 0.0, unread)
