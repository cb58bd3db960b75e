"""What a user edits in Hybrid's table: dtypes, ranges, marks; every change is one of the recipe."""

from __future__ import annotations

from typing import Any

from textual import on

from engine import printable
from rknntui.screens import hybrid_plan as plan
from rknntui.screens.tables import TableWorkspace
from rknntui.widgets.records import RecordTable
from rknntui.widgets.rows import Rows

__all__ = ["HybridEdits"]


class HybridEdits(TableWorkspace):
    """The half of Hybrid that changes the recipe; the other half draws.

    Attributes:
        rows: of the last ``hybrid.table``.
        table_of: the recipe of the build that they are of; None while there is none.
        marked: tensors that the next action takes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.table_of: dict[str, Any] | None = None
        self.marked: set[str] = set()

    def draw(self) -> None:
        """Show the rows as they are now."""
        raise NotImplementedError

    @property
    def table(self) -> RecordTable:
        """The layers."""
        return self.query_one("#layers", RecordTable)

    @property
    def built_layers(self) -> dict[str, str]:
        """Tensor -> dtype as the build of the rows was asked."""
        return plan.by_tensor(plan.layers_of(self.table_of), self.rows)

    @property
    def asked_layers(self) -> dict[str, str]:
        """Tensor -> dtype as the recipe asks, which may name layers by other names."""
        return plan.by_tensor(plan.layers_of(self.session.recipe), self.rows)

    @property
    def asked_ranges(self) -> dict[str, list[float]]:
        """Tensor -> [minimum, maximum] as the recipe asks."""
        return plan.by_tensor(plan.ranges_of(self.session.recipe), self.rows)

    def _chosen(self) -> list[dict[str, Any]]:
        """The rows that an action takes: the marked ones, else that under the cursor."""
        record = self.table.record
        names = self.marked or ({record["tensor"]} if record is not None else set())
        return [row for row in self.rows if row["tensor"] in names]

    def ask_for(self, layers: dict[str, str], ranges: dict[str, Any] | None = None) -> None:
        """Change the recipe; undo takes it back. What becomes float loses its range."""
        self.marked.clear()
        if ranges is None:
            ranges = self.asked_ranges
        kept = plan.with_integers(layers, ranges)
        self.session.set_values(plan.changes_of(layers, kept))
        self.draw()

    def action_lift(self) -> None:
        """Lift the chosen layers, or take them back."""
        if not self.rows:
            return
        layers = self.asked_layers
        self.ask_for(plan.toggled(layers, self._chosen()))

    @on(Rows.Chosen, "#layers")
    def action_choose(self) -> None:
        """Choose among the dtypes that all of the chosen layers have."""
        from rknntui.screens.dialogs import ChoiceDialog

        rows = self._chosen()
        if not rows:
            return
        choices = [d for d in rows[0]["choices"] if all(d in row["choices"] for row in rows)]
        layers = self.asked_layers
        base = plan.base_dtype(rows[0])
        if base not in choices:
            choices.insert(0, base)
        now = layers.get(rows[0]["tensor"], base)

        def take(dtype: str | None) -> None:
            if dtype is not None:
                self.ask_for(plan.with_dtype(layers, rows, dtype))

        what = f"{len(rows)} layers" if len(rows) > 1 else printable(rows[0]["layer"], 40)
        self.app.push_screen(ChoiceDialog(f"Dtype of {what}", choices, now), take)

    def action_range(self) -> None:
        """Ask for the range of the layer under the cursor."""
        from rknntui.screens.dialogs import PromptDialog

        record = self.table.record
        if record is None or record["minimum"] is None:
            self.notify("This layer has no range: it is not quantized.", severity="warning")
            return
        asked = self.asked_layers.get(record["tensor"], "")
        if asked.startswith("float"):
            self.notify(f"{asked} has no range; Space takes it back first.", severity="warning")
            return

        def take(text: str | None) -> None:
            if text is None:
                return
            ranges, pair = self.asked_ranges, plan.parse_range(text)
            ranges.pop(record["tensor"], None)
            if pair is not None:
                ranges[record["tensor"]] = pair
            self.ask_for(self.asked_layers, ranges)

        question = f"{printable(record['layer'], 60)}: minimum and maximum; empty as calibrated"
        now = f"{record['minimum']:.6g} {record['maximum']:.6g}"
        self.app.push_screen(PromptDialog("Range", question, now, plan.problem_of_range), take)

    def action_reset(self) -> None:
        """Ask for nothing any more."""
        self.ask_for({}, {})
        self.notify("All layers as the model's dtype says. u takes that back.")

    def action_mark(self) -> None:
        """Mark the layer under the cursor, and go on to the next one."""
        record = self.table.record
        if record is not None:
            self.marked ^= {record["tensor"]}
            self.draw()
            self.table.action_move(1)

    def action_mark_shown(self) -> None:
        """Mark every row that is shown; where all are, none."""
        shown = {record["tensor"] for record in self.table.records}
        self.marked = self.marked - shown if shown <= self.marked else self.marked | shown
        self.draw()
