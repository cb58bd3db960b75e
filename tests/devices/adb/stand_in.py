"""A small stand-in of an adb server, for what a real one cannot be brought to say.

It speaks the server's side of adb's own protocol [adb, ``docs/dev/services.md``]: four hexadecimal
digits and a request, then ``OKAY`` or ``FAIL`` and a text.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

from engine.devices.transports.adb.server import AdbServer

__all__ = ["StandIn", "fail", "okay"]

Answer = bytes | Callable[[socket.socket], object]


def okay(text: str) -> bytes:
    """An answer with a text."""
    return b"OKAY%04x%s" % (len(text.encode()), text.encode())


def fail(text: str) -> bytes:
    """A refusal."""
    return b"FAIL%04x%s" % (len(text.encode()), text.encode())


class StandIn:
    """Answers requests by a table; a request that is not in it is refused.

    A function in the table is given the connection; other answers end it, but for a bare ``OKAY``:
    the next request of the same connection follows.
    """

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.server = AdbServer("127.0.0.1", self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> StandIn:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        # accept() sleeps on: shutting down wakes it
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                handle, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(handle,), daemon=True).start()

    def _serve(self, handle: socket.socket) -> None:
        with handle, contextlib.suppress(OSError, ValueError, struct.error):
            while head := _exactly(handle, 4):
                request = _exactly(handle, int(head, 16)).decode()
                self.asked.append(request)
                answer = self.answers.get(request, fail("unknown host service"))
                if callable(answer):
                    answer(handle)
                    return
                handle.sendall(answer)
                if answer != b"OKAY":
                    return


def _exactly(handle: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = handle.recv(size - len(data))
        if not piece:
            return b""
        data += piece
    return data
