"""What a watch saw of its boards, in memory that does not grow with its length."""

from __future__ import annotations

from collections.abc import Iterable

from engine.base.errors import UsageError
from engine.devices.watch.board_watch import Told
from engine.wire.board import BoardFacts, BoardState
from engine.wire.monitor import BoardNote, BoardSummary, Span

BOARDS = 64
"""Boards of one watch at most."""

_NOTES = 10
_CORES = 64
_SENSORS = 16


class _Sums:
    """Least, sum and greatest of what was added."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = self._minimum = self._maximum = 0.0

    def add(self, value: float | None) -> None:
        """Add a figure; None is none."""
        if value is None:
            return
        self._minimum = min(self._minimum, value) if self._count else value
        self._maximum = max(self._maximum, value) if self._count else value
        self._count += 1
        self._sum += value

    def span(self) -> Span | None:
        """None where there was no figure."""
        if not self._count:
            return None
        # the mean of equal figures is that figure
        mean = min(max(self._sum / self._count, self._minimum), self._maximum)
        return Span(self._minimum, mean, self._maximum)


class _BoardSums:
    def __init__(self, device: str) -> None:
        self.facts = BoardFacts(device, "measured")
        self.samples = self.missed = 0
        self.notes: list[str] = []
        self._load: list[_Sums] = []
        self._clock, self._celsius, self._memory = _Sums(), _Sums(), _Sums()
        self._power: dict[str, _Sums] = {}

    def add(self, state: BoardState | None) -> None:
        if state is None:
            self.missed += 1
            return
        self.samples += 1
        load = (state.npu_load or ())[:_CORES]
        self._load += [_Sums() for _ in range(len(load) - len(self._load))]
        for sums, percent in zip(self._load, load, strict=False):
            sums.add(percent)
        self._clock.add(state.npu_clock)
        self._celsius.add(state.npu_celsius)
        for power in (state.powers or ())[:_SENSORS]:
            self._power.setdefault(power.sensor, _Sums()).add(power.watts)
        memory = state.memory
        if memory is not None and memory.total is not None and memory.available is not None:
            self._memory.add(memory.total - memory.available)

    def summary(self) -> BoardSummary:
        spans = (sums.span() for sums in self._load)
        return BoardSummary(
            facts=self.facts,
            samples=self.samples,
            missed=self.missed,
            npu_load=tuple(span for span in spans if span is not None),
            npu_clock=self._clock.span(),
            celsius=self._celsius.span(),
            memory_used=self._memory.span(),
            power={name: span for name, sums in self._power.items() if (span := sums.span())},
            notes=tuple(self.notes),
        )


class WatchSums:
    """Running figures of several boards.

    Args:
        devices: boards that have a summary even if they never tell anything.
    """

    def __init__(self, devices: Iterable[str] = ()) -> None:
        self._boards = {device: _BoardSums(device) for device in devices}

    def add(self, told: Told) -> None:
        """Take what was told.

        Raises:
            UsageError: it is of one board too many.
        """
        sums = self._boards.get(told.device)
        if sums is None:
            if len(self._boards) >= BOARDS:
                raise UsageError(f"There are more than {BOARDS} boards.")
            sums = self._boards[told.device] = _BoardSums(told.device)
        if isinstance(told, BoardFacts):
            sums.facts = told
        elif isinstance(told, BoardNote):
            if told.text not in sums.notes and len(sums.notes) < _NOTES:
                sums.notes.append(told.text)
        else:
            sums.add(told.state)

    def summaries(self) -> tuple[BoardSummary, ...]:
        """Of each board, in the order in which they came."""
        return tuple(sums.summary() for sums in self._boards.values())
