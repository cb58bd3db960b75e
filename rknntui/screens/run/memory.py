"""What a model takes on a board, and what the board has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import human_bytes
from engine.wire.board import MemoryReport, SystemMemory
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import Field, Record, RecordTable
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from engine.wire.board import LiveLook, Ran

__all__ = ["MemoryPane"]

_BAR = 20


class MemoryPane(RecordView):
    """A row for each kind of memory.

    Attributes:
        result: what the board told; None before that.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(memory_fields(), id="memory", what="memory")
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
        self.table.set_records(_records(report), keep="part")

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


def memory_fields() -> tuple[Field, ...]:
    """Which memory, its size, a bar, and what it is."""
    return (
        Field("part", Column("memory", 16)),
        Field("bytes", Column("size", 10, right=True, text=human_bytes)),
        Field("bar", Column("", _BAR, style=lambda _: "accent", name="bar"), 60),
        Field("about", Column("meaning", 16, grow=1)),
    )


def _records(report: MemoryReport) -> list[Record]:
    memory, system = report.memory, report.system
    rows: list[tuple[str, int | None, int | None, str]] = []
    if memory is not None:
        whole = memory.total
        rows += [
            ("weights", memory.weight, whole, "constants of the model"),
            ("internal", memory.internal, whole, "tensors between layers"),
            ("other", memory.other, whole, "inputs, outputs, commands"),
            ("whole model", memory.total, whole, "all of it on the board"),
        ]
        if memory.sram:
            rows.append(("SRAM, free", memory.sram_free, memory.sram, "of the chip itself"))
    else:
        rows.append(("whole model", None, None, "not available on this runtime"))
    if report.model_bytes:
        rows.append(("model file", report.model_bytes, None, "as stored"))
    if system is not None:
        total = system.total
        rows += [
            ("system, total", total, None, "memory of the board"),
            ("system, available", system.available, total, "for new programs"),
        ]
        rest = [
            ("CMA, total", system.cma_total, None, "contiguous memory"),
            ("CMA, free", system.cma_free, system.cma_total, "for NPUs without an IOMMU"),
            ("swap, total", system.swap_total, None, "on a disk or compressed"),
            ("swap, free", system.swap_free, system.swap_total, ""),
        ]
        rows += [row for row in rest if row[1] is not None]  # many kernels have none
    return [
        {"part": part, "bytes": size, "bar": _bar(size, of), "about": about}
        for part, size, of, about in rows
    ]


def _bar(size: int | None, of: int | None) -> str:
    return "█" * round(min(1.0, size / of) * _BAR) if size and of else ""
