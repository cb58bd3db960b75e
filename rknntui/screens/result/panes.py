"""The views of Run: outputs, layers, memory, comparison, and what is said below each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import getters, on
from textual.containers import Horizontal

from engine import not_finite, sanitize
from engine.wire.board import MemoryReport, SystemMemory
from engine.wire.board_tables import MEMORY, memory_rows
from engine.wire.build import ACCURACY, SimulatedOutput, TopValue
from engine.wire.build_tables import LARGEST, OUTPUTS
from engine.wire.layers import BOARD, COMPARE, LayerFigures, by_layer, layer_rows
from engine.wire.table import Record
from rknntui.keys.actions import with_keys
from rknntui.screens.base.views import Views
from rknntui.screens.result import words
from rknntui.screens.result.words import EMPTY
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import ViewBar
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import bar

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.wire.board import LiveLook, Ran
    from engine.wire.build import Simulated
    from engine.wire.compare import Comparison
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

# The outputs of a run, and the largest values of the one under the cursor.

_NO_RUN = "No result yet: {result.run} runs the input."
_LOGIT_BAR = 8
_TOPS = (5, 10, 20, 50, 100, 1000)
MOST_VALUES = max(_TOPS)
"""So many of the largest values are asked for."""


class OutputsPane(Horizontal):
    """Two tables side by side."""

    DEFAULT_CSS = """
    OutputsPane {
        height: 1fr;
        & #outputs-view { width: 5fr; }
        & #top-view { width: 4fr; margin: 0 0 0 1; }
    }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._top = 0

    def compose(self) -> ComposeResult:
        outputs = RecordTable[SimulatedOutput](
            OUTPUTS, id="outputs", what="outputs", empty=with_keys(_NO_RUN)
        )
        yield RecordView("Outputs", outputs, id="outputs-view")
        top = RecordTable(LARGEST, id="top", what="top", empty="")
        yield RecordView("Largest values", top, id="top-view")

    table = getters.query_one("#outputs", RecordTable)
    """The outputs of the last run."""

    def take(self, outputs: Sequence[SimulatedOutput], label: str) -> None:
        """Show the outputs of a run; ``label`` is what kind of numbers they are."""
        title = f"Outputs ({label})" if label else "Outputs"
        self.query_one("#outputs-view", RecordView).set_title(title)
        self.table.set_records(outputs, keep="name")
        self.show_top()

    def clear(self) -> None:
        """There is no run."""
        self.take((), "")
        self.query_one("#top-view", RecordView).set_title("Largest values")

    @on(Rows.Highlighted, "#outputs")
    def show_top(self) -> None:
        """Show the largest values of the output under the cursor."""
        output, table = self.table.record, self.query_one("#top", RecordTable)
        if output is None:
            table.set_records([])
            return
        odd = f" ({not_finite(output.not_finite)})" if output.not_finite else ""
        title = f"Top {_TOPS[self._top]} of {sanitize(output.name, 40)}{odd}"
        self.query_one("#top-view", RecordView).set_title(title)
        table.set_records(_largest(output.top[: _TOPS[self._top]]))

    def step(self, by: int) -> None:
        """Show more values, or fewer."""
        self._top = max(0, min(self._top + by, len(_TOPS) - 1))
        self.show_top()


def _largest(values: Sequence[TopValue]) -> list[Record]:
    """The largest values with a bar between the smallest and the largest of them."""
    low = min([*(one.value for one in values), 0.0])
    span = max([*(one.value for one in values), 0.0]) - low
    return [
        LARGEST.record(
            one, rank=rank, bar=bar((one.value - low) / span, _LOGIT_BAR) if span > 0 else ""
        )
        for rank, one in enumerate(values, 1)
    ]


# What a model takes on a board, and what the board has.

_BAR = 20


class MemoryPane(RecordView):
    """A row for each kind of memory.

    Attributes:
        result: what the board told; None before that.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(MEMORY, id="memory", what="memory")
        super().__init__("Memory", table, id=id)
        self.result: MemoryReport | None = None

    def clear(self) -> None:
        """Forget the figures: they are of another model or board."""
        self.result = None
        self.set_title("Memory")
        self.table.set_records([])

    def take(self, report: MemoryReport) -> None:
        """Show what a board told."""
        self.result = report
        self.set_title(f"Memory ({report.label})")
        records = []
        for row in memory_rows(report):
            share = row["size"] / row["of"] if row["size"] and row["of"] else 0.0
            records.append({**row, "bar": bar(share, _BAR).rstrip()})
        self.table.set_records(records, keep="part")

    def take_beside(self, run: Ran | LiveLook, system: SystemMemory | None) -> None:
        """Show what a run told beside its outputs or layers; what it did not tell stays."""
        before = self.result
        if before is not None:
            system = system or before.system
        report = MemoryReport(
            label=run.label,
            device=run.device,
            chip=run.chip,
            runtime=run.runtime,
            memory=run.memory,
            reason=run.memory_reason,
            model_bytes=before.model_bytes if before is not None else 0,
            system=system,
        )
        self.take(report)


# The layers of a model as a board's runtime timed them, beside their errors.


@dataclass
class _Times:
    """The times of a row over several runs, in microseconds."""

    runs: int = 0
    total: float = 0.0

    def add(self, microseconds: float | None) -> None:
        if microseconds is not None:
            self.runs += 1
            self.total += microseconds

    @property
    def mean(self) -> float | None:
        return self.total / self.runs if self.runs > 1 else None


class LayersPane(LayerView):
    """A row for each step of the runtime's own table.

    Attributes:
        result: the run that is shown; None before one.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(BOARD, id="layer-times", what="layers")
        super().__init__("Layers", table, id=id)
        self.result: Ran | LiveLook | None = None
        self._times: dict[int, _Times] = {}

    def clear(self) -> None:
        """Forget the layers: they are of another model or board."""
        self.result = None
        self._times.clear()
        self.set_title("Layers")
        self.layer_table.show_layers(())

    def take(
        self,
        result: Ran | LiveLook,
        errors: Sequence[LayerFigures],
        *,
        more: bool = False,
    ) -> None:
        """Show a run; order, filter and the row under the cursor stay.

        Args:
            result: with the times of layers.
            errors: of the layers.
            more: whether it is one of several runs of the same, whose mean is shown too.
        """
        if not more:
            self._times.clear()
        self.result = result
        for row in result.layers:
            self._times.setdefault(row.number, _Times()).add(row.microseconds)
        self.set_title(f"Layers ({result.label})")
        self.join(errors)

    def join(self, errors: Sequence[LayerFigures]) -> None:
        """Show the errors beside the times."""
        rows = () if self.result is None else layer_rows(self.result)
        known = {row.id: row for row in errors}

        def mean(row: LayerFigures) -> dict[str, object]:
            also = len(row.measured.also) if row.measured is not None else 0
            return {
                "name": row.name + (f" +{also}" if also else ""),
                "mean": None if row.measured is None else self._times[row.measured.number].mean,
            }

        joined = [row | known[row.id] if row.id in known else row for row in rows]
        table, top = self.layer_table, self.table.scroll_offset.y
        shown = top <= table.cursor < top + max(1, table.size.height - table.head)
        table.show_layers(joined, more=mean)
        if not shown:  # looked at away from the cursor: live rows do not lead back to it
            table.scroll_to(y=top, animate=False, force=True)


def errors_of(session: Session) -> tuple[LayerFigures, ...]:
    """The last analysis of this recipe's model by layer; empty before one."""
    job, accuracy = session.last_of(ACCURACY) or (None, None)
    if accuracy is None or job is None or job.recipe != session.recipe:
        return ()
    return by_layer(layer_rows(accuracy))


# Golden, simulator and board side by side, layer by layer.


class ComparePane(LayerView):
    """The layers in the order of the graph; the first that diverges has the cursor.

    Attributes:
        result: of the comparison that is shown; None before one.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(COMPARE, id="compared", what="compared")
        super().__init__("Compared layers", table, id=id)
        self.result: Comparison | None = None

    def clear(self) -> None:
        """Forget the comparison: it is of another model or board."""
        self.result = None
        self.set_title("Compared layers")
        self.layer_table.show_layers(())

    def take(self, found: Comparison) -> None:
        """Show a comparison."""
        self.result = found
        self.set_title(f"Compared layers (board: {found.label})")

        def sign(row: LayerFigures) -> dict[str, str]:
            diverges = row.compared is not None and row.compared.diverges
            return {"sign": "✗" if row.id == found.first else "!" if diverges else ""}

        self.layer_table.show_layers(layer_rows(found), more=sign, keep="name")
        if found.first:
            self.table.select_record("name", found.first)


class Results(Views):
    """One of four views.

    Attributes:
        run: the last run; None before one.
        error: why live runs stopped; empty where they did not.
    """

    VIEWS = {
        "Outputs": (OutputsPane, "outputs-pane"),
        "Layers": (LayersPane, "layers-pane"),
        "Memory": (MemoryPane, "memory-pane"),
        "Compare": (ComparePane, "compare-pane"),
    }

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.run: Simulated | Ran | None = None
        self.error = ""

    outputs = getters.query_one(OutputsPane)
    """What came out."""

    timed = getters.query_one(LayersPane)
    """The times of the layers."""

    memory = getters.query_one(MemoryPane)
    """The memory of the board."""

    compared = getters.query_one(ComparePane)
    """The comparison of golden, simulator and board."""

    def clear(self) -> None:
        """What is shown is of another model or board."""
        self.run, self.error = None, ""
        for pane in (self.outputs, self.timed, self.memory, self.compared):
            pane.clear()

    def tell(self) -> None:
        """Show what is said beside the figures, in the width of now."""
        for pane, name in (
            (self.timed, "Layers"),
            (self.memory, "Memory"),
            (self.compared, "Compare"),
        ):
            pane.table.set_empty(with_keys(EMPTY[name]))
        super().tell()

    def notes(self, width: int) -> list[Line]:
        match self.view:
            case "Layers":
                return words.layer_lines(self.timed.result, self.error, width)
            case "Memory":
                return words.memory_lines(self.memory.result, width)
            case "Compare":
                return words.compared_lines(self.compared.result, width)
            case _:
                return words.note_lines(self.run, width)

    @on(ViewBar.Changed)
    def _other_view(self) -> None:
        self.tell()

    @on(Rows.Highlighted, "#layer-times, #compared")
    def _moved(self) -> None:
        self.post_message(self.Changed(view=False))
