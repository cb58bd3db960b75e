"""The figures of boards that are watched, over time: what the monitor draws."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine import human_bytes
from rknntui.screens.devices.text import megahertz

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.wire.board import BoardFacts, BoardState
    from engine.wire.monitor import BoardSample

KEPT = 600
"""Looks whose figures are kept: more than any screen is wide."""
_WARMEST = 100.0
"""Degrees Celsius that fill a sparkline; chips are throttled below."""


@dataclass
class Track:
    """One figure over time.

    Attributes:
        name: in front of it.
        show: its text.
        top: what fills its sparkline; 0 for the greatest value so far.
        values: of the last looks; None where the board did not tell.
        minimum, maximum: of all looks; None before the first figure.
    """

    name: str
    show: Callable[[float], str]
    top: float = 0.0
    values: deque[float | None] = field(default_factory=lambda: deque(maxlen=KEPT))
    minimum: float | None = None
    maximum: float | None = None

    def add(self, value: float | None) -> None:
        """Take the figure of a look."""
        self.values.append(value)
        if value is not None:
            self.minimum = value if self.minimum is None else min(self.minimum, value)
            self.maximum = value if self.maximum is None else max(self.maximum, value)

    @property
    def now(self) -> float | None:
        """The figure of the last look."""
        return self.values[-1] if self.values else None

    @property
    def full(self) -> float:
        """What fills the sparkline."""
        return self.top or self.maximum or 0.0


class BoardTrack:
    """What a watch has seen of one board.

    Attributes:
        device: as the user names it.
        facts: what it is; None until it was reached.
        tracks: its figures, by their names, in their order on the screen.
        samples, missed: looks that it answered, and that it did not.
        problem: why the last look found nothing.
        note: what is to be known of its looks, such as that there are fewer of them.
        reasons: name of a figure -> why the board does not tell it.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.facts: BoardFacts | None = None
        self.tracks: dict[str, Track] = {}
        self.samples = 0
        self.missed = 0
        self.problem = ""
        self.note = ""
        self.reasons: dict[str, str] = {}

    def take(self, sample: BoardSample) -> None:
        """Take a look."""
        state = sample.state
        self.problem = sample.problem
        if state is None:
            self.missed += 1
            for track in self.tracks.values():
                track.add(None)
            return
        found = {track.name: (track, value) for track, value in _figures(state)}
        for name, (track, _) in found.items():
            if name not in self.tracks:
                known = max((len(t.values) for t in self.tracks.values()), default=0)
                track.values.extend([None] * known)  # of looks before it was told first
                self.tracks[name] = track
        for name, track in self.tracks.items():
            track.add(found[name][1] if name in found else None)
        self.samples += 1
        self.reasons = {
            name: state.reason(attribute)
            for attribute, name in _ATTRIBUTES.items()
            if state.reason(attribute)
        }


_ATTRIBUTES = {
    "npu_load": "NPU load",
    "npu_clock": "NPU clock",
    "ddr_clock": "DDR clock",
    "temperatures": "temperature",
    "memory": "memory used",
}


def _figures(state: BoardState) -> Iterator[tuple[Track, float]]:
    """Each figure that a look told, and an empty track for it."""
    loads = state.npu_load or ()
    for core, load in enumerate(loads):
        name = f"NPU core {core}" if len(loads) > 1 else "NPU load"
        yield Track(name, lambda value: f"{value:.0f} %", 100.0), load
    if state.npu_clock is not None:
        yield Track("NPU clock", _clock), float(state.npu_clock)
    if state.ddr_clock is not None:
        yield Track("DDR clock", _clock), float(state.ddr_clock)
    if (celsius := state.npu_celsius) is not None:
        yield Track("temperature", lambda value: f"{value:.1f} °C", _WARMEST), celsius
    memory = state.memory
    if memory is not None and memory.total and memory.available is not None:
        used = float(memory.total - memory.available)
        yield Track("memory used", lambda value: human_bytes(int(value)), float(memory.total)), used


def _clock(value: float) -> str:
    return megahertz(int(value))
