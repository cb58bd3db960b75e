"""The front of error against time: builds and variants as points, the undominated ones joined."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from engine import sanitize, sqnr_text
from engine.wire.formats import MILLISECONDS
from rknntui.session.builds import front
from rknntui.widgets.charts import Axis, Chart, Spot, scatter

if TYPE_CHECKING:
    from rknntui.session.builds import Priced
    from rknntui.widgets.strips import Line

_ABOVE_DB = 6.0
"""So far above the others stands what has no error."""


class FrontChart(Chart):
    """Lowest SQNR upwards, time to the right; signs say what the styles do."""

    DEFAULT_CSS = """
    FrontChart { height: 3fr; min-height: 6; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="front")
        self._points: Sequence[Priced] = ()
        self._chosen, self._chip, self._said = "", "", ""

    def show(self, points: Sequence[Priced], chosen: str, chip: str, said: str) -> None:
        """Draw points; ``chosen`` is the id of the marked one, ``said`` stands without any."""
        self._points, self._chosen, self._chip, self._said = points, chosen, chip, said
        self.redraw()

    def _draw(self, width: int, height: int) -> list[Line]:
        if not self._points or width < 30 or height < 5:
            return [[(self._said, "dim")]]
        finite = [one.lowest for _, one in self._points if math.isfinite(one.lowest)]
        equal = max(finite, default=0.0) + _ABOVE_DB
        best = front(self._points)
        spots, top = [], ""
        for point in sorted(self._points, key=lambda p: (p[1].id == self._chosen, p in best)):
            time, one = point
            sign, style = ("■", "good") if point in best else ("•", "")
            if one.variant:
                sign = "□"
            if one.id == self._chosen:
                sign, style = "◆", "head"
                place = ", front" if point in best else ""
                top = f"◆ {sqnr_text(one.lowest)}, {MILLISECONDS.text(time)} ms{place}  "
            spots.append(Spot(time, min(one.lowest, equal), sign, style))
        joined = [(time, min(one.lowest, equal)) for time, one in best]

        def line(x_axis: Axis, y_axis: Axis) -> Iterator[tuple[int, int, str]]:
            corners = [(x_axis.cell(x), y_axis.cell(y)) for x, y in joined]
            for (left, low), (right, high) in pairwise(corners):
                yield from ((low, column, "─") for column in range(left, right))
                yield from ((row, right, "│") for row in range(low + 1, high))
                yield low, right, "┘" if high > low else "─"

        legend = [(top, "head"), ("■ ", "good"), ("front • build □ variant", "dim")]
        if len(finite) < len(self._points):
            legend.append(("  top: equal", "dim"))
        units = "dB sim.", f"ms, estimated on {sanitize(self._chip, 20)}"
        return scatter(spots, width, height, units, legend, line, log=False)
