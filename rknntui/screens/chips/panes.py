"""The views of Chips, and what is said below each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual import getters, on
from textual.containers import Vertical

from engine import human_bytes
from engine.wire.cost_tables import TENSORS
from engine.wire.formats import MILLISECONDS, RATIO
from engine.wire.layers import COST, LayerFigures, by_layer, layer_rows
from engine.wire.table import Column, Record, Table, since
from rknntui.keys.actions import with_keys
from rknntui.screens.base.views import LOW, Views
from rknntui.screens.chips import words
from rknntui.screens.chips.charts import RooflinePane, SpansChart, alive_at, peak_of
from rknntui.screens.chips.estimates import AS_IS
from rknntui.screens.chips.listing import AdvicePane, CheckPane, ChipsPane
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.line_list import Rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable, name_text
from rknntui.widgets.strips import bar

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from engine.wire.cost import ChipEstimate
    from engine.wire.table import Meaning
    from rknntui.screens.chips.estimates import Answers, Want
    from rknntui.widgets.strips import Line

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


# The layers of a chip as its compiler lays them out, and those of several chips.

_BAR = 8
_SIGNS = {"CPU": "!", "unknown": "?", "none": "✗"}


class CostPane(LayerView):
    """A row for each layer of the compiler."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(COST, id="cost-layers", what="cost")
        super().__init__("Layers (estimated)", table, id=id)

    def take(self, found: ChipEstimate | None, before: ChipEstimate | None) -> None:
        """Show the layers of a chip; ``before`` of the recipe as it is, where it varies."""
        self.set_title(f"Layers on {found.chip} (estimated)" if found else "Layers (estimated)")
        old = {} if before is None else _by_name(before)

        def change(row: LayerFigures) -> dict[str, float | None]:
            now, past = row.estimated, old.get(row.id)
            if now is None or past is None or past.estimated is None:
                return {"change": None}
            return {"change": since(now.time_ms, past.estimated.time_ms)}

        self.layer_table.show_layers(() if found is None else layer_rows(found), more=change)

    def select_layer(self, name: str) -> bool:
        """Put the cursor on the first row of a layer, by any of its names."""
        return self.layer_table.select_layer(name)


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

    VIEWS = {
        "Chips": (ChipsPane, "chips-pane"),
        "Layers": (CostPane, "cost-pane"),
        "Compare": (ComparePane, "side-pane"),
        "Memory": (SpansPane, "spans-pane"),
        "Roofline": (RooflinePane, "roofline-pane"),
        "Check": (CheckPane, "check-pane"),
        "Advice": (AdvicePane, "advice-pane"),
    }
    NOTES_FOCUS = False

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._shown: Shown | None = None

    chips = getters.query_one(ChipsPane)
    """The chips side by side."""

    costs = getters.query_one(CostPane)
    """The layers of a chip."""

    spans = getters.query_one(SpansPane)
    """The memory over time."""

    def draw(self, shown: Shown) -> None:
        """Show what is known for the view."""
        self._shown = shown
        answers, want = shown.answers, shown.want
        varied = want.scenario != AS_IS
        said = self._said()
        self.pane.table.set_empty(said)
        match self.view:
            case "Chips":
                before = answers.overview() if varied else None
                self.chips.take(answers.overview(want.scenario), before, shown.marked)
            case "Layers":
                self.costs.take(shown.estimate, shown.before)
            case "Compare":
                chips = (want.chip, *want.others)
                estimates = [answers.estimate(chip, want.scenario) for chip in chips]
                self.pane.take([row for row in estimates if row is not None])
            case "Memory":
                self.spans.take(shown.estimate, said)
            case "Roofline":
                self.pane.take(shown.estimate, said)
            case "Check":
                self.pane.take(answers.check(want.chip, want.scenario))
            case "Advice":
                self.pane.take(answers.advice(want.chip, want.scenario))
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
        return self.spans.chart if self.view == "Memory" else super().first_focus

    def most_notes(self) -> int:
        """Few below all chips, which a screen of 24 lines shows whole."""
        few = self.view == "Chips" and self.app.size.height < LOW
        return _LEAST_LINES if few else super().most_notes()

    def notes(self, width: int) -> list[Line]:
        shown = self._shown
        if shown is None:
            return []
        record = self.pane.table.record
        match self.view:
            case "Layers":
                return words.layer_lines(self.costs.layer_table.figures, shown.estimate, width)
            case "Memory":
                return words.memory_lines(shown.estimate, width)
            case "Check":
                check = shown.answers.check(shown.want.chip, shown.want.scenario)
                return words.check_lines(record, check, width)
            case "Advice":
                advice = shown.answers.advice(shown.want.chip, shown.want.scenario)
                return words.advice_lines(record, advice, width)
            case "Chips":
                return words.chip_lines(self.chips.estimate, width)
            case _:
                return words.chip_lines(shown.estimate, width)

    @on(Rows.Highlighted)
    def _moved(self) -> None:
        self.post_message(self.Changed(view=False))
