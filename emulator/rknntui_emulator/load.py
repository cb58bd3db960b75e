"""The load of an emulated NPU: how busy the stand-in library has kept each core, as rknpu tells."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

__all__ = ["LoadMeter"]

_WINDOW_SECONDS = 1.0
"""The kernel's driver counts over a second."""


class LoadMeter:
    """Percent of each core over the last second.

    Args:
        cores: of the NPU.
    """

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._seen: deque[tuple[float, tuple[int, ...]]] = deque()

    def take(self, at: float, busy: Sequence[int]) -> list[int]:
        """The load now.

        Args:
            at: seconds of a clock that only goes on.
            busy: microseconds that each core has been busy since some start.
        """
        self._seen.append((at, tuple(busy[: self._cores])))
        while len(self._seen) > 2 and at - self._seen[1][0] >= _WINDOW_SECONDS:
            self._seen.popleft()
        begun, before = self._seen[0]
        seconds = at - begun
        if seconds <= 0:
            return [0] * self._cores
        return [
            max(0, min(100, round((now - then) / 1e4 / seconds)))
            for now, then in zip(self._seen[-1][1], before, strict=True)
        ]
