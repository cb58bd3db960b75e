"""The outputs of a run, and the largest values of the one under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.containers import Horizontal

from engine import not_finite, sanitize
from engine.wire.build import SimulatedOutput, TopValue
from engine.wire.build_tables import LARGEST, OUTPUTS
from engine.wire.table import Record
from rknntui.keys.text import with_keys
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import bar

if TYPE_CHECKING:
    from textual.app import ComposeResult

_NO_RUN = "No result yet: {run.run} runs the input."
_BAR = 8
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

    @property
    def table(self) -> RecordTable[SimulatedOutput]:
        """The outputs of the last run."""
        return self.query_one("#outputs", RecordTable)

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
        LARGEST.record(one, rank=rank, bar=bar((one.value - low) / span, _BAR) if span > 0 else "")
        for rank, one in enumerate(values, 1)
    ]
