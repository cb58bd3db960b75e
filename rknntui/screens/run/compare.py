"""Golden, simulator and board side by side, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.wire.layer_tables import COMPARE
from engine.wire.layers import LayerFigures, layer_rows
from rknntui.widgets.layer_table import LayerTable, LayerView

if TYPE_CHECKING:
    from engine.wire.compare import Comparison


class ComparePane(LayerView):
    """The layers in the order of the graph; the first that diverges has the cursor.

    Attributes:
        result: of the comparison that is shown; None before one.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(COMPARE, id="compared", what="compared")
        super().__init__("Compared layers", table, id=id)
        self.result: Comparison | None = None

    def clear(self) -> None:
        """Forget the comparison: it is of another model or board."""
        self.result = None
        self.set_title("Compared layers")
        self.layer_table.show_layers(())

    def take(self, found: Comparison) -> None:
        """Show a comparison."""
        self.result = found
        self.set_title(f"Compared layers (board: {found.label})")

        def sign(row: LayerFigures) -> dict[str, str]:
            diverges = row.compared is not None and row.compared.diverges
            return {"sign": "✗" if row.id == found.first else "!" if diverges else ""}

        self.layer_table.show_layers(layer_rows(found), more=sign, keep="name")
        if found.first:
            self.table.select_record("name", found.first)
