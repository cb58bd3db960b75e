"""Layers that are not on the NPU, and ways to make a model faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.wire.cost_tables import ADVICE, OFF_NPU
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine.wire.cost import AdviceAnswer, ChipCheck


class CheckPane(RecordView):
    """A row for each layer that does not run on the NPU as it is."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(OFF_NPU, id="check-layers", what="check")
        super().__init__("Layers not on the NPU (estimated)", table, id=id)
        self.found: ChipCheck | None = None

    def take(self, found: ChipCheck | None) -> None:
        """Show a chip."""
        self.found = found
        of = f" of {found.chip}" if found is not None else ""
        self.set_title(f"Layers not on the NPU{of} (estimated)")
        rows = () if found is None else found.rows
        records = [OFF_NPU.record(row, id=row.id or row.name, printed=row.name) for row in rows]
        self.table.set_records(records, keep="name")

    @property
    def layer_id(self) -> str:
        """Of the layer under the cursor."""
        record = self.table.record
        return "" if record is None else str(record["id"])


class AdvicePane(RecordView):
    """A row for each way, the largest gain first."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(ADVICE, id="advice-table", what="advice")
        super().__init__("Advice (gains estimated)", table, id=id)
        self.found: AdviceAnswer | None = None

    def take(self, found: AdviceAnswer | None) -> None:
        """Show the ways of a chip."""
        self.found = found
        of = f" for {found.chip}" if found is not None else ""
        self.set_title(f"Advice{of} (gains estimated)")
        rows = () if found is None else found.advice
        whole = found.time_ms if found is not None else None
        records = [
            ADVICE.record(
                row,
                gain=row.gain_ms / whole if row.gain_ms is not None and whole else None,
                why=row.why,
                layers=row.layers,
                aliases=row.layers,
            )
            for row in rows
        ]
        self.table.set_records(records, keep="title")

    @property
    def layer_id(self) -> str:
        """The first layer that it is about; empty for none."""
        record = self.table.record
        return str(record["layers"][0]) if record is not None and record["layers"] else ""
