"""The views of Chips, and what is said below each."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on

from rknntui.keys.text import with_keys
from rknntui.screens.base.views import LOW, Views
from rknntui.screens.chips import facts
from rknntui.screens.chips.advice import AdvicePane, CheckPane
from rknntui.screens.chips.layers import ComparePane, CostPane
from rknntui.screens.chips.listing import ChipsPane
from rknntui.screens.chips.memory import SpansPane
from rknntui.screens.chips.roofline import RooflinePane
from rknntui.screens.chips.scenario import AS_IS
from rknntui.widgets.line_list import Rows

if TYPE_CHECKING:
    from textual.widget import Widget

    from engine.wire.cost import ChipEstimate
    from rknntui.screens.chips.estimates import Answers, Want
    from rknntui.widgets.records import RecordTable
    from rknntui.widgets.strips import Line

PANES = {
    "Chips": "chips-pane",
    "Layers": "cost-pane",
    "Compare": "side-pane",
    "Memory": "spans-pane",
    "Roofline": "roofline-pane",
    "Check": "check-pane",
    "Advice": "advice-pane",
}
"""View -> its pane."""
_LEAST_LINES = 2
_NONE = "No model is open.\n\n{app.open} opens a model or a recipe."
_WAITING = "Estimating …"
_EMPTY = {
    "Check": "Every layer of this model runs on the NPU of this chip.",
    "Advice": "Nothing to advise: no tip of the manuals applies to this model.",
    "Roofline": "No layer of this model multiplies, or none takes time.",
    "Memory": "No tensors are known for this chip.",
}


@dataclass(frozen=True)
class Shown:
    """What the views show.

    Attributes:
        answers: of the open model.
        want: what is looked at.
        marked: chips that are compared.
        opened: whether a model is open.
    """

    answers: Answers
    want: Want
    marked: Collection[str]
    opened: bool

    @property
    def estimate(self) -> ChipEstimate | None:
        """The chip that is looked at, with its layers."""
        return self.answers.estimate(self.want.chip, self.want.scenario)

    @property
    def before(self) -> ChipEstimate | None:
        """The same with the recipe as it is; None where nothing is varied."""
        varied = self.want.scenario != AS_IS
        return self.answers.estimate(self.want.chip) if varied else None


class ChipViews(Views):
    """One of seven views."""

    VIEWS = PANES
    NOTES_FOCUS = False

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._shown: Shown | None = None

    def panes(self) -> Iterator[Widget]:
        yield ChipsPane(id="chips-pane")
        yield CostPane(id="cost-pane")
        yield ComparePane(id="side-pane")
        yield SpansPane(id="spans-pane")
        yield RooflinePane(id="roofline-pane")
        yield CheckPane(id="check-pane")
        yield AdvicePane(id="advice-pane")

    @property
    def chips(self) -> ChipsPane:
        """The chips side by side."""
        return self.query_one(ChipsPane)

    @property
    def costs(self) -> CostPane:
        """The layers of a chip."""
        return self.query_one(CostPane)

    @property
    def spans(self) -> SpansPane:
        """The memory over time."""
        return self.query_one(SpansPane)

    @property
    def table(self) -> RecordTable:
        """The table of the view."""
        tables: dict[str, RecordTable] = {
            "Chips": self.chips.table,
            "Layers": self.costs.table,
            "Compare": self.query_one(ComparePane).table,
            "Memory": self.spans.table,
            "Roofline": self.query_one(RooflinePane).table,
            "Check": self.query_one(CheckPane).table,
            "Advice": self.query_one(AdvicePane).table,
        }
        return tables[self.view]

    @property
    def layer_id(self) -> str:
        """The build's layer under the cursor; empty for none."""
        match self.view:
            case "Layers":
                return self.costs.layer_id
            case "Compare":
                return self.query_one(ComparePane).layer_id
            case "Roofline":
                return self.query_one(RooflinePane).layer_id
            case "Check":
                return self.query_one(CheckPane).layer_id
            case "Advice":
                return self.query_one(AdvicePane).layer_id
            case _:
                return ""

    def draw(self, shown: Shown) -> None:
        """Show what is known for the view."""
        self._shown = shown
        answers, want = shown.answers, shown.want
        varied = want.scenario != AS_IS
        said = self._said()
        self.table.set_empty(said)
        match self.view:
            case "Chips":
                before = answers.overview() if varied else None
                self.chips.take(answers.overview(want.scenario), before, shown.marked)
            case "Layers":
                self.costs.take(shown.estimate, shown.before)
            case "Compare":
                chips = (want.chip, *want.others)
                found = [answers.estimate(chip, want.scenario) for chip in chips]
                self.query_one(ComparePane).take([row for row in found if row is not None])
            case "Memory":
                self.spans.take(shown.estimate, said)
            case "Roofline":
                self.query_one(RooflinePane).take(shown.estimate, said)
            case "Check":
                self.query_one(CheckPane).take(answers.check(want.chip, want.scenario))
            case "Advice":
                self.query_one(AdvicePane).take(answers.advice(want.chip, want.scenario))
        self.tell()

    def _said(self) -> str:
        """What stands where there are no rows."""
        shown = self._shown
        if shown is None or not shown.opened:
            return with_keys(_NONE)
        if shown.answers.error:
            return shown.answers.error
        known = {
            "Check": shown.answers.check(shown.want.chip, shown.want.scenario),
            "Advice": shown.answers.advice(shown.want.chip, shown.want.scenario),
        }.get(self.view, shown.estimate)
        if known is None:
            return _WAITING
        problem = getattr(known, "problem", "")
        return str(problem) or _EMPTY.get(self.view, "No layer.")

    @property
    def first_focus(self) -> Widget:
        return self.spans.chart if self.view == "Memory" else self.table

    def most_notes(self) -> int:
        """Few below all chips, which a screen of 24 lines shows whole."""
        few = self.view == "Chips" and self.app.size.height < LOW
        return _LEAST_LINES if few else super().most_notes()

    def notes(self, width: int) -> list[Line]:
        shown = self._shown
        if shown is None:
            return []
        record = self.table.record
        match self.view:
            case "Layers":
                return facts.layer_lines(self.costs.layer_table.figures, shown.estimate, width)
            case "Memory":
                return facts.memory_lines(shown.estimate, width)
            case "Check":
                check = shown.answers.check(shown.want.chip, shown.want.scenario)
                return facts.check_lines(record, check, width)
            case "Advice":
                advice = shown.answers.advice(shown.want.chip, shown.want.scenario)
                return facts.advice_lines(record, advice, width)
            case "Chips":
                return facts.chip_lines(self.chips.estimate, width)
            case _:
                return facts.chip_lines(shown.estimate, width)

    @on(Rows.Highlighted)
    def _moved(self) -> None:
        self.post_message(self.Changed(view=False))
