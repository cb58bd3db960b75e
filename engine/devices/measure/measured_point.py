"""A point of a benchmark, as the wire has it."""

from __future__ import annotations

from engine.devices.measure.benchmark import CellResult
from engine.wire.devices import MeasuredPoint

__all__ = ["measured_point"]


def measured_point(result: CellResult) -> MeasuredPoint:
    """What the times of a point say, or why there are none."""
    cell, timings = result.cell, result.timings
    if timings is None:
        return MeasuredPoint(cell.cores, cell.threads, failed=result.failed, batch=cell.batch)
    return MeasuredPoint(
        cell.cores,
        cell.threads,
        timings.count,
        timings.minimum,
        timings.median,
        timings.p90,
        timings.p99,
        timings.maximum,
        timings.low,
        timings.high,
        result.frames_per_second,
        dict(result.after.clocks),
        dict(result.after.celsius),
        result.throttled,
        result.notes,
        batch=cell.batch,
    )
