"""Files to and from a board through adb's ``sync`` service [adb, ``docs/dev/sync.md``].

A request is four letters, a length as four bytes little endian, and a path or data. What is sent
is not acknowledged until its end, so that a slow link and one that stands still look alike from
here: :func:`sent` asks the board how far the file has grown before it gives up.
"""

from __future__ import annotations

import select
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator

from engine.devices.transports.adb.link import Deadline, Link

STALL_SECONDS = 15.0
"""How long a transfer may stand still."""

_LOOK_SECONDS = 5.0
"""How often the board is asked whether a file grows that is slow to send."""

CHUNK = 1 << 16
"""The most that one packet of the protocol may hold."""

_HEADER = struct.Struct("<4sI")


class FileRefusedError(Exception):
    """The board cannot read or write a file; the text is its own."""


def _request(letters: bytes, path: str) -> bytes:
    name = path.encode("ascii")
    return _HEADER.pack(letters, len(name)) + name


def _refused(link: Link, size: int, deadline: Deadline) -> FileRefusedError:
    return FileRefusedError(link.take(min(size, CHUNK), deadline).decode("utf-8", "replace"))


def file_size(link: Link, path: str, deadline: Deadline) -> int | None:
    """The size of a file modulo 4 GiB, None where there is none.

    Args:
        link: on which ``sync:`` was asked for.
        path: on the board.
        deadline: for all of it.
    """
    link.send(_request(b"STAT", path), deadline)
    letters, mode, size, _ = struct.unpack("<4sIII", link.take(16, deadline))
    if letters != b"STAT":
        raise ConnectionResetError("the board does not keep to the protocol")
    return size if mode else None


def sent(
    link: Link, pieces: Iterable[bytes], target: str, mode: int, grown: Callable[[], int]
) -> Iterator[int]:
    """Send a file.

    Args:
        link: on which ``sync:`` was asked for.
        pieces: its content, at most 64 KiB each.
        target: its path on the board.
        mode: its permissions there.
        grown: asks the board how large the file is there by now.

    Yields:
        The bytes that were given to the adb server by now.

    Raises:
        FileRefusedError: the board cannot write it; the text says why.
        TimeoutError: the link stands still.
    """
    sending = _Sending(link, grown)
    sending.send(_request(b"SEND", f"{target},{stat.S_IFREG | mode}"))
    done = 0
    for piece in pieces:
        sending.send(_HEADER.pack(b"DATA", len(piece)) + piece)
        done += len(piece)
        yield done
    sending.send(_HEADER.pack(b"DONE", int(time.time()) & 0xFFFFFFFF))
    sending.answered()


class _Sending:
    """The sending side: writes, and listens for a refusal meanwhile."""

    def __init__(self, link: Link, grown: Callable[[], int]) -> None:
        self._link = link
        self._grown = grown
        self._size = 0

    def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            events = self._wait(select.POLLIN | select.POLLOUT)
            if events & ~select.POLLOUT:  # a refusal comes before the end, and so does a lost board
                self._answer()
                raise ConnectionResetError("the board answered before the end of the file")
            rest = rest[self._link.socket.send(rest) :]

    def answered(self) -> None:
        """Wait until the board has taken all."""
        self._wait(select.POLLIN)
        self._answer()

    def _answer(self) -> None:
        deadline = Deadline(STALL_SECONDS)
        letters, size = _HEADER.unpack(self._link.take(_HEADER.size, deadline))
        if letters == b"FAIL":
            raise _refused(self._link, size, deadline)
        if letters != b"OKAY":
            raise ConnectionResetError("the board does not keep to the protocol")

    def _wait(self, events: int) -> int:
        still = Deadline(STALL_SECONDS)
        while True:
            try:
                return self._link.wait(events, Deadline(min(_LOOK_SECONDS, STALL_SECONDS)))
            except TimeoutError:
                size = self._grown()
                if size == self._size and not still.left:
                    raise
                if size != self._size:
                    self._size, still = size, Deadline(STALL_SECONDS)


def received(link: Link, source: str, deadline: Deadline | None = None) -> Iterator[bytes]:
    """The pieces of a file of a board.

    Args:
        link: on which ``sync:`` was asked for.
        source: its path.
        deadline: for all of it; None for 15 seconds a piece.

    Raises:
        FileRefusedError: the board cannot read it; the text says why.
        TimeoutError: the link stands still.
    """
    link.send(_request(b"RECV", source), deadline or Deadline(STALL_SECONDS))
    while True:
        until = deadline or Deadline(STALL_SECONDS)
        letters, size = _HEADER.unpack(link.take(_HEADER.size, until))
        if letters == b"FAIL":
            raise _refused(link, size, until)
        if letters == b"DONE":
            return
        if letters != b"DATA" or size > CHUNK:
            raise ConnectionResetError("the board does not keep to the protocol")
        yield link.take(size, until)
