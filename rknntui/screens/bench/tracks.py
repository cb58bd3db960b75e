"""Figures of boards over time: what sparklines and the curve of a run are drawn of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.wire.board_tables import state_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.wire.board import BoardFacts, BoardState
    from engine.wire.monitor import BoardSample

KEPT = 600
"""Looks whose figures are kept: more than any screen is wide."""


@dataclass
class Track:
    """One figure over time.

    Attributes:
        show: its text.
        top: what fills its sparkline; 0 for the greatest value so far.
        whole: whether it is kept from its begin on, in ever wider steps; else its last looks are.
        values: of looks, or of steps; None where the board did not tell.
        minimum, maximum: of all looks; None before the first figure.
        now: of the last look.
    """

    show: Callable[[float], str]
    top: float = 0.0
    whole: bool = False
    values: list[float | None] = field(default_factory=list)
    minimum: float | None = None
    maximum: float | None = None
    now: float | None = None
    _step: int = 1
    _part: list[float | None] = field(default_factory=list)

    def add(self, value: float | None) -> None:
        """Take the figure of a look."""
        self.now = value
        if value is not None:
            self.minimum = value if self.minimum is None else min(self.minimum, value)
            self.maximum = value if self.maximum is None else max(self.maximum, value)
        self._part.append(value)
        if len(self._part) < self._step:
            return
        self.values.append(_mean(self._part))
        self._part.clear()
        if len(self.values) > KEPT and self.whole:
            self.values = [_mean(self.values[at : at + 2]) for at in range(0, KEPT, 2)]
            self._step *= 2
        elif len(self.values) > KEPT:
            del self.values[:-KEPT]

    def means(self, most: int) -> tuple[float, ...]:
        """From its begin to now in at most so many steps; looks that told nothing are left out."""
        known = [value for value in self.values if value is not None]
        step = max(1, math.ceil(len(known) / most))
        means = (_mean(known[at : at + step]) for at in range(0, len(known), step))
        return tuple(mean for mean in means if mean is not None)

    @property
    def span(self) -> str:
        """Its least and its greatest figure."""
        return " to ".join(self.show(v) for v in (self.minimum, self.maximum) if v is not None)

    @property
    def full(self) -> float:
        """What fills the sparkline."""
        return self.top or self.maximum or 0.0


def _mean(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) / len(told) if told else None


class BoardTrack:
    """What a watch has seen of one board.

    Attributes:
        device: as the user names it.
        facts: what it is; None until it was reached.
        tracks: its figures by their names, in their order on the screen.
        problem: why the last look found nothing.
        note: what is to be known of its looks, such as that there are fewer of them.
        state: of the last look that was answered.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.facts: BoardFacts | None = None
        self.tracks: dict[str, Track] = {}
        self.problem = ""
        self.note = ""
        self.state: BoardState | None = None

    @property
    def loads(self) -> dict[str, Track]:
        """Of the cores of the NPU."""
        return {n: t for n, t in self.tracks.items() if n.startswith("NPU") and "clock" not in n}

    def take(self, sample: BoardSample) -> None:
        """Take a look."""
        state = sample.state
        self.problem, self.state = sample.problem, state or self.state
        figures = {} if state is None else {one.name: one for one in state_figures(state)}
        for name, one in figures.items():
            self.tracks.setdefault(name, Track(one.format.text, one.whole))
        for name, track in self.tracks.items():
            track.add(figures[name].value if name in figures else None)
