"""When a board was looked at: distances by its own clock, their place by this machine's."""

from __future__ import annotations

__all__ = ["BoardTimes"]

_DRIFT = 1e-3
_LATE_SECONDS = 60.0


class BoardTimes:
    """Puts times of a board's clock, which starts anywhere, on this machine's.

    A look cannot have been later than it was heard of, and the one that was heard of soonest tells
    where the board's clock is. That is let go by 0.1 % of the time, which is more than any two
    clocks differ by. A board that makes no sense is believed to have looked when it was heard.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._before = 0.0
        self._last = 0.0

    def at(self, told: float, heard: float) -> float:
        """When a look was, by this machine's clock; never before the one that was told last.

        Args:
            told: of the board's clock, in seconds.
            heard: of this machine's clock.
        """
        lag = heard - told
        if self._offset is None or told < self._before or lag - self._offset > _LATE_SECONDS:
            self._offset = lag
        else:
            self._offset = min(lag, self._offset + _DRIFT * (told - self._before))
        self._before = told
        self._last = max(self._last, told + self._offset)
        return self._last
