"""The views of Chips: one pane of eight, what stands where it has no rows, what is said below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import getters, on

from rknntui.keys.actions import with_keys
from rknntui.screens.base.views import LOW, Views
from rknntui.screens.chips.charts import ChartPane, RooflinePane, SpansPane
from rknntui.screens.chips.code import CodePane
from rknntui.screens.chips.exports import ExportsPane
from rknntui.screens.chips.listing import AdvicePane, ChipsPane, ComparePane
from rknntui.screens.chips.toolkits import ToolkitsPane
from rknntui.widgets.line_list import Rows

if TYPE_CHECKING:
    from textual.widget import Widget

    from rknntui.screens.chips.workspace import Chips
    from rknntui.widgets.strips import Line

_LEAST_LINES = 2
_FRAME = 3
"""Lines of the bar of views, of a table's caption and of its head."""


class ChipViews(Views):
    """One of eight views.

    Args:
        chips: knows what they show. Each pane has ``take``, which shows it, and ``notes``.
    """

    VIEWS = {
        "Chips": (ChipsPane, "chips-pane"),
        "Code": (CodePane, "code-pane"),
        "Exports": (ExportsPane, "exports-pane"),
        "Compare": (ComparePane, "side-pane"),
        "Memory": (SpansPane, "memory-pane"),
        "Roofline": (RooflinePane, "roofline-pane"),
        "Advice": (AdvicePane, "advice-pane"),
        "Toolkits": (ToolkitsPane, "toolkits-pane"),
    }
    DEFAULT_CSS = """
    ChipViews.-detail {
        & > .views-body { display: none; }
        & > .views-notes { height: 1fr; }
    }
    """

    def __init__(self, chips: Chips) -> None:
        super().__init__(id="chips-panes")
        self._chips = chips

    chips = getters.query_one(ChipsPane)
    """The chips side by side."""

    spans = getters.query_one(SpansPane)
    """The memory over time."""

    code = getters.query_one(CodePane)
    """The project."""

    exports = getters.query_one(ExportsPane)
    """The forms of a build."""

    toolkits = getters.query_one(ToolkitsPane)
    """The environments."""

    @property
    def whole(self) -> bool:
        """Whether the detail stands in the place of the table."""
        return self.has_class("-detail")

    def show_detail(self, whole: bool) -> None:
        """Put the detail in the place of the table, or below it again."""
        self.set_class(whole, "-detail")
        self.tell()
        (self.told if whole else self.first_focus).focus()

    def draw(self) -> None:
        """Show what is known for the view."""
        if self.view not in ("Code", "Exports"):
            self.pane.table.set_empty(with_keys(self._chips.said))
        self.pane.take(self._chips)
        self.tell()

    @property
    def first_focus(self) -> Widget:
        return self.spans.chart if self.view == "Memory" else super().first_focus

    def most_notes(self) -> int:
        """What the table leaves free; of all chips a screen of 24 lines shows every one."""
        if self.whole:
            return self.size.height - 1
        most = super().most_notes()
        if isinstance(self.pane, ChartPane | CodePane):
            return most
        free = self.size.height - _FRAME - (self.table.total if self.table is not None else 0)
        return max(_LEAST_LINES if self.view == "Chips" else most, free)

    def tell(self) -> None:
        """What is said stands right below the rows, where these leave room."""
        super().tell()
        if self.app.size.height >= LOW and not isinstance(self.pane, ChartPane | CodePane):
            self.told.styles.height = self.most_notes()

    def notes(self, width: int) -> list[Line]:
        lines: list[Line] = self.pane.notes(self._chips, width)
        return lines

    @on(Rows.Highlighted)
    def _moved(self) -> None:
        self.post_message(self.Changed(view=False))
