"""One connection to the adb server, on which nothing waits longer than it is given.

The time-outs of ``adbutils`` count for each ``recv``, so that a board that sends a byte now and
then is waited for without end; here a :class:`Deadline` counts for the whole.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from engine.base.peers.near import LOOK_SECONDS

_TEXT_LIMIT = 0xFFFF  # four hexadecimal digits say how long a text is


class RefusedError(Exception):
    """The adb server, or the board, refused a request; the text is its own."""


class Deadline:
    """A moment until which something has to be done.

    Args:
        seconds: from now.
        check: called ten times a second by who waits; what it raises ends the waiting.
    """

    def __init__(self, seconds: float, check: Callable[[], object] | None = None) -> None:
        self._end = time.monotonic() + seconds
        self.check = check

    @property
    def left(self) -> float:
        """Seconds that are left; 0 afterwards."""
        return max(0.0, self._end - time.monotonic())


class Link(AbstractContextManager["Link"]):
    """A socket of the adb server.

    Its methods raise ``TimeoutError`` at the deadline, and another ``OSError`` where the
    connection has ended: the callers know which board and which work that was.

    Args:
        handle: connected; it belongs to this object.
    """

    def __init__(self, handle: socket.socket) -> None:
        self.socket = handle
        handle.setblocking(False)
        # a request is a few short writes, and the next must not wait for the first one's receipt
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; a program that the board runs for it is told to end."""
        with contextlib.suppress(OSError):
            self.socket.close()

    def wait(self, events: int, deadline: Deadline) -> int:
        """Wait for events of :func:`select.poll`, and return those that came."""
        ready = select.poll()
        ready.register(self.socket, events)
        while True:
            left = deadline.left
            if deadline.check is not None:
                deadline.check()
                left = min(left, LOOK_SECONDS)
            # rounded up: a last half millisecond is no reason to look a thousand times
            if polled := ready.poll(int(left * 1000) + 1):
                return polled[0][1]
            if not deadline.left:
                raise TimeoutError

    def some(self, size: int, deadline: Deadline) -> bytes:
        """What is there, at most ``size`` bytes; empty at the end."""
        while True:
            with contextlib.suppress(BlockingIOError):
                return self.socket.recv(size)
            # the adb server holds back a second short write until it knows that the first came
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            self.wait(select.POLLIN, deadline)

    def take(self, size: int, deadline: Deadline) -> bytes:
        """Exactly ``size`` bytes."""
        parts = bytearray()
        while len(parts) < size:
            data = self.some(size - len(parts), deadline)
            if not data:
                raise ConnectionResetError("the connection ended")
            parts += data
        return bytes(parts)

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of ``data``."""
        rest = memoryview(data)
        while rest:
            with contextlib.suppress(BlockingIOError):
                rest = rest[self.socket.send(rest) :]
                continue
            self.wait(select.POLLOUT, deadline)

    def request(self, service: str, deadline: Deadline) -> None:
        """Ask for a service of the adb server, or of the board that this connection leads to.

        Raises:
            RefusedError: it is refused.
        """
        words = service.encode("ascii")
        self.send(b"%04x%s" % (len(words), words), deadline)
        answer = self.take(4, deadline)
        if answer == b"FAIL":
            raise RefusedError(self.text(deadline))
        if answer != b"OKAY":
            raise ConnectionResetError("what answers is no adb server")

    def text(self, deadline: Deadline) -> str:
        """A text with its length before it."""
        try:
            size = int(self.take(4, deadline), 16)
        except ValueError as error:
            raise ConnectionResetError("what answers is no adb server") from error
        return self.take(min(size, _TEXT_LIMIT), deadline).decode("utf-8", "replace")
