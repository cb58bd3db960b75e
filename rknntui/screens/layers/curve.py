"""Curves over the network: error and time along the layers, with the cursor of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.wire.layers import LAYERS
from rknntui.widgets.charts import Chart, bars
from rknntui.widgets.strips import fit

if TYPE_CHECKING:
    from engine.wire.layers import LayerFigures
    from rknntui.widgets.strips import Line


@dataclass(frozen=True)
class Band:
    """One curve: a figure of every layer.

    Attributes:
        title: with its unit, and what the figure is.
        key: of the column of :data:`engine.wire.layers.LAYERS` that has it.
        style: of its bars.
        worst: of neighbours that share a cell, the one that is drawn.
    """

    title: str
    key: str
    style: str
    worst: Callable[[Sequence[float]], float]


CURVES: dict[str, tuple[Band, ...]] = {
    "SQNR along the network": (
        Band("SQNR dB, cumulative (simulated)", "sqnr", "accent", min),
        Band("SQNR dB, isolated (simulated)", "isolated_sqnr", "good", min),
    ),
    "Time along the network": (
        Band("ms (estimated)", "time_ms", "accent", max),
        Band("µs (of the board)", "microseconds", "good", max),
    ),
}
"""Title -> its bands, from the top, in the order in which a key shows them."""


class NetworkCurve(Chart):
    """Bars of a figure for each layer in the network's order; ``▲`` stands under the cursor's.

    Blocks and words only, so that it is read in 16 colours and without any.
    """

    DEFAULT_CSS = """
    NetworkCurve { height: 8; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.bands: tuple[Band, ...] = ()
        self._rows: Sequence[LayerFigures] = ()
        self._at: int | None = None

    def show(self, rows: Sequence[LayerFigures], cursor: str) -> None:
        """Draw the layers in their order, with the one under the cursor marked."""
        at = next((at for at, row in enumerate(rows) if row.id == cursor), None)
        if rows is not self._rows or at != self._at:
            self._rows, self._at = rows, at
            self.redraw()

    def choose(self, name: str) -> None:
        """Show other bands; none hides it."""
        self.bands = CURVES.get(name, ())
        self.display = bool(self.bands)
        self.redraw()

    def _draw(self, width: int, height: int) -> list[Line]:
        columns = {band: LAYERS.column(band.key) for band in self.bands}
        values = {band: [column.of(row) for row in self._rows] for band, column in columns.items()}
        known = [band for band in self.bands if any(v is not None for v in values[band])]
        room = width - 2
        if not known or room < 12:
            return [[(" nothing of this is known yet", "dim")]]
        per = -(-len(self._rows) // room)
        each = max(1, min(8, room // len(self._rows)))
        rows = max(1, (height - 1) // len(known) - 1)
        lines: list[Line] = []
        for band in known:
            own = values[band]
            here = None if self._at is None else own[self._at]
            finite = [value for value in own if value is not None and value < math.inf]
            top = max(finite, default=1.0) or 1.0
            text = columns[band].format.show
            least = f"{text(min(finite)).strip()} to " if finite else ""
            said = f"{band.title} · {least}{text(top).strip()}"
            if here is not None:
                said += f" · here {text(here).strip()}"
            lines.append([(f" {fit(said, room).rstrip()}", "head")])
            floor = min(finite, default=0.0) - 0.1 * top if band.worst is min else 0.0
            cells = []
            for at in range(0, len(own), per):
                group = [min(v, top) - floor for v in own[at : at + per] if v is not None]
                cells.append(band.worst(group) if group else 0.0)
            drawn = bars(cells, rows, top - floor)
            lines += [[(" ", ""), ("".join(c * each for c in line), band.style)] for line in drawn]
        rule = ["─"] * (-(-len(self._rows) // per) * each)
        if self._at is not None:
            rule[self._at // per * each] = "▲"
        return [*lines, [(" " + "".join(rule), "dim")]][:height]
