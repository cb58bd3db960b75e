"""The search for layers to promote: what it is asked for, and its curve while it grows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Vertical

from engine import gain_text, sanitize, sqnr_rank, sqnr_text
from engine.wire.build import AccuracyParams
from engine.wire.build_tables import SEARCH_POINTS
from engine.wire.formats import DURATION
from engine.wire.hybrid import CURVE, CurvePoint, ProposeParams, SearchParams, SearchResult
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.dialogs.request import Form
from rknntui.screens.layers.words import samples_text
from rknntui.widgets.charts import CurveChart, Series
from rknntui.widgets.divider import Divider
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import Fact, FactsLine
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from rknntui.session.job_view_model import JobView

N = TypeVar("N", int, float)

_STYLES = ("accent", "good", "warn")
_EMPTY = (
    "No search yet.\n\n"
    "{layers.search} searches: given a floor in dB or a budget of layers, it finds the layers "
    "whose dtype matters most."
)
_BEGUN = "Estimating the effect of every layer on the outputs; the first steps follow."
_ENDED = {
    "floor": "floor reached",
    "budget": "budget used",
    "time": "time limit reached",
    "asked": "stopped by you",
    "nothing more": "no further gain",
}
_ASKED = {
    "floor_db": "floor {} dB",
    "budget": "{} layers",
    "budget_ms": "{} ms",
    "seconds": "at most {} s",
}
"""What a search was asked for -> how the line on top says it."""
_OPEN = {"path": "the recipe of the build that is shown"}
ANALYSE_FORM = Form("Compare the layers with the float graph", (AccuracyParams,), _OPEN)
SEARCH_FORM = Form("Search for layers to promote", (SearchParams,), _OPEN)
PROPOSE_FORM = Form("Propose layers to promote", (ProposeParams,), _OPEN)
FIRST = SearchParams(budget=5, dtype="float16")
"""What a search is asked for at first."""


def checked_search(asked: SearchParams) -> SearchParams:
    """The same; ValueError where it would not know when to end."""
    if asked.floor_db is None and asked.budget is None and asked.budget_ms is None:
        raise ValueError("A search needs a floor or a budget.")
    return asked


def _gained(first: float, here: float) -> str:
    """What a step has over the first one; nothing of one that began without noise."""
    if math.isinf(first):
        return ""
    return f"{gain_text(None if math.isinf(here) else here - first, unit=False)}, "


class SearchPane(Vertical):
    """State, curve and points of the search that runs or ran last.

    Attributes:
        asked: as the last search was asked for.
        found: result of the last search once it is done.
    """

    DEFAULT_CSS = """
    SearchPane {
        height: 1fr;
        & CurveChart { height: 3fr; }
        & RecordView { height: 2fr; }
    }
    """

    asked = FIRST
    found: SearchResult | None = None
    _job: JobView | None = None
    _result: SearchResult | None = None
    _points: Sequence[CurvePoint] = ()

    def compose(self) -> ComposeResult:
        yield FactsLine(id="search-facts")
        yield CurveChart(id="curve")
        yield Divider("search-divider")
        table = RecordTable(SEARCH_POINTS, id="points", what="curve", empty=with_keys(_EMPTY))
        yield RecordView("Steps of the search", table)

    table = getters.query_one("#points", RecordTable)
    """The points."""

    def on_mount(self) -> None:
        self._clock = self.set_interval(1, self.draw, pause=True)

    def show_search(self, job: JobView | None) -> None:
        """Show the search that runs or ran last, in its latest state; None where there is none."""
        running = job is not None and job.running
        (self._clock.resume if running else self._clock.pause)()
        result = None if running else self.found
        points = list(result.curve) if result is not None and job is not None else []
        if job is not None and not points:
            points = [point for part in job.partials if (point := CURVE.of(part)) is not None]
        table = self.table
        at_end = table.cursor >= table.row_count - 1
        table.set_empty(_BEGUN if running else with_keys(_EMPTY))
        ended = result if self._result is None else None
        grew = points != self._points
        self._job, self._result, self._points = job, result, points
        if grew:
            table.set_records([SEARCH_POINTS.record(point) for point in points])
            table.cursor = table.row_count - 1 if at_end else table.cursor
        if ended is not None:
            table.select_record("step", ended.best.step)
        self.draw()

    @property
    def point(self) -> CurvePoint | None:
        """The point of the curve under the cursor."""
        row = self.table.row
        return None if row is None else self._points[row]

    @on(Rows.Highlighted, "#points")
    def draw(self) -> None:
        """The line on top and the chart, with the step under the cursor."""
        self.query_one("#search-facts", FactsLine).show(*self._facts())
        marked = self.table.row
        names = list(self._points[0].outputs) if self._points else []
        series = []
        for name, style in zip(names, _STYLES, strict=False):
            values = tuple(sqnr_rank(point.outputs.get(name)) for point in self._points)
            here = values[-1 if marked is None else marked]
            title = f"{name}  {sqnr_text(values[0], unit=False)} → {sqnr_text(here)}"
            over = f" {samples_text(samples)}" if (samples := self._points[0].samples) else ""
            title += f" ({_gained(values[0], here)}simulated{over})"
            series.append(Series(title, values, style))
        self.query_one(CurveChart).show(series, marked)

    def _outcome(self, job: JobView) -> str:
        """Which step is the best and why the search ended."""
        result = self._result
        if result is None:
            return f"search {job.state}"
        ended = _ENDED.get(result.ended, result.ended)
        missed = ", floor not reached" if result.reached is False else ""
        return f"best: step {result.best.step} · {ended}{missed}"

    def _applies(self) -> Fact:
        """What the step under the cursor promotes, named before it is applied."""
        point = self.point
        if point is None:
            return Fact("")
        promotes = f"{key_text('layers.apply')} promotes {len(point.layers)}"
        along = ", ".join(name for name in point.layers if name not in point.promoted)
        whole = f"{promotes}, to move values {sanitize(along, 80)}" if along else promotes
        return Fact(whole, (promotes,), 1)

    def _facts(self) -> tuple[Fact, ...]:
        job = self._job
        if job is None:
            return ()
        if not job.running:
            outcome = Fact(f"{'✓' if job.state == 'done' else '✗'} {self._outcome(job)}")
            took = "" if job.seconds is None else DURATION.text(job.seconds)
            return outcome, Fact(took, rank=1), self._applies()
        params = job.params
        asked = [text.format(params[k]) for k, text in _ASKED.items() if params.get(k) is not None]
        verb = "demoted from" if params.get("demote") else "to"
        what = ", ".join([*asked, f"{verb} {params.get('dtype', 'float16')}"])
        elapsed = max(0, int(time.time() - job.started))
        how = f"paused, {key_text('layers.pause')} resumes" if job.paused else "▶ searching"
        how = "stopping" if job.cancelling else how
        steps = Fact(f"{len(self._points)} steps")
        return Fact(how), Fact(what, rank=1), Fact(f"{elapsed} s"), steps
