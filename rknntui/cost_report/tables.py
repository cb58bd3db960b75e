"""Rows of a report, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from engine import sanitize
from engine.wire.cost import ChipEstimate, Estimates, Interval

__all__ = ["CHIP_HEAD", "LAYER_HEAD", "chip_cells", "csv_text", "layer_rows"]

CHIP_HEAD = (
    "chip", "generation", "dtype", "cores", "batch", "npu_mhz", "time_ms", "time_ms_low",
    "time_ms_high", "fps", "fps_low", "fps_high", "internal_bytes", "weight_bytes", "total_bytes",
    "npu_layers", "cpu_layers", "refused_layers", "unknown_layers", "total_cycles", "macs", "basis",
    "problem",
)  # fmt: skip
LAYER_HEAD = (
    "chip", "layer", "name", "op", "dtype", "target", "reason", "remedy", "shapes_in",
    "shape_out", "ddr_cycles", "npu_cycles", "total_cycles", "read_bytes", "write_bytes",
    "weight_bytes", "macs", "time_ms", "bound",
)  # fmt: skip
TENSOR_HEAD = ("chip", "tensor", "start", "end", "first_layer", "last_layer")

Cell = str | int | float | None


def chip_cells(one: ChipEstimate) -> tuple[Cell, ...]:
    """The cells of :data:`CHIP_HEAD`."""
    memory = one.memory
    sizes = (None,) * 3 if memory is None else (memory.internal, memory.weight, memory.total)
    return (
        one.chip,
        one.generation,
        one.dtype,
        one.cores,
        one.batch,
        one.npu_mhz or None,
        *_three(one.time_ms),
        *_three(one.fps),
        *sizes,
        one.npu_layers,
        one.cpu_layers,
        one.refused_layers,
        one.unknown_layers,
        one.total_cycles,
        one.macs,
        one.confidence,
        one.problem,
    )


def _three(found: Interval | None) -> tuple[float | None, ...]:
    if found is None:
        return (None, None, None)
    return tuple(round(value, 4) for value in (found.value, found.low, found.high))


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


def _tensor_rows(one: ChipEstimate) -> Iterator[tuple[Cell, ...]]:
    for span in () if one.memory is None else one.memory.spans:
        yield one.chip, span.tensor, span.start, span.end, span.first, span.last


def csv_text(found: Estimates, kind: str) -> str:
    """CSV with a head; the last column says that every row is estimated."""
    head: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    if kind == "chips":
        head, rows = CHIP_HEAD, [chip_cells(one) for one in found.chips]
    elif kind == "layers":
        head, rows = LAYER_HEAD, [row for one in found.chips for row in layer_rows(one)]
    else:
        head, rows = TENSOR_HEAD, [row for one in found.chips for row in _tensor_rows(one)]
    return _csv((*head, "label"), ((*row, "estimated") for row in rows))


def _csv(head: Iterable[str], rows: Iterable[tuple[Cell, ...]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_safe(cell) for cell in row] for row in rows)
    return stream.getvalue()


def _safe(cell: Cell) -> Cell:
    """No name of a file becomes a formula of a spreadsheet, or a control character."""
    if not isinstance(cell, str):
        return cell
    text = sanitize(cell, 500)
    # some trim the space before it
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text
