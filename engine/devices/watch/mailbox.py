"""What the threads of several boards tell, for the one that takes it."""

from __future__ import annotations

import threading
from collections import deque

from engine.devices.watch.board_watch import Told
from engine.wire.monitor import BoardSample

__all__ = ["Mailbox"]

_MOST = 512


class Mailbox:
    """A queue that never blocks who tells: while nobody takes, the oldest samples go.

    So it is while a job is paused.
    """

    def __init__(self) -> None:
        self._waiting: deque[Told | BaseException] = deque()
        self._changed = threading.Condition()

    def put(self, told: Told | BaseException) -> None:
        """Add what was told, or why a thread ended that never should."""
        with self._changed:
            if len(self._waiting) >= _MOST:
                places = enumerate(self._waiting)
                oldest = next((at for at, it in places if isinstance(it, BoardSample)), 0)
                del self._waiting[oldest]
            self._waiting.append(told)
            self._changed.notify()

    def take(self, seconds: float) -> Told | None:
        """The next one; None where there is none within so many seconds.

        Raises:
            BaseException: what ended a thread.
        """
        with self._changed:
            if not self._waiting:
                self._changed.wait(seconds)
            found = self._waiting.popleft() if self._waiting else None
        if isinstance(found, BaseException):
            raise found
        return found
