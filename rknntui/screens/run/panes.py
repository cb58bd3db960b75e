"""The views of Run: outputs, layers, memory, comparison, and what is said below each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import on
from textual.containers import Container, Vertical
from textual.message import Message

from rknntui.keys.text import with_keys
from rknntui.screens.run import facts
from rknntui.screens.run.compare import ComparePane
from rknntui.screens.run.layers import LayersPane
from rknntui.screens.run.memory import MemoryPane
from rknntui.screens.run.outputs import OutputsPane
from rknntui.screens.run.text import EMPTY
from rknntui.widgets.line_list import Rows, TextRows
from rknntui.widgets.view_bar import ViewBar

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine.wire.board import Ran
    from engine.wire.build import Simulated
    from rknntui.widgets.records import RecordTable

__all__ = ["PANES", "Results"]

PANES = {
    "Outputs": "outputs-pane",
    "Layers": "layers-pane",
    "Memory": "memory-pane",
    "Compare": "compare-pane",
}
"""View -> its pane."""
_LOW = 32
_FEW_LINES, _MANY_LINES = 4, 8


class Results(Vertical):
    """One of four views.

    Attributes:
        run: the last run; None before one.
        error: why live runs stopped; empty where they did not.
    """

    DEFAULT_CSS = """
    Results {
        height: 1fr;
        & #run-body { height: 1fr; }
        & #layers-pane, & #memory-pane, & #compare-pane { display: none; }
        & #run-notes { height: auto; padding: 0 1; }
    }
    """

    class Changed(Message):
        """Another view is shown, or the cursor is on another layer."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.run: Simulated | Ran | None = None
        self.error = ""

    def compose(self) -> ComposeResult:
        yield ViewBar(tuple(PANES), id="run-views")
        with Container(id="run-body"):
            yield OutputsPane(id="outputs-pane")
            yield LayersPane(id="layers-pane")
            yield MemoryPane(id="memory-pane")
            yield ComparePane(id="compare-pane")
        yield TextRows(id="run-notes")

    def on_mount(self) -> None:
        notes = self.query_one("#run-notes", TextRows)
        notes.SHOW_CURSOR = False
        notes.display = False

    @property
    def bar(self) -> ViewBar:
        """The names of the views."""
        return self.query_one(ViewBar)

    @property
    def view(self) -> str:
        """The one that is shown."""
        return self.bar.current

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
        width = max(20, self.size.width - 4)
        match self.view:
            case "Layers":
                lines = facts.layer_lines(self.timed.result, self.error, width)
            case "Memory":
                lines = facts.memory_lines(self.memory.result, width)
            case "Compare":
                lines = facts.compared_lines(self.compared.result, width)
            case _:
                lines = facts.note_lines(self.run, width)
        notes = self.query_one("#run-notes", TextRows)
        notes.display = bool(lines)
        notes.styles.height = min(
            len(lines), _FEW_LINES if self.app.size.height < _LOW else _MANY_LINES
        )
        notes.set_lines(lines, keep_cursor=True)

    def on_resize(self) -> None:
        """Wrap anew."""
        self.call_after_refresh(self.tell)

    @on(ViewBar.Changed)
    def _view_changed(self, event: ViewBar.Changed) -> None:
        event.stop()
        for name, selector in PANES.items():
            self.query_one(f"#{selector}").display = name == event.name
        self.table.focus()
        self.tell()
        self.post_message(self.Changed())

    @on(Rows.Highlighted, "#layer-times, #compared")
    def _moved(self) -> None:
        self.post_message(self.Changed())
