"""A watch in a file: JSON lines, of this program's own format.

The first line is ``{"format": "rknntui-monitor", "version": 1, "hertz": 10.0}``; each further one
has one key: ``board``, ``note`` or ``sample`` with what :mod:`engine.wire.monitor` tells, in the
order in which it was told, or ``end`` with ``{"seconds": of the whole watch}``, which is the last.
A file without ``end``, or whose last line is cut off, is of a watch that was interrupted.

The file has its name from the first line on, and each line is written as soon as it is told: where
the program or the machine fails, what was told until then is there. An older recording of that
name is replaced at the beginning (``force``), by one that has its first line already.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from engine.base.errors import UsageError
from engine.base.files import atomic_write, open_regular, output_errors
from engine.base.peers.far import encode as encode_line
from engine.base.text import sanitize
from engine.devices.watch.board_watch import Told
from engine.wire.board import BoardFacts
from engine.wire.codec import encode, read_request
from engine.wire.monitor import BoardNote, BoardSample

FORMAT = "rknntui-monitor"
VERSION = 1

LINE_LIMIT = 1 << 16
"""Bytes of a line; a sample has about a thousand."""

_TEXT_LIMIT = 2000
_DEPTH = 8
_ITEMS = 256
_GREATEST = 1e15
_LONGEST_SECONDS = 1e9
_RARE = 10_000
"""Lines that are no samples, which a job's record keeps when they are shown."""

_KINDS: dict[type[Told], str] = {BoardFacts: "board", BoardNote: "note", BoardSample: "sample"}


class Recorder:
    """Writes a recording while the watch goes on.

    Args:
        path: the file.
        hertz: looks a second that are asked for.
        force: whether an existing file may be replaced.

    Attributes:
        path: absolute.
        failure: why it was not written any further; empty where it was.

    Raises:
        OutputExistsError: the file exists and ``force`` is false.
        OutputError: it cannot be made.
    """

    def __init__(self, path: Path, hertz: float, *, force: bool) -> None:
        self.path = path.absolute()
        self.failure = ""
        header = {"format": FORMAT, "version": VERSION, "hertz": hertz}
        self._size = atomic_write(self.path, encode_line(header), overwrite=force)
        with output_errors(self.path):
            self._handle: int | None = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def write(self, told: Told) -> str:
        """Append what was told.

        Returns:
            Why that was not possible, the first time; the file ends with its last whole line then,
            and nothing more is written.
        """
        return self._append({_KINDS[type(told)]: encode(told)})

    def close(self, seconds: float) -> None:
        """Write the end of a watch that was so long, and close the file."""
        self._append({"end": {"seconds": seconds}})
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _append(self, data: dict[str, Any]) -> str:
        if self._handle is None:
            return ""
        line = encode_line(data)
        try:
            written = os.write(self._handle, line)
            if written != len(line):
                written += os.write(self._handle, line[written:])  # which tells what is wrong
            self._size += written
        except OSError as error:
            reason = error.strerror or str(error)
            self.failure = (
                f"The recording {self.path} ends here, it could not be written: {reason}. What was "
                "recorded can be shown."
            )
            handle, self._handle = self._handle, None
            try:
                os.ftruncate(handle, self._size)
            except OSError:
                pass  # who reads it leaves out a line that is cut off
            finally:
                os.close(handle)
        return self.failure


class Recording(AbstractContextManager["Recording"]):
    """A recording that is read, line by line, and nothing of it believed.

    Numbers are finite, lists short and texts fit to be shown, or there is an error; a file of any
    size takes no more memory than one line.

    Args:
        path: the file.

    Attributes:
        hertz: looks a second that were asked for.
        seconds: how long the watch was: told by its end, else time of the last sample.
        note: that the recording was interrupted; empty where it was not, or is not read yet.

    Raises:
        UsageError: it cannot be read, is none, or of another version.
    """

    def __init__(self, path: Path) -> None:
        self._name = sanitize(path.name, 120)
        self.seconds = 0.0
        self.note = ""
        self._number = 1
        try:
            self._stream: BinaryIO = open_regular(path)
        except OSError as error:
            raise UsageError(
                f"{sanitize(str(path))} could not be read: {error.strerror or error}.",
                cause="It is missing or no file, or it belongs to another user.",
                remedy="Check the path and its permissions.",
            ) from error
        try:
            self.hertz = self._header()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Read no more."""
        self._stream.close()

    def __iter__(self) -> Iterator[Told]:
        """What was told, in its order.

        Raises:
            UsageError: a line is none of a recording; it is named.
        """
        rare = 0
        while (line := self._line()) is not None:
            data = self._plain(line)
            if len(data) != 1:
                raise self._error("it has not one key")
            ((kind, value),) = data.items()
            if kind == "end":
                self._end(value)
                return
            event = self._told(kind, value)
            if isinstance(event, BoardSample):
                if not 0 <= event.at <= _LONGEST_SECONDS:
                    raise self._error("its time cannot be")
                self.seconds = max(self.seconds, event.at)
            elif (rare := rare + 1) > _RARE:
                raise self._error(f"there are more than {_RARE} boards and notes before it")
            yield event
        self.note = self.note or "The recording has no end: the watch was interrupted."

    def _header(self) -> float:
        start = self._read(LINE_LIMIT)
        try:
            header = json.loads(start)
            known = header["format"] == FORMAT
        except (ValueError, TypeError, KeyError, RecursionError):
            known = False
        if not known:
            raise UsageError(
                f"{self._name} is no recording of a watch.",
                remedy="Give a file of `rknntui monitor --record FILE`.",
            )
        version, hertz = header.get("version"), header.get("hertz")
        if type(version) is not int or version != VERSION:
            raise UsageError(
                f"{self._name} has version {sanitize(str(version), 20)} of the format; this "
                f"program reads version {VERSION}.",
                cause="Another version of this program wrote it.",
                remedy="Show it with that version.",
            )
        if type(hertz) not in (int, float) or not 0 < hertz < 1000:
            raise self._error("its looks a second cannot be")
        return float(hertz)

    def _read(self, limit: int) -> bytes:
        try:
            return self._stream.readline(limit)
        except OSError as error:
            raise self._error(f"it could not be read: {error.strerror or error}") from error

    def _line(self) -> bytes | None:
        """The next whole line; None at the end."""
        line = self._read(LINE_LIMIT + 1)
        self._number += 1
        if line.endswith(b"\n"):
            return line
        if len(line) > LINE_LIMIT:
            raise self._error(f"it has more than {LINE_LIMIT} bytes")
        if line:
            self.note = "The last line of the recording is cut off: the watch was interrupted."
        return None

    def _plain(self, line: bytes) -> dict[str, Any]:
        try:
            fields = _checked(json.loads(line.decode("utf-8")), _DEPTH)
        except RecursionError:
            raise self._error("it is nested too deeply") from None
        except ValueError as error:  # also what is no JSON, no UTF-8, or a number of a megabyte
            raise self._error(sanitize(str(error), 200)) from None
        if not isinstance(fields, dict):
            raise self._error("it is no object")
        return fields

    def _told(self, kind: str, value: Any) -> Told:
        wanted = next((one for one, name in _KINDS.items() if name == kind), None)
        if wanted is None:
            raise self._error(f"there is no {sanitize(kind, 40)!r} in a recording")
        try:
            return read_request(wanted, value)
        except UsageError as error:
            raise self._error(error.what.rstrip(".")) from None

    def _end(self, value: Any) -> None:
        seconds: Any = value.get("seconds") if isinstance(value, dict) else None
        if type(seconds) not in (int, float) or not 0 <= seconds <= _LONGEST_SECONDS:
            raise self._error("its time cannot be")
        self.seconds = float(seconds)
        if self._read(1):
            raise self._error("something follows the end")

    def _error(self, why: str) -> UsageError:
        return UsageError(
            f"Line {self._number} of {self._name} is none of a recording: {why}.",
            cause="The file is damaged, was edited, or a newer version of this program wrote it.",
            remedy="Record again.",
        )


def _checked(data: Any, depth: int) -> Any:
    """The same, with texts fit to be shown.

    Raises:
        ValueError: it has too much of something.
    """
    if isinstance(data, str):
        return sanitize(data, _TEXT_LIMIT)
    if isinstance(data, bool) or data is None:
        return data
    if isinstance(data, int | float):
        if not -_GREATEST <= data <= _GREATEST:  # also what is no number
            raise ValueError("a number in it cannot be")
        return data
    if depth == 0:
        raise ValueError("it is nested too deeply")
    if len(data) > _ITEMS:
        raise ValueError(f"a list in it has more than {_ITEMS} items")
    if isinstance(data, dict):
        return {sanitize(key, 80): _checked(item, depth - 1) for key, item in data.items()}
    return [_checked(item, depth - 1) for item in data]
