"""The layers of a model as a board's runtime timed them, beside their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.wire.build import ACCURACY
from engine.wire.layer_tables import BOARD
from engine.wire.layers import LayerFigures, by_layer, layer_rows
from rknntui.widgets.layer_table import LayerTable, LayerView

if TYPE_CHECKING:
    from engine.wire.board import LiveLook, Ran
    from rknntui.session.state import Session


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
                "mean": self._times[row.number].mean,
            }

        joined = [row | known[row.id] if row.id in known else row for row in rows]
        table, top = self.layer_table, self.table.scroll_offset.y
        shown = top <= table.cursor < top + max(1, table.size.height - table.head)
        table.show_layers(joined, more=mean)
        if not shown:  # looked at away from the cursor: live rows do not lead back to it
            table.scroll_to(y=top, animate=False, force=True)


def errors_of(session: Session) -> tuple[LayerFigures, ...]:
    """The last analysis of this recipe's model by layer; empty before one."""
    job, found = session.last_of(ACCURACY) or (None, None)
    if found is None or job is None or job.recipe != session.recipe:
        return ()
    return by_layer(layer_rows(found))
