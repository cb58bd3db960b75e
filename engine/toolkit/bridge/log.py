"""What a vendor's toolkit prints: kept in a file of bounded size, told line by line, looked through
for what an error should say.

Lines of the toolkit begin with a letter for their level (``E RKNN: [03:04:01.892] ...`` in
generation 2, ``E [op_optimize:123] ...`` in generation 1); native code prints without.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from io import FileIO
from pathlib import Path
from typing import Literal

from engine.base.events import LogLine, Reporter
from engine.base.paths import private_folder, private_handle, state_folder
from engine.base.text import sanitize

LOG_NAME = "toolkit.log"

_HEAD = 64 << 20
_TAIL = 1 << 20
_LINE = 1 << 16
_TOLD = 20_000
_SHOWN = 500
_KEPT_LOGS = 8
_MOST_LOGS = 100
_BAR_SECONDS = 2.0

_LEVELS: dict[str, Literal["debug", "info", "warning", "error"]] = {
    "D": "debug",
    "I": "info",
    "W": "warning",
    "E": "error",
    "F": "error",
}
_LEVEL = re.compile(r"(?:\x1b\[[0-9;]*m)*([DIWEF])(?::|\s)")
_BAR = re.compile(r"\|[ #\u2580-\u259f]*\| *")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LAYER = (
    re.compile(r"(?:node|op|layer) ?name\s*[:=]\s*['\"\[]?([^\s,;'\"\]]+)", re.IGNORECASE),
    re.compile(
        r"\b(?:node|layer|op(?:erator)?)\s*[:=]?\s*\(?['\"\[]([^'\"\]]+)['\"\]]", re.IGNORECASE
    ),
    re.compile(r"tensor ?name\s*[:=]\s*['\"\[]?([^\s,;'\"\]]+)", re.IGNORECASE),
)
_BANNER = "-toolkit2 version: "
"""Of a line that toolkit 2 prints at every level, as a heading of its log."""
_TRACEBACK = "Traceback (most recent call last)"
"""Begins what comes before a Python error, which says what was raised by itself."""
_STEP = re.compile(r"(>>>+ start|<<<+ end): (\S+)")


def new_log(name: str) -> Path:
    """The file of a log that nobody gave a place, beside this program's own; the last eight stay.

    Args:
        name: of the environment.

    Raises:
        OSError: the folder cannot be made.
    """
    folder = private_folder(state_folder() / "logs")
    logs = sorted(folder.glob("toolkit-*.log"), key=lambda path: path.name)
    for path in logs[: -_KEPT_LOGS + 1]:
        with contextlib.suppress(OSError):
            path.unlink()
    seconds, rest = divmod(time.time_ns(), 10**9)  # one look at the clock: names sort by time
    stamp = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(seconds))}-{rest:09}"
    return folder / f"toolkit-{stamp}-{name}.log"


class ToolkitLog:
    """The log of one process.

    The first 64 MiB are in the file, then the last MiB: a toolkit that prints without end fills no
    disk.

    Args:
        path: the file; written anew. While this log is open, no other one is written there.
        reporter: told each line as it comes, the first 20 000 of them.

    Attributes:
        path: the file.

    Raises:
        BlockingIOError: another log is being written there.
        OSError: the file could not be made.
    """

    def __init__(self, path: Path, reporter: Reporter | None) -> None:
        self.path = path
        file = FileIO(private_handle(path, os.O_RDWR | os.O_CREAT), "rb+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
        except OSError:
            file.close()
            raise
        self._file: FileIO | None = file
        self._reporter = reporter
        self._size = 0
        self._written = 0
        self._tail = bytearray()
        self._line = bytearray()
        self._told = 0
        self._drawn = time.monotonic()

    @property
    def mark(self) -> int:
        """Where the log stands now, for :meth:`since`."""
        return self._size

    def add(self, data: bytes) -> None:
        """Take what was printed; a full disk loses the middle of it, and is no error."""
        self._size += len(data)
        self._tail += data
        del self._tail[:-_TAIL]
        if self._file is not None and self._written == self._size - len(data):
            with contextlib.suppress(OSError):
                self._written += self._file.write(data[: max(0, _HEAD - self._written)])
        self._tell(data)

    def since(self, mark: int) -> str:
        """What was printed since :attr:`mark` was asked, without colours; of very much the last."""
        content = b""
        if mark < self._written:
            with contextlib.suppress(OSError), self.path.open("rb") as stream:
                stream.seek(mark)
                content = stream.read(self._written - mark)
        kept = self._size - len(self._tail)
        end = mark + len(content)
        if end < self._size:
            missing = max(0, kept - end)
            if missing:
                content += b"\n... %d bytes are left out ...\n" % missing
            content += bytes(self._tail[max(0, end - kept) :])
        return _plain(content)

    def last_lines(self, count: int = 6) -> str:
        """The last lines that say something, the newest last; empty where there is none."""
        lines = [line.strip() for line in _plain(self._tail[-(1 << 16) :]).split("\n")]
        said = [line for line in lines if line and not _STEP.search(line)]
        return "\n".join(sanitize(line, 300) for line in said[-count:])

    def errors(self, count: int = 3) -> str:
        """The last lines that the toolkit marked as errors."""
        lines = _plain(self._tail).split("\n")
        said = [
            line.strip()
            for line in lines
            if _level(line) == "error" and _BANNER not in line and _TRACEBACK not in line
        ]
        return "\n".join(sanitize(line, 300) for line in said[-count:])

    def layer(self) -> str:
        """The layer or tensor that the last lines name; empty where they name none."""
        for line in reversed(_plain(self._tail[-(1 << 14) :]).split("\n")[-12:]):
            for form in _LAYER:
                if match := form.search(line):
                    return sanitize(match[1], 200)
        return ""

    def step(self) -> str:
        """The step of the compiler that had begun and not ended, as a verbose log names it."""
        open_steps: list[str] = []
        for what, name in _STEP.findall(_plain(self._tail)):
            if what.startswith(">"):
                open_steps.append(name)
            elif name in open_steps:
                open_steps.remove(name)
        return sanitize(open_steps[-1], 100) if open_steps else ""

    def close(self) -> None:
        """Write what is left of the end, and close the file."""
        if self._line:
            self._tell(b"\n")
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            if self._written < self._size:
                self._file.write(self.since(self._written).encode("utf-8", "replace"))
        self._file.close()
        self._file = None

    @classmethod
    def in_folder(cls, folder: Path, reporter: Reporter | None) -> ToolkitLog:
        """The log of a toolkit that works in a folder: ``toolkit.log``, or ``toolkit-2.log`` where
        another toolkit works there now.

        Raises:
            OSError: the file could not be made.
        """
        for number in range(2, _MOST_LOGS):
            name = LOG_NAME if number == 2 else f"toolkit-{number - 1}.log"
            with contextlib.suppress(BlockingIOError):
                return cls(folder / name, reporter)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(folder))

    def _tell(self, data: bytes) -> None:
        if self._reporter is None or self._told > _TOLD:
            return
        *ends, rest = (bytes(self._line) + data).split(b"\n")
        self._line = bytearray(rest[-_LINE:])
        for end in ends:
            # of a bar that is drawn again and again, its last state
            self._tell_line(end.rstrip(b"\r").rpartition(b"\r")[2])
        drawn = rest.rstrip(b"\r").rpartition(b"\r")[2] if b"\r" in rest else b""
        if drawn and time.monotonic() - self._drawn > _BAR_SECONDS:
            self._tell_line(drawn)

    def _tell_line(self, data: bytes) -> None:
        line = _BAR.sub(" ", _plain(data))
        if not line.strip() or self._reporter is None or self._told > _TOLD:
            return
        self._told += 1
        self._drawn = time.monotonic()
        if self._told > _TOLD:
            self._reporter.emit(LogLine(f"What comes from now on is in {self.path} only."))
        else:
            self._reporter.emit(LogLine(sanitize(line, _SHOWN), _level(line)))


def _plain(data: bytes | bytearray) -> str:
    return _COLOUR.sub("", data.decode("utf-8", "replace"))


def _level(line: str) -> Literal["debug", "info", "warning", "error"]:
    match = _LEVEL.match(line)
    return _LEVELS[match[1]] if match else "info"


def about_sandbox(said: str) -> str:
    """A word on the sandbox, where what was printed reads as if it had refused something."""
    if not any(words in said for words in ("Permission denied", "Operation not permitted")):
        return ""
    return (
        " The toolkit runs in a sandbox: it writes in its own folder only, and reads what it is "
        "given."
    )
