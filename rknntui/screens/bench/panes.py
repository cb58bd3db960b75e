"""The views of Bench: what is known of the board and of the model on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import getters, on

from engine import measured_facts, memory_facts
from engine.wire.board import BOARD_MEMORY, About, AboutParams, MemoryReport
from engine.wire.board_tables import MEMORY, memory_rows
from engine.wire.compare import COMPARE_BOARD, Comparison
from engine.wire.devices import Device
from engine.wire.formats import clock_text
from engine.wire.layer_tables import BOARD, COMPARE
from engine.wire.layers import LayerFigures, layer_rows
from engine.wire.measured import KEPT_RUNS, KeptRun, RunsCompared
from rknntui.keys.actions import with_keys
from rknntui.screens.base.views import Views
from rknntui.screens.bench import words
from rknntui.screens.bench.lines import spark
from rknntui.widgets.charts import CurveChart, Series
from rknntui.widgets.layer_table import BAR, LayerTable, LayerView
from rknntui.widgets.line_list import Rows, SidePane
from rknntui.widgets.one_line import ViewBar
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import bar
from rknntui.widgets.wrap import told

if TYPE_CHECKING:
    from textual.widget import Widget

    from rknntui.screens.bench.workspace import Bench
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

_RUNS = replace(
    KEPT_RUNS,
    columns=tuple(
        column.but(from_width=150) if column.key in ("id", "points", "layers") else column
        for column in KEPT_RUNS.columns
    ),
)
_TABLES = {
    "Layers": ("Layers", BOARD, "layer-times", "layers"),
    "Compare": ("Compared layers", COMPARE, "compared", "compared"),
    "Memory": ("Memory", MEMORY, "memory", "memory"),
    "Runs": ("Runs", _RUNS, "kept-runs", "runs"),
}
"""View -> its caption, and the columns, the id and the name of its table."""
ASKED_BY = {"Compare": COMPARE_BOARD.name, "Memory": BOARD_MEMORY.name}
"""View -> the job that fills its table."""


def _pane(view: str, *, id: str) -> RecordView:  # noqa: A002 - Textual's own name
    title, columns, name, what = _TABLES[view]
    empty = with_keys(words.EMPTY[view])
    if view in ("Layers", "Compare"):
        return LayerView(title, LayerTable(columns, id=name, what=what, empty=empty), id=id)
    return RecordView(title, RecordTable(columns, id=name, what=what, empty=empty), id=id)


Asked = tuple[Device, AboutParams]
"""A board as it is in the list, and what it is asked of itself."""


class BenchViews(Views):
    """One of seven views of the board and the model on it.

    Args:
        bench: whose views they are.

    Attributes:
        about: what boards told of themselves, or why they did not.
        asked: what is being asked.
        examined: id of a board -> the newest job that examined it.
        memory: what the model takes on the board, as it was asked; else the run tells it.
        comparison: with the simulator.
        runs_compared: two runs of the history.
    """

    VIEWS = {
        "Layers": (partial(_pane, "Layers"), "layers-pane"),
        "Compare": (partial(_pane, "Compare"), "compare-pane"),
        "Curve": (CurveChart, "curve-pane"),
        "Facts": (SidePane, "facts-pane"),
        "Memory": (partial(_pane, "Memory"), "memory-pane"),
        "Examine": (SidePane, "examine-pane"),
        "Runs": (partial(_pane, "Runs"), "runs-pane"),
    }

    def __init__(self, bench: Bench, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._bench = bench
        self._drawn_for = ""
        self.about: dict[Asked, About | Exception] = {}
        self.asked: Asked | None = None
        self.examined: dict[str, JobView] = {}
        self.memory: MemoryReport | None = None
        self.comparison: Comparison | None = None
        self.runs_compared: RunsCompared | None = None

    timed = getters.query_one("#layers-pane", LayerView)
    """A row for each step of the runtime's own table, beside what else is known of its layer."""

    compared = getters.query_one("#compare-pane", LayerView)
    """Float, simulator and board side by side, in the order of the graph."""

    curve = getters.query_one("#curve-pane", CurveChart)
    """A run over time, from its begin on: of minutes, or a thermal soak of hours."""

    facts = getters.query_one("#facts-pane", SidePane)
    """What is known of the board under the cursor."""

    examination = getters.query_one("#examine-pane", SidePane)
    """What was found on it."""

    runs = getters.query_one("#kept-runs", RecordTable)
    """Runs that were kept, the newest first."""

    @property
    def first_focus(self) -> Widget:
        return self.table or self.screen.query_one("#boards")

    @property
    def run_pair(self) -> tuple[str, str] | None:
        """Ids of the run under the cursor and the newest (of that the one before); None: no two."""
        kept: list[KeptRun] = self.runs.records
        runs = sorted((run.id for run in kept if not run.damaged), reverse=True)
        here: KeptRun | None = self.runs.record
        if here is None or len(runs) < 2:
            return None
        return (runs[1] if here.id == runs[0] else here.id), runs[0]

    @property
    def taken(self) -> MemoryReport | None:
        """What the model takes on the board: as it was asked, else as the run tells it."""
        answer = self._bench.run.answer
        if self.memory or answer is None or not (answer.memory or answer.memory_reason):
            return self.memory
        head = {name: getattr(answer, name) for name in ("label", "device", "chip", "runtime")}
        return MemoryReport(**head, memory=answer.memory, reason=answer.memory_reason)

    def notes(self, width: int) -> list[Line]:
        run, taken = self._bench.run.answer, self.taken
        match self.view:
            case "Layers" if run is not None:
                return told(measured_facts(run), width)
            case "Compare":
                return words.compared_lines(self.comparison, width)
            case "Memory" if taken is not None:
                return told(memory_facts(taken), width)
            case "Runs" if self.runs.total:
                return words.runs_lines(self.runs_compared, width)
        return []

    # -- drawing -----------------------------------------------------------------------------------

    @on(SidePane.Resized)
    def draw_board(self) -> None:
        """Show what is known of the board under the cursor."""
        bench, boards = self._bench, self._bench.session.boards
        device, model = bench.device, Path(bench.file or "").name
        name = "" if device is None else device.id
        asked = None if device is None else bench.about(device)
        waits = "asking the board…" if asked and asked == self.asked else ""
        answer = self.about.get(asked, waits) if asked else ""
        answer = waits if waits and isinstance(answer, Exception) else answer
        same, self._drawn_for = self._drawn_for == name, name
        lines = words.facts_lines(device, boards, answer, model, self.facts.text_width)
        self.facts.set_lines(lines, keep_cursor=same)
        width, job = self.examination.text_width, self.examined.get(name)
        lines = words.examined_lines(name, job, model, width)
        self.examination.set_lines(lines, keep_cursor=same)
        for view, method in ASKED_BY.items():
            job = bench.session.jobs.newest(method)
            text = f"… {job.title}" if job and job.running else with_keys(words.EMPTY[view])
            self.query_one(f"#{_TABLES[view][2]}", RecordTable).set_empty(text)

    def draw_run(self) -> None:
        """Show the figures of the run that the view draws over time or in a table."""
        if self.view == "Curve":
            run, room = self._bench.run, max(1, self.size.width - 2)
            series = [
                Series(f"{name}  {track.span}", track.means(room))
                for name, track in run.curve.items()
            ]
            if series:
                time = f", from the begin to {clock_text(run.at)}"
                series[0] = replace(series[0], title=series[0].title + time)
            self.curve.show(series, said=with_keys(words.EMPTY["Curve"]))
        elif self.view == "Memory":
            rows = () if self.taken is None else memory_rows(self.taken)
            records = [MEMORY.record(row, bar=_share(row["size"], row["of"])) for row in rows]
            self.query_one("#memory", RecordTable).set_records(records, keep="part")
            self.tell()

    def draw_layers(self) -> None:
        """Show the newest times; order, filter and the row under the cursor stay."""
        run, table = self._bench.run, self.timed.table
        answer = run.answer
        rows = () if answer is None else layer_rows(answer)
        if answer is not None and not rows:
            return  # a look that timed none
        self.timed.set_title("Layers" if answer is None else f"Layers ({answer.label})")
        others = {row.id: row for row in self._bench.session.layers.rows}

        def more(row: LayerFigures) -> Mapping[str, object]:
            also = len(row.measured.also) if row.measured is not None else 0
            track = None if row.measured is None else run.layers.get(row.measured.number)
            return {
                "name": row.name + (f" +{also}" if also else ""),
                "trend": "" if track is None else spark(track, BAR),
            }

        top = table.scroll_offset.y
        shown = top <= table.cursor < top + max(1, table.size.height - table.head)
        joined = [row | others[row.id] if row.id in others else row for row in rows]
        table.show_layers(joined, more=more)
        if not shown:  # looked at away from the cursor: live rows do not lead back to it
            table.scroll_to(y=top, animate=False, force=True)

    def take_comparison(self, found: Comparison) -> None:
        """Show a comparison; the first layer that diverges has the cursor."""
        self.comparison = found
        self.compared.set_title(f"Compared layers (board: {found.label})")

        def sign(row: LayerFigures) -> dict[str, str]:
            diverges = row.compared is not None and row.compared.diverges
            return {"sign": "✗" if row.id == found.first else "!" if diverges else ""}

        self.compared.table.show_layers(layer_rows(found), more=sign, keep="name")
        if found.first:
            self.compared.table.select_record("name", found.first)
        self.tell()

    @on(ViewBar.Changed)
    def _other_view(self) -> None:
        self.draw_run()
        self.tell()

    @on(Rows.Highlighted, "#layer-times, #compared")
    def _moved(self) -> None:
        self.post_message(self.Changed(view=False))


def _share(size: Any, whole: Any) -> str:
    return bar(size / whole, 20) if size and whole else ""
