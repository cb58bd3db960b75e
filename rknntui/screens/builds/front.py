"""The front of error against time: builds and variants as points, the undominated ones joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from engine import BuildRow, Tried, pareto_front, recipe_of, sanitize, sqnr_text, tried
from engine.wire.cost import COST_ESTIMATE, EstimateParams, Estimates
from engine.wire.formats import MILLISECONDS
from engine.wire.sweep import SWEEP
from rknntui.widgets.charts import Axis, Chart, Spot, scatter

if TYPE_CHECKING:
    from engine import Priced
    from rknntui.screens.base.workspace import Workspace
    from rknntui.widgets.strips import Line

_ESTIMATED = 20
"""So many of the newest builds are estimated."""
_ABOVE_DB = 6.0
"""So far above the others stands what has no error."""


class BuildTimes:
    """Estimated times of builds and variants on the chip of the target.

    They are asked one at a time, never beside work.

    Args:
        owner: asks the engine.
        changed: called when one more is known.

    Attributes:
        by_id: id of a build or variant -> milliseconds; None where it is asked or not known.
        chip: that they are of.
        rows: the builds, the newest first.
    """

    def __init__(self, owner: Workspace, changed: Callable[[], None]) -> None:
        self._owner, self._changed = owner, changed
        self.by_id: dict[str, float | None] = {}
        self.chip: str | None = None
        self.rows: Sequence[BuildRow] = ()
        self._asking = ""

    def follow_target(self) -> None:
        """Forget the times of another chip."""
        if self.chip != self._owner.session.chip:
            self.chip = self._owner.session.chip
            self.by_id.clear()

    @property
    def tried(self) -> list[Tried]:
        """The builds that are done, and the variants of the last sweep."""
        session = self._owner.session
        job, sweep = session.last_of(SWEEP) or (None, None)
        ours = job is not None and session.is_ours(job)
        return tried(self.rows, (job.recipe if job else None) or {}, sweep if ours else None)

    @property
    def points(self) -> list[Priced]:
        """Those that have both figures."""
        return [(time, one) for one in self.tried if (time := self.by_id.get(one.id))]

    def ask_next(self) -> None:
        """Ask for the newest that has none."""
        if self._owner.session.running is not None or not self._owner.shown:
            return
        self.by_id.pop(self._asking, None)  # another question takes its place
        self._asking = ""
        done = [row for row in self.rows[:_ESTIMATED] if row.state == "done"]
        wanted = [(row.id, recipe_of(row.record)) for row in done]
        wanted += [(one.id, one.recipe) for one in self.tried if one.variant]
        for build, recipe in wanted:
            chip = self.chip or recipe.get("target_platform")
            if build not in self.by_id and chip:
                self._asking, self.by_id[build] = build, None
                asked = EstimateParams(recipe=dict(recipe), chips=(str(chip),), layers=False)
                got = partial(self._take, build, self.chip)
                self._owner.ask(COST_ESTIMATE, asked, got, failed=got)
                return

    def _take(self, build: str, target: str | None, answer: Estimates | Exception) -> None:
        self._asking = ""
        if isinstance(answer, Estimates) and target == self.chip:
            time = answer.chips[0].time_ms if answer.chips else None
            self.by_id[build] = time.value if time is not None else None
        self._changed()
        self.ask_next()


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
