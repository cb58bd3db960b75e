"""The front of error against time: builds and variants as points, the undominated ones joined."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from engine import BuildRow, Tried, build_times, pareto_front, recipe_of, sanitize, sqnr_text, tried
from engine.wire.formats import MILLISECONDS
from engine.wire.sweep import SWEEP
from rknntui.widgets.charts import Axis, Chart, Spot, scatter

if TYPE_CHECKING:
    from engine import Priced
    from rknntui.bridge import Bridge
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

_ESTIMATED = 20
"""So many of the newest builds are estimated."""
_ABOVE_DB = 6.0
"""So far above the others stands what has no error."""


class BuildTimes:
    """Estimated times of builds and variants on the chip of the target.

    Args:
        session: has the target and the last sweep.

    Attributes:
        by_id: id of a build or variant -> milliseconds; None where they are not known.
        chip: that they are of.
        rows: the builds, the newest first.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.by_id: dict[str, float | None] = {}
        self.chip: str | None = None
        self.rows: Sequence[BuildRow] = ()

    def follow_target(self) -> None:
        """Forget the times of another chip."""
        if self.chip != self._session.chip:
            self.chip = self._session.chip
            self.by_id = {}

    @property
    def tried(self) -> list[Tried]:
        """The builds that are done, and the variants of the last sweep."""
        job, sweep = self._session.last_of(SWEEP) or (None, None)
        ours = job is not None and self._session.is_ours(job)
        return tried(self.rows, (job.recipe if job else None) or {}, sweep if ours else None)

    @property
    def points(self) -> list[Priced]:
        """Those that have both figures."""
        return [(time, one) for one in self.tried if (time := self.by_id.get(one.id))]

    async def ask(self, bridge: Bridge) -> AsyncIterator[None]:
        """Ask for those that have none, the newest first; gives the turn at each that is known."""
        done = [row for row in self.rows[:_ESTIMATED] if row.state == "done"]
        wanted = [(row.id, recipe_of(row.record)) for row in done]
        wanted += [(one.id, one.recipe) for one in self.tried if one.variant]
        by_id, missing = self.by_id, [one for one in wanted if one[0] not in self.by_id]
        async for build, time in build_times(bridge.call, missing, self.chip):
            by_id[build] = time
            if by_id is self.by_id:
                yield


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
        best = pareto_front(self._points)
        spots, top = [], ""
        for point in sorted(
            self._points, key=lambda p: (p[1].id == self._chosen, not p[1].variant)
        ):
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
