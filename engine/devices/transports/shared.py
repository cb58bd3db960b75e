"""What the ways to a board share: words of commands, files, and what is wrong in words for a user.

Transports quote words all the same. One that would need it comes from somewhere else (a user, a
model, a board) and is refused.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from engine.base.errors import DeviceStorageError, SourceModelError, UsageError
from engine.base.files import atomic_write, open_regular
from engine.base.process import exit_reason
from engine.base.text import human_bytes, sanitize
from engine.devices.transport import Check, Completed, Moved

STOP_SECONDS = 0.8
"""How long a program of a board may take after each step of what ends a call. Both steps and what
is left to do on the board are over before the job that asked is ended itself (2 s)."""

# what shlex.quote leaves as it is
_WORD = re.compile(r"[A-Za-z0-9@%+=:,./_-]{1,4096}")


def check_words(words: Sequence[str]) -> None:
    """Refuse words with anything but letters, digits and ``@ % + = : , . / _ -``.

    Raises:
        UsageError: one has, or is empty; nothing was run.
    """
    for word in words or ("",):
        if not _WORD.fullmatch(word):
            raise UsageError(
                f"'{sanitize(word, 80)}' is no word for a command on a board.",
                cause="Commands are made of letters, digits and @ % + = : , . / _ - only, so that "
                "no name of a file, a model or a board can become a command.",
                remedy="Report it: names belong into messages to the agent.",
            )


class Source(AbstractContextManager["Source"]):
    """A file that is open for reading; what is wrong with it is not taken for a fault of a board.

    Args:
        path: the file.

    Attributes:
        size: its bytes, when it was opened.

    Raises:
        SourceModelError: it is missing, a folder or a device, or may not be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._stream = open_regular(path)
        except OSError as error:
            raise self._error(error) from error
        self.size = os.fstat(self._stream.fileno()).st_size

    def read(self, size: int) -> bytes:
        """The next bytes; empty at the end.

        Raises:
            SourceModelError: they cannot be read.
        """
        try:
            return self._stream.read(size)
        except OSError as error:
            raise self._error(error) from error

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def _error(self, error: OSError) -> SourceModelError:
        return SourceModelError(
            f"{sanitize(str(self._path))} could not be read: {error.strerror or error}.",
            cause="It is missing or no file, it belongs to another user, or its disk is damaged.",
            remedy="Check the path and its permissions.",
        )


def write_pieces(
    pieces: Iterable[bytes],
    stream: BinaryIO,
    path: str,
    *,
    limit: int = sys.maxsize,
    size: int,
    moved: Moved | None,
) -> None:
    """Write what comes of a file.

    Args:
        pieces: its content; empty pieces are its end.
        stream: where it goes.
        path: its name on the board.
        limit: bytes that are taken.
        size: that it is said to have.
        moved: told after each piece.

    Raises:
        DeviceStorageError: it has more than ``limit`` bytes, or fewer than it is said to have.
    """
    done = 0
    for piece in pieces:
        done += len(piece)
        if done > limit:
            raise too_large(path, done, limit)
        stream.write(piece)
        if moved is not None:
            moved(done, max(done, size))
    if done < size:
        raise storage_error(path, f"{done} of {size} bytes came")


class BaseTransport(ABC):
    """What every :class:`~engine.devices.transport.Transport` does alike."""

    def run(
        self,
        words: Sequence[str],
        *,
        seconds: float = 10.0,
        limit: int = 1 << 20,
        check: Check = None,
    ) -> Completed:
        """Run a program and wait for its end; its messages are in English where a way can say so.

        Raises:
            UsageError: a word has other characters than letters, digits and some signs.
            DeviceTimeoutError: it did not end, and was killed.
        """
        check_words(words)
        return self._run(words, seconds, limit, check)

    @abstractmethod
    def _run(self, words: Sequence[str], seconds: float, limit: int, check: Check) -> Completed:
        """As :meth:`run`, with words that may be a part of a command."""

    def push(
        self, source: Path, target: str, *, executable: bool = False, moved: Moved | None = None
    ) -> None:
        """Copy a file to the board: whole under its name, or not there at all.

        It has another name until it is whole, so that a cable that is pulled leaves no half file
        under ``target``.

        Raises:
            SourceModelError: ``source`` cannot be read.
            DeviceStorageError: the board cannot take it.
        """
        part = f"{target}.{secrets.token_hex(4)}.part"
        check_words([part])
        with Source(source) as stream:
            self._write(stream, part, target, 0o755 if executable else 0o644, moved)

    @abstractmethod
    def _write(
        self, stream: Source, part: str, target: str, mode: int, moved: Moved | None
    ) -> None:
        """Write a file as ``part``, check it and name it ``target``; else remove the part."""

    def pull(self, source: str, target: Path, *, limit: int, moved: Moved | None = None) -> None:
        """Copy a file of at most ``limit`` bytes from the board: whole, or not there at all.

        Raises:
            OutputError: ``target`` cannot be written.
            DeviceStorageError: the board cannot read ``source``, or it is larger than ``limit``.
        """
        check_words([source])
        with self._reading(source) as (size, pieces):
            if size > limit:
                raise too_large(source, size, limit)

            def fill(copy: BinaryIO) -> None:
                write_pieces(pieces, copy, source, limit=limit, size=size, moved=moved)

            atomic_write(target, fill, overwrite=True)

    @abstractmethod
    def _reading(self, source: str) -> AbstractContextManager[tuple[int, Iterable[bytes]]]:
        """The size of a file, as far as the board tells, and its content in pieces."""


def ending(code: int) -> tuple[str, str]:
    """How a program ended and the likely cause, by the exit code of a shell, which is 128 and the
    number of a signal where one ended it.
    """
    if code == 127:
        return "was not found", "The board has no program of that name, or not on its PATH."
    if code == 126:
        return "could not be started", "It is not executable, or is for another processor."
    if code == 0:
        return "ended by itself", "Its input ended, or it was asked to end."
    if code > 128:
        if code - 128 in {int(number) for number in signal.Signals}:
            how, why = exit_reason(128 - code)
        else:  # such as one that SSH has no name for
            how, why = "was killed by a signal", "A library crashed."
        if code - 128 in (signal.SIGKILL, signal.SIGTERM):
            why += " A board that is restarted ends its programs so, too."
        return how, why
    return f"ended with exit code {code}", "It crashed."


def last_line(output: bytes | bytearray) -> str:
    """The last line of an output, fit to be shown; empty where there is none."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return sanitize(lines[-1], 300) if lines else ""


_STORAGE = (
    ("no space", "Its disk is full.", "Make room there, or use another folder of the board."),
    ("quota", "Its quota is used up.", "Make room there, or use another folder."),
    (
        "read-only",
        "Its file system is read-only.",
        (
            "Mount it for writing, or use a folder that can be written to, such as /userdata, "
            "/data/local/tmp or /tmp."
        ),
    ),
    (
        "permission denied",
        "The user there may not do that.",
        (
            "Use a folder of that user, or be one who may: `adb root` where the board allows it, "
            "or log in as root."
        ),
    ),
    ("not permitted", "The system of the board does not allow it.", "Use another folder."),
    ("no such file", "It, or its folder, is not there.", "Check the path."),
    ("nonexistent", "It, or its folder, is not there.", "Check the path."),
    ("not a directory", "A part of the path is a file.", "Use another folder."),
    ("is a directory", "It is a folder.", "Use another name."),
    ("too large", "Its file system takes no file of that size.", "Use another folder."),
    ("text file busy", "The program of that name is running.", "End it and try again."),
)


def storage_cause(said: str) -> tuple[str, str]:
    """Cause and remedy of a file that a board could not read or write, by what it said of it."""
    lower = said.lower()
    refused = f"The board refused it: {sanitize(said.strip(), 200)}."
    known = (row[1:] for row in _STORAGE if row[0] in lower)
    return next(known, (refused, "Look at its disk and its log (dmesg)."))


def storage_error(path: str, said: str) -> DeviceStorageError:
    """The error for a file of the board, by what the board said of it."""
    cause, remedy = storage_cause(said)
    return DeviceStorageError(
        f"{sanitize(path)} of the board could not be read or written.", cause=cause, remedy=remedy
    )


def too_large(path: str, size: int, limit: int) -> DeviceStorageError:
    """The error for a file of the board that is larger than what is pulled."""
    return DeviceStorageError(
        f"{sanitize(path)} of the board is larger than {human_bytes(limit)}: {human_bytes(size)}.",
        cause="It is not the file that was expected: a program wrote more.",
        remedy="Look at it on the board, remove it, and try again.",
    )
