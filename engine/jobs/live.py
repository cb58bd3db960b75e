"""Events that are told and not kept, as the samples of a watch that goes on for hours.

They stand in ``live.N.jsonl`` beside the record, one a line as in ``events.jsonl``. A file that is
full is followed by the next one, and the one before it goes: two are there at most. Standard
library only.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from engine.base.files import open_regular
from engine.base.paths import private_handle

LIVE_BYTES = 4 << 20
"""A file that has so many bytes is full."""

_READ_LIMIT = 16 << 20
_NAME = re.compile(r"live\.([0-9]{1,9})\.jsonl")


def _path(folder: Path, number: int) -> Path:
    return folder / f"live.{number}.jsonl"


def _numbers(folder: Path) -> list[int]:
    """Numbers of the files that are there, oldest first."""
    try:
        names = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except OSError:
        return []
    return sorted(int(match[1]) for match in names if match)


def remove_live(folder: Path) -> None:
    """Remove what a job that has ended left of them."""
    for number in _numbers(folder):
        with contextlib.suppress(OSError):
            _path(folder, number).unlink()


class LiveWriter:
    """Writes the lines of one job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._size = 0
        self._handle: int | None = None

    def write(self, line: bytes) -> None:
        """Append a line.

        Raises:
            OSError: it could not be written, or not whole.
        """
        if self._handle is not None and self._size + len(line) > LIVE_BYTES:
            self.close()
            self._number += 1
            with contextlib.suppress(OSError):
                _path(self._folder, self._number - 2).unlink()
        if self._handle is None:
            path = _path(self._folder, self._number)
            self._handle = private_handle(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            self._size = 0
        self._size += os.write(self._handle, line)

    def close(self) -> None:
        """Write no more; what was written stays."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class LiveTail:
    """Reads those lines as they come; who reads too slowly misses some."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = -1
        self._offset = 0

    def read(self) -> list[bytes]:
        """The whole lines that are new; one that is not finished waits for the next look."""
        lines: list[bytes] = []
        for number in _numbers(self._folder)[-2:]:
            if number < self._number:
                continue
            start = self._offset if number == self._number else 0
            chunk = b""
            # one that goes at this moment is missed
            with contextlib.suppress(OSError), open_regular(_path(self._folder, number)) as stream:
                stream.seek(start)
                chunk = stream.read(_READ_LIMIT)
            whole = chunk.rfind(b"\n") + 1
            self._number, self._offset = number, start + whole
            lines += chunk[:whole].splitlines()
        return lines
