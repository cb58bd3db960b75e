"""What a user asks for in Hybrid: dtypes and ranges of layers; every change is the recipe's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import sanitize
from rknntui.keys.text import key_text
from rknntui.screens.hybrid import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.app import App

    from engine.wire.codec import Values
    from engine.wire.hybrid import LayerRow
    from rknntui.session.state import Session


class LayerEdits:
    """The layers of a build, and what the recipe asks for them.

    Args:
        session: has the recipe that is changed.
        changed: called after each change, and after each mark.

    Attributes:
        rows: of the last ``hybrid.table``.
        table_of: the recipe of the build that they are of; None while there is none.
        marked: layers that the next action takes.
    """

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self._session = session
        self._changed = changed
        self.rows: Sequence[LayerRow] = ()
        self.table_of: Values | None = None
        self.marked: set[str] = set()

    def show(self, rows: Sequence[LayerRow], table_of: Values | None) -> None:
        """Take the layers of a build; None where there is none."""
        self.rows, self.table_of = rows, table_of

    @property
    def built(self) -> plan.Layers:
        """Layer -> dtype as the build of the rows was asked."""
        return plan.by_layer(plan.layers_of(self.table_of), self.rows)

    @property
    def layers(self) -> plan.Layers:
        """Layer -> dtype as the recipe asks, which may name layers by other names."""
        return plan.by_layer(plan.layers_of(self._session.recipe), self.rows)

    @property
    def ranges(self) -> plan.Ranges:
        """Layer -> [minimum, maximum] as the recipe asks."""
        return plan.by_layer(plan.ranges_of(self._session.recipe), self.rows)

    def chosen(self, layer: str | None) -> list[LayerRow]:
        """The rows that an action takes: the marked ones, else that of ``layer``."""
        names: set[str | None] = {*self.marked} or {layer}
        return [row for row in self.rows if row.id in names]

    def ask_for(self, layers: plan.Layers, ranges: plan.Ranges | None = None) -> None:
        """Change the recipe; undo takes it back. What becomes float loses its range."""
        self.marked.clear()
        kept = plan.with_integers(layers, self.ranges if ranges is None else ranges)
        self._session.set_values(plan.changes_of(layers, kept))
        self._changed()

    def lift(self, layer: str | None) -> None:
        """Lift the chosen layers, or take them back."""
        if self.rows:
            self.ask_for(plan.toggled(self.layers, self.chosen(layer)))

    def set_range(self, layer: str, pair: list[float] | None) -> None:
        """Ask for a range of a layer; with None for the calibrated one."""
        ranges = self.ranges
        ranges.pop(layer, None)
        if pair is not None:
            ranges[layer] = pair
        self.ask_for(self.layers, ranges)

    def toggle_marks(self, layers: set[str]) -> None:
        """Mark these layers; where all of them are marked, take their marks away."""
        every = layers <= self.marked
        self.marked = self.marked - layers if every else self.marked | layers
        self._changed()


def ask_dtype(app: App[None], edits: LayerEdits, rows: Sequence[LayerRow]) -> None:
    """Choose among the dtypes that all of the rows have."""
    from rknntui.screens.dialogs.dialogs import ChoiceDialog

    if not rows:
        return
    choices = [d for d in rows[0].choices if all(d in row.choices for row in rows)]
    layers, base = edits.layers, plan.base_dtype(rows[0])
    if base not in choices:
        choices.insert(0, base)

    def take(dtype: str | None) -> None:
        if dtype is not None:
            edits.ask_for(plan.with_dtype(layers, rows, dtype))

    what = f"{len(rows)} layers" if len(rows) > 1 else sanitize(rows[0].id, 40)
    now = layers.get(rows[0].id, base)
    app.push_screen(ChoiceDialog(f"Dtype of {what}", choices, now), take)


def ask_range(app: App[None], edits: LayerEdits, record: Mapping[str, object] | None) -> None:
    """Ask for the range of the layer of a record."""
    from rknntui.screens.dialogs.dialogs import PromptDialog

    if record is None or record["minimum"] is None:
        app.notify("This layer is not quantized, so it has no range.", severity="warning")
        return
    layer = str(record["id"])
    asked = edits.layers.get(layer, "")
    if asked.startswith("float"):
        back = f"{key_text('hybrid.lift')} undoes it first."
        app.notify(f"{asked} has no range; {back}", severity="warning")
        return

    def take(text: str | None) -> None:
        if text is not None:
            edits.set_range(layer, plan.parse_range(text))

    question = f"{sanitize(layer, 60)}: minimum and maximum; empty: as calibrated"
    now = f"{record['minimum']:.6g} {record['maximum']:.6g}"
    app.push_screen(PromptDialog("Range", question, now, plan.problem_of_range), take)
