"""The views of Bench: layers timed, compared with the simulator, a run's curve, earlier runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import getters, on

from engine.wire.compare import Comparison
from engine.wire.layers import BOARD, COMPARE, LayerFigures, layer_rows
from engine.wire.measured import KEPT_RUNS, KeptRun, RunsCompared
from rknntui.keys.actions import with_keys
from rknntui.screens.base.views import Views
from rknntui.screens.bench import words
from rknntui.screens.bench.lines import spark
from rknntui.screens.bench.words import EMPTY, ExaminePane, FactsPane
from rknntui.widgets.charts import CurveChart, Series
from rknntui.widgets.layer_table import BAR, LayerTable, LayerView
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import ViewBar
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.widget import Widget

    from rknntui.screens.bench.live import Measuring
    from rknntui.widgets.strips import Line


class TimedPane(LayerView):
    """A row for each step of the runtime's own table, beside what else is known of its layer."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(BOARD, id="layer-times", what="layers", empty=with_keys(EMPTY["Layers"]))
        super().__init__("Layers", table, id=id)

    def show(self, run: Measuring, known: Sequence[LayerFigures]) -> None:
        """Show the newest times; order, filter and the row under the cursor stay."""
        answer = run.answer
        rows = () if answer is None else layer_rows(answer)
        if answer is not None and not rows:
            return  # a look that timed none
        self.set_title("Layers" if answer is None else f"Layers ({answer.label})")
        others = {row.id: row for row in known}

        def more(row: LayerFigures) -> Mapping[str, object]:
            also = len(row.measured.also) if row.measured is not None else 0
            track = None if row.measured is None else run.layers.get(row.measured.number)
            return {
                "name": row.name + (f" +{also}" if also else ""),
                "trend": "" if track is None else spark(track, BAR),
            }

        table, top = self.table, self.table.scroll_offset.y
        shown = top <= table.cursor < top + max(1, table.size.height - table.head)
        joined = [row | others[row.id] if row.id in others else row for row in rows]
        table.show_layers(joined, more=more)
        if not shown:  # looked at away from the cursor: live rows do not lead back to it
            table.scroll_to(y=top, animate=False, force=True)


class ComparePane(LayerView):
    """Float, simulator and board side by side, in the order of the graph.

    Attributes:
        result: of the comparison that is shown; None before one.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(
            COMPARE, id="compared", what="compared", empty=with_keys(EMPTY["Compare"])
        )
        super().__init__("Compared layers", table, id=id)
        self.result: Comparison | None = None

    def take(self, found: Comparison | None) -> None:
        """Show a comparison; the first layer that diverges has the cursor."""
        self.result = found
        self.set_title("Compared layers" + ("" if found is None else f" (board: {found.label})"))

        def sign(row: LayerFigures) -> dict[str, str]:
            diverges = row.compared is not None and row.compared.diverges
            first = found is not None and row.id == found.first
            return {"sign": "✗" if first else "!" if diverges else ""}

        rows = () if found is None else layer_rows(found)
        self.table.show_layers(rows, more=sign, keep="name")
        if found is not None and found.first:
            self.table.select_record("name", found.first)


class CurvePane(CurveChart):
    """A run over time, from its begin on: of minutes, or a thermal soak of hours."""

    def show_run(self, run: Measuring) -> None:
        """Draw the figures of a run."""
        series = []
        for name, track in run.curve.items():
            values = tuple(value for value in track.values if value is not None)
            if values and track.minimum is not None and track.maximum is not None:
                span = f"{track.show(track.minimum)} to {track.show(track.maximum)}"
                series.append(Series(f"{name}  {span}", values))
        self.show(series, said=with_keys("{bench.run} measures; its curve grows here."))


_RUNS = replace(
    KEPT_RUNS,
    columns=tuple(
        column.but(from_width=150) if column.key in ("id", "points", "layers") else column
        for column in KEPT_RUNS.columns
    ),
)


class RunsPane(RecordView):
    """Runs that were kept, the newest first.

    Attributes:
        compared: two of them; None before a comparison.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        empty = with_keys(EMPTY["Runs"])
        table = RecordTable[KeptRun](_RUNS, id="kept-runs", what="runs", empty=empty)
        super().__init__("Runs", table, id=id)
        self.compared: RunsCompared | None = None

    def take(self, runs: Sequence[KeptRun]) -> None:
        """Show the list."""
        self.table.set_records(runs, keep="id")

    @property
    def pair(self) -> tuple[str, str] | None:
        """Ids of the run under the cursor and the newest (of that the one before); None: no two."""
        runs = sorted((run.id for run in self.table.records if not run.damaged), reverse=True)
        here = self.table.record
        if here is None or len(runs) < 2:
            return None
        return (runs[1] if here.id == runs[0] else here.id), runs[0]


class BenchViews(Views):
    """One of six views of the board and the model on it."""

    VIEWS = {
        "Layers": (TimedPane, "layers-pane"),
        "Compare": (ComparePane, "compare-pane"),
        "Curve": (CurvePane, "curve-pane"),
        "Facts": (FactsPane, "facts-pane"),
        "Examine": (ExaminePane, "examine-pane"),
        "Runs": (RunsPane, "runs-pane"),
    }

    def __init__(self, run: Callable[[], Measuring], *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._run = run

    timed = getters.query_one(TimedPane)
    """The times of the layers."""

    compared = getters.query_one(ComparePane)
    """The comparison with the simulator."""

    curve = getters.query_one(CurvePane)
    """The run over time."""

    facts = getters.query_one(FactsPane)
    """What is known of the board under the cursor."""

    examined = getters.query_one(ExaminePane)
    """Its examination."""

    runs = getters.query_one(RunsPane)
    """Earlier runs."""

    @property
    def first_focus(self) -> Widget:
        return self.table or self.screen.query_one("#boards")

    def notes(self, width: int) -> list[Line]:
        match self.view:
            case "Layers":
                return words.layer_lines(self._run().answer, width)
            case "Compare":
                return words.compared_lines(self.compared.result, width)
            case "Runs" if self.runs.table.total:
                return words.runs_lines(self.runs.compared, width)
        return []

    @on(ViewBar.Changed)
    def _other_view(self) -> None:
        self.tell()

    @on(Rows.Highlighted, "#layer-times, #compared")
    def _moved(self) -> None:
        self.post_message(self.Changed(view=False))
