"""A link to a server on loopback that lets only so many bytes a second through."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Self

_PIECE = 4 << 10


class SlowLink:
    """Passes connections on.

    Args:
        port: of the server.
        rate: bytes a second to it; what comes back is not held up.

    Attributes:
        port: where it listens.
    """

    def __init__(self, port: int, rate: int) -> None:
        self._to, self._rate = port, rate
        self._listener = socket.socket()
        # what waits in buffers of the kernel would hide that the link is slow
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += [near, far]
            for ends in ((near, far, self._rate), (far, near, 0)):
                thread = threading.Thread(target=_carry, args=ends)
                self._threads.append(thread)
                thread.start()


def _carry(source: socket.socket, target: socket.socket, rate: int) -> None:
    try:
        while data := source.recv(_PIECE):
            if rate:
                time.sleep(len(data) / rate)
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
