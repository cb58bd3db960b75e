"""The views of Run: outputs, layers, memory, comparison, and what is said below each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from textual import on

from rknntui.keys.text import with_keys
from rknntui.screens.base.views import Views
from rknntui.screens.run import facts
from rknntui.screens.run.compare import ComparePane
from rknntui.screens.run.layers import LayersPane
from rknntui.screens.run.memory import MemoryPane
from rknntui.screens.run.outputs import OutputsPane
from rknntui.screens.run.text import EMPTY
from rknntui.widgets.line_list import Rows
from rknntui.widgets.view_bar import ViewBar

if TYPE_CHECKING:
    from textual.widget import Widget

    from engine.wire.board import Ran
    from engine.wire.build import Simulated
    from rknntui.widgets.records import RecordTable
    from rknntui.widgets.strips import Line

PANES = {
    "Outputs": "outputs-pane",
    "Layers": "layers-pane",
    "Memory": "memory-pane",
    "Compare": "compare-pane",
}
"""View -> its pane."""


class Results(Views):
    """One of four views.

    Attributes:
        run: the last run; None before one.
        error: why live runs stopped; empty where they did not.
    """

    VIEWS = PANES

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.run: Simulated | Ran | None = None
        self.error = ""

    def panes(self) -> Iterator[Widget]:
        yield OutputsPane(id="outputs-pane")
        yield LayersPane(id="layers-pane")
        yield MemoryPane(id="memory-pane")
        yield ComparePane(id="compare-pane")

    @property
    def outputs(self) -> OutputsPane:
        """What came out."""
        return self.query_one(OutputsPane)

    @property
    def timed(self) -> LayersPane:
        """The times of the layers."""
        return self.query_one(LayersPane)

    @property
    def memory(self) -> MemoryPane:
        """The memory of the board."""
        return self.query_one(MemoryPane)

    @property
    def compared(self) -> ComparePane:
        """The comparison of golden, simulator and board."""
        return self.query_one(ComparePane)

    @property
    def table(self) -> RecordTable[Any]:
        """The table of the view."""
        tables: dict[str, RecordTable[Any]] = {
            "Layers": self.timed.table,
            "Memory": self.memory.table,
            "Compare": self.compared.table,
        }
        return tables.get(self.view, self.outputs.table)

    @property
    def layer_id(self) -> str:
        """The build's layer under the cursor; empty for none."""
        if self.view == "Layers":
            return self.timed.layer_id
        return self.compared.layer_id if self.view == "Compare" else ""

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

    @property
    def first_focus(self) -> Widget:
        return self.table

    def notes(self, width: int) -> list[Line]:
        match self.view:
            case "Layers":
                return facts.layer_lines(self.timed.result, self.error, width)
            case "Memory":
                return facts.memory_lines(self.memory.result, width)
            case "Compare":
                return facts.compared_lines(self.compared.result, width)
            case _:
                return facts.note_lines(self.run, width)

    @on(ViewBar.Changed)
    def _other_view(self) -> None:
        self.tell()

    @on(Rows.Highlighted, "#layer-times, #compared")
    def _moved(self) -> None:
        self.post_message(self.Changed(view=False))
