"""What a model takes on a board, and what the board has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.wire.board import MemoryReport, SystemMemory
from engine.wire.board_tables import MEMORY, memory_rows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable
from rknntui.widgets.strips import bar

if TYPE_CHECKING:
    from engine.wire.board import LiveLook, Ran

_BAR = 20


class MemoryPane(RecordView):
    """A row for each kind of memory.

    Attributes:
        result: what the board told; None before that.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(MEMORY, id="memory", what="memory")
        super().__init__("Memory", table, id=id)
        self.result: MemoryReport | None = None

    def clear(self) -> None:
        """Forget the figures: they are of another model or board."""
        self.result = None
        self.set_title("Memory")
        self.table.set_records([])

    def take(self, report: MemoryReport) -> None:
        """Show what a board told."""
        self.result = report
        self.set_title(f"Memory ({report.label})")
        records = []
        for row in memory_rows(report):
            share = row["size"] / row["of"] if row["size"] and row["of"] else 0.0
            records.append({**row, "bar": bar(share, _BAR).rstrip()})
        self.table.set_records(records, keep="part")

    def take_beside(self, run: Ran | LiveLook, system: SystemMemory | None) -> None:
        """Show what a run told beside its outputs or layers; what it did not tell stays."""
        before = self.result
        if before is not None:
            system = system or before.system
        report = MemoryReport(
            label=run.label,
            device=run.device,
            chip=run.chip,
            runtime=run.runtime,
            memory=run.memory,
            reason=run.memory_reason,
            model_bytes=before.model_bytes if before is not None else 0,
            system=system,
        )
        self.take(report)
