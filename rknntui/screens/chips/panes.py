"""The views of Chips, and what is said below each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from textual import getters, on
from textual.containers import Vertical

from engine import human_bytes
from engine.wire.cost_tables import TENSORS
from engine.wire.formats import MILLISECONDS, RATIO
from engine.wire.layers import COST, LayerFigures, by_layer, layer_rows
from engine.wire.table import Column, Record, Table
from rknntui.keys.actions import with_keys
from rknntui.screens.base.views import LOW, Views
from rknntui.screens.chips import words
from rknntui.screens.chips.charts import RooflinePane, SpansChart, alive_at, peak_of
from rknntui.screens.chips.code import CodePane
from rknntui.screens.chips.compiling import error_lines
from rknntui.screens.chips.estimates import AS_IS
from rknntui.screens.chips.exports import ExportsPane
from rknntui.screens.chips.listing import AdvicePane, ChipsPane
from rknntui.screens.chips.toolkits import NO_TOOLKIT, ToolkitsPane, toolkit_lines
from rknntui.widgets.findings import wrapped
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable, name_text
from rknntui.widgets.strips import bar

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from engine.wire.compile import Compiled
    from engine.wire.cost import ChipEstimate, Estimates
    from engine.wire.table import Meaning
    from rknntui.screens.chips.compiling import Targets
    from rknntui.screens.chips.estimates import Answers, Want, Way
    from rknntui.screens.chips.toolkits import KnownToolkits
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

_BAR = 8
_SIGNS = {"CPU": "!", "unknown": "?", "none": "✗"}

# The memory of a model on a chip: over time, and which tensors are in it.


class SpansPane(Vertical):
    """The blocks of memory over time; below them the tensors that are alive at a layer."""

    DEFAULT_CSS = """
    SpansPane { height: 1fr; & RecordView { height: 2fr; min-height: 5; } }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.found: ChipEstimate | None = None
        self._table = RecordTable(TENSORS, id="alive-tensors", what="memory")

    def compose(self) -> ComposeResult:
        yield SpansChart(id="spans")
        yield RecordView("Tensors alive (estimated)", self._table, id="alive")

    chart = getters.query_one(SpansChart)
    """The blocks."""

    @property
    def table(self) -> RecordTable:
        """The tensors."""
        return self._table

    def take(self, found: ChipEstimate | None, said: str) -> None:
        """Show a chip; ``said`` stands there while there is nothing."""
        self.found = found
        memory = found.memory if found is not None else None
        layers = len(found.layers) if found is not None else 0
        spans = memory.spans if memory is not None else ()
        self.chart.show(spans, max(layers, max((s.last + 1 for s in spans), default=0)), said)
        self._list()

    @on(SpansChart.Moved)
    def _list(self) -> None:
        chart, estimate = self.chart, self.found
        alive = alive_at(chart.spans, chart.chosen)
        peak = peak_of(chart.spans)[1]
        names = estimate.layers if estimate is not None else ()
        at = names[chart.chosen].name if chart.chosen < len(names) else ""
        title = f"Tensors alive at layer {chart.chosen + 1} {name_text(at)}".rstrip()
        size = human_bytes(sum(span.end - span.start for span in alive))
        view = self.query_one("#alive", RecordView)
        view.set_title(f"{title}: {size} (estimated)" if alive else "Tensors alive (estimated)")
        self._table.set_records(
            [
                TENSORS.record(span, share=(span.end - span.start) / peak if peak else None)
                for span in alive
            ],
            keep="tensor",
        )


class ComparePane(RecordView):
    """A row for each layer of the build, with its time on each of the compared chips."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(_side_by_side(()), id="compared-chips", what="compared")
        super().__init__("Layers side by side (estimated)", table, id=id)

    def take(self, found: Sequence[ChipEstimate]) -> None:
        """Show the chips beside each other, in the order of the first one's layers."""
        self.table.declared = _side_by_side([row.chip for row in found])
        chips = [_by_name(chip) for chip in found]
        longest = max((_ms(row) for rows in chips for row in rows.values()), default=0.0)
        records: list[Record] = []
        for number, name in enumerate(dict.fromkeys(name for rows in chips for name in rows), 1):
            steps = [rows.get(name) for rows in chips]
            first = next(row for row in steps if row is not None)
            record: dict[str, object] = {"number": number, "name": name, "op": first.first("op")}
            for at, row in enumerate(steps):
                value = None if row is None else _ms(row)
                record[f"ms{at}"] = value
                record[f"bar{at}"] = bar(value / longest, _BAR) if value and longest else ""
                record[f"on{at}"] = row and _SIGNS.get(row.placement or "", " ")
            known = [value for row in steps if row is not None and (value := _ms(row))]
            record["ratio"] = max(known) / min(known) if len(known) > 1 else None
            records.append(record)
        self.table.set_records(records, keep="name")

    @property
    def layer_id(self) -> str:
        """Id of the layer under the cursor."""
        record = self.table.record
        return "" if record is None else str(record["name"])


def _side_by_side(chips: Sequence[str]) -> Table:
    """Position, layer, and for each chip its time, a bar and a sign where it is not on the NPU."""

    def sign_style(sign: str | None) -> Meaning:
        return "bad" if sign == "✗" else "warn"

    columns = [*COST.pick("number", "name").columns, replace(COST.column("op"), from_width=100)]
    for at, chip in enumerate(chips):
        columns += [
            Column(f"ms{at}", f"{chip} ms", MILLISECONDS, value=None),
            Column(f"on{at}", name="placement", width=1, style=sign_style, value=None),
            replace(
                COST.column("bar"), key=f"bar{at}", width=_BAR, from_width=30 + 24 * len(chips)
            ),
        ]
    ratio = Column("ratio", format=RATIO, value=None, from_width=72)
    title = "A layer, and its time on each chip (estimated)."
    return Table("compared-chips", title, (*columns, ratio))


def _by_name(estimate: ChipEstimate) -> dict[str, LayerFigures]:
    """Layer id -> all its rows as one; a row without layer by its printed name."""
    rows = (replace(row, id=row.name) for row in layer_rows(estimate))
    return {row.id: row for row in by_layer(rows)}


def _ms(row: LayerFigures) -> float:
    return 0.0 if row.estimated is None else row.estimated.time_ms


_NONE = "No model is open.\n\n{app.open} opens a model or a recipe."
_WAITING = "Estimating …"
_EMPTY = {
    "Advice": "Nothing to advise: all layers run on the NPU of this chip, and no tip of the "
    "manuals applies to this model.",
    "Roofline": "No layer of this model multiplies, or none takes time.",
    "Memory": "No tensors are known for this chip.",
}
_LEAST_LINES = 2
_FRAME = 3
"""Lines of the bar of views, of a table's caption and of its head."""


@dataclass(frozen=True)
class Shown:
    """What the views show.

    Attributes:
        answers: of the open model.
        want: what is looked at.
        targets: the chips, which are marked, and how they are compiled for.
        toolkits: the environments.
        compiled: chip -> what became of it.
        target: the chip of the recipe.
        working: the job of Toolkits.
    """

    answers: Answers
    want: Want
    targets: Targets
    toolkits: KnownToolkits
    compiled: Mapping[str, Compiled]
    target: str
    working: JobView | None

    @property
    def estimate(self) -> ChipEstimate | None:
        """The chip that is looked at, with its layers."""
        return self.answers.estimate(self.want.chip, self.want.scenario)

    @property
    def found(self) -> Estimates | None:
        """All chips; None before the answer."""
        return self.answers.overview(self.want.scenario)

    @property
    def before(self) -> Estimates | None:
        """All chips with the recipe as it is; None where nothing is varied."""
        return self.answers.overview() if self.want.scenario != AS_IS else None

    @cached_property
    def ways(self) -> Mapping[str, list[Way]]:
        """Chip -> what would bring it to the goal, the cheapest first, where it is known."""
        known = {
            row.chip: self.answers.ways(row) for row in (self.found.chips if self.found else ())
        }
        return {name: ways for name, ways in known.items() if ways is not None}


class ChipViews(Views):
    """One of eight views."""

    VIEWS = {
        "Chips": (ChipsPane, "chips-pane"),
        "Code": (CodePane, "code-pane"),
        "Exports": (ExportsPane, "exports-pane"),
        "Compare": (ComparePane, "side-pane"),
        "Memory": (SpansPane, "spans-pane"),
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

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._shown: Shown | None = None

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

    def draw(self, shown: Shown) -> None:
        """Show what is known for the view."""
        self._shown = shown
        answers, want = shown.answers, shown.want
        said = self._said()
        if self.view not in ("Code", "Exports"):
            self.pane.table.set_empty(said)
        match self.view:
            case "Chips":
                self.chips.take(shown)
                self.chips.show_job(shown.targets.job)
            case "Compare":
                chips = (want.chip, *want.others)
                estimates = [answers.estimate(chip, want.scenario) for chip in chips]
                self.pane.take([row for row in estimates if row is not None])
            case "Memory" | "Roofline":
                self.pane.take(shown.estimate, said)
            case "Advice":
                self.pane.take(answers.advice(want.chip, want.scenario), shown.estimate)
            case "Toolkits":
                self.toolkits.take(shown.toolkits.rows or ())
                self.toolkits.show_job(shown.working)
        self.tell()

    def _said(self) -> str:
        """What stands where there are no rows."""
        shown = self._shown
        if self.view == "Toolkits":
            return with_keys(NO_TOOLKIT)
        if shown is None or not shown.answers.model:
            return with_keys(_NONE)
        if shown.answers.error:
            return shown.answers.error
        known: object = shown.estimate
        if self.view == "Advice" and known is not None:
            known = shown.answers.advice(shown.want.chip, shown.want.scenario)
        if known is None:
            return _WAITING
        problem = getattr(shown.estimate, "problem", "")
        return str(problem) or _EMPTY.get(self.view, "No layer.")

    @property
    def first_focus(self) -> Widget:
        return self.spans.chart if self.view == "Memory" else super().first_focus

    def most_notes(self) -> int:
        """What the table leaves free; of all chips a screen of 24 lines shows every one."""
        if self.whole:
            return self.size.height - 1
        table = self.table
        free = self.size.height - _FRAME - (table.total if table is not None else 0)
        if self.view in ("Memory", "Roofline", "Code"):
            return super().most_notes()
        least = _LEAST_LINES if self.view == "Chips" else super().most_notes()
        return max(least, free)

    def tell(self) -> None:
        """What is said stands right below the rows, where these leave room."""
        super().tell()
        if self.app.size.height >= LOW and self.view not in ("Memory", "Roofline", "Code"):
            self.told.styles.height = self.most_notes()

    def notes(self, width: int) -> list[Line]:
        shown = self._shown
        if shown is None:
            return []
        match self.view:
            case "Chips":
                return self._of_chip(shown, width)
            case "Memory":
                return words.memory_lines(shown.estimate, width)
            case "Advice":
                lines = words.advice_lines(self.pane.table.record, shown.estimate, width)
                return lines + words.limit_lines(shown.estimate, width)
            case "Code":
                return self.code.notes(width)
            case "Exports":
                return wrapped(self.exports.form.about, width, "dim")
            case "Toolkits":
                if shown.toolkits.error is not None:
                    return error_lines(shown.toolkits.error, width)
                failed = words.failed_lines(shown.working, width)
                return [*failed, *toolkit_lines(self.toolkits.environment, width)]
            case _:
                return words.chip_lines(shown.estimate, width)

    def _of_chip(self, shown: Shown, width: int) -> list[Line]:
        """All that is known of the chip under the cursor, what needs a deed first."""
        chip, found = self.chips.chip, shown.found
        row = next((row for row in (found.chips if found else ()) if row.chip == chip), None)
        lines: list[Line] = []
        if row is not None and row.reaches and found is not None:
            lines += words.goal_lines(row, found.fps_asked, shown.ways.get(chip), width)
        made = words.compile_lines(shown.targets, shown.toolkits, chip, shown.compiled, width)
        parts = [made, words.chip_lines(row, width)]
        if chip not in shown.compiled and made[:1] and made[0][0][1] != "bad":
            parts.reverse()  # what could be done stands below what is known
        lines += parts[0] + parts[1]
        estimate = shown.answers.estimate(chip, shown.want.scenario)
        lines += words.limit_lines(estimate, width)
        return lines + words.facts_lines(shown.targets.facts.get(chip), width)

    @on(Rows.Highlighted)
    def _moved(self) -> None:
        self.post_message(self.Changed(view=False))
