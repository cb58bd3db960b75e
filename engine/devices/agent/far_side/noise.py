"""What libraries write to stdout and stderr: kept for an error's text, and passed on to stderr."""

import os
import select
import threading
from typing import List

__all__ = ["Noise"]

_KEPT = 1 << 16
_CHUNK = 4096  # a pipe that select calls writable takes this many bytes without waiting


class Noise:
    """A pipe whose write end takes the place of descriptors 1 and 2.

    What is read from it goes on to the real stderr, as far as somebody reads that: a library that
    writes much is never kept waiting.

    Attributes:
        descriptor: the write end, for :func:`engine.base.peers.far.take_streams`.
    """

    def __init__(self) -> None:
        self._reads, self.descriptor = os.pipe()
        os.set_blocking(self._reads, False)
        self._stderr = os.dup(2)
        self._lock = threading.Lock()
        self._tail = b""
        self._seen = 0

    def start(self) -> None:
        """Read from now on, by a thread of its own."""
        threading.Thread(target=self._follow, name="noise", daemon=True).start()

    def mark(self) -> int:
        """A place in what was written, for :meth:`since`."""
        self.drain()
        return self._seen

    def since(self, mark: int) -> str:
        """What was written after the mark; of a lot only the end."""
        self.drain()
        size = self._seen - mark
        text = self._tail[-size:] if size else b""
        return text.decode("utf-8", "replace")

    def drain(self) -> None:
        """Read all that is there by now."""
        with self._lock:
            while True:
                try:
                    data = os.read(self._reads, _CHUNK)
                except BlockingIOError:
                    return
                self._seen += len(data)
                self._tail = (self._tail + data)[-_KEPT:]
                self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        try:
            if select.select([], [self._stderr], [], 0)[1]:
                os.write(self._stderr, data)
        except (OSError, ValueError):  # nobody reads it
            pass

    def _follow(self) -> None:
        while True:
            select.select([self._reads], [], [])
            self.drain()


def last_lines(text: str, lines: int = 3, characters: int = 400) -> str:
    """The last lines that say something, as one line."""
    said = [line.strip() for line in text.split("\n") if line.strip()]  # type: List[str]
    return " / ".join(said[-lines:])[-characters:]
