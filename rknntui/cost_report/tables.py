"""Rows of a report, and CSV."""

from __future__ import annotations

from collections.abc import Iterator

from engine.wire.cost import ChipEstimate, Estimates
from engine.wire.cost_tables import CHIPS, TENSORS
from rknntui.tables import csv_lines, delimited

__all__ = ["LAYER_HEAD", "csv_text", "layer_rows"]

LAYER_HEAD = (
    "chip", "layer", "name", "op", "dtype", "target", "reason", "remedy", "shapes_in",
    "shape_out", "ddr_cycles", "npu_cycles", "total_cycles", "read_bytes", "write_bytes",
    "weight_bytes", "macs", "time_ms", "bound",
)  # fmt: skip

Cell = str | int | float | None


def layer_rows(one: ChipEstimate) -> Iterator[tuple[Cell, ...]]:
    """The cells of :data:`LAYER_HEAD`, layer by layer."""
    for row in one.layers:
        yield (
            one.chip,
            row.id,
            row.name,
            row.op,
            row.dtype,
            row.target,
            row.reason,
            row.remedy,
            row.shapes_in,
            row.shape_out,
            row.ddr_cycles,
            row.npu_cycles,
            row.total_cycles,
            row.read_bytes,
            row.write_bytes,
            row.weight_bytes,
            row.macs,
            round(row.time_ms, 6),
            row.bound,
        )


def csv_text(found: Estimates, kind: str) -> str:
    """CSV with a head; the last column says that every row is estimated."""
    if kind == "chips":
        return delimited(CHIPS, found.chips)
    if kind == "tensors":
        spans = [
            TENSORS.record(span, chip=one.chip)
            for one in found.chips
            if one.memory is not None
            for span in one.memory.spans
        ]
        return delimited(TENSORS, spans)
    rows = [row for one in found.chips for row in layer_rows(one)]
    return csv_lines((*LAYER_HEAD, "label"), ((*row, "estimated") for row in rows))
