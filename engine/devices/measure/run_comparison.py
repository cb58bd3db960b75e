"""Two measured runs side by side."""

from __future__ import annotations

from collections.abc import Mapping

from engine.devices.measure.benchmark import CellResult
from engine.devices.measure.measured_run import MeasuredRun
from engine.wire.measured import LayerChange, PointChange, RunsCompared

_CLOCK_CHANGE = 0.01


def compare_runs(first: MeasuredRun, second: MeasuredRun) -> RunsCompared:
    """What changed from the first run to the second."""
    later = {cell.cell: cell for cell in second.cells}
    cells = [_cell(cell, later[cell.cell]) for cell in first.cells if cell.cell in later]
    before, after = _by_layer(first), _by_layer(second)
    return RunsCompared(
        (first.label, second.label),
        tuple(_differences(first, second)),
        tuple(change for change in cells if change is not None),
        tuple(
            LayerChange(layer, before.get(layer), after.get(layer))
            for layer in dict.fromkeys((*before, *after))
        ),
    )


def _cell(first: CellResult, second: CellResult) -> PointChange | None:
    before, after = first.timings, second.timings
    if before is None or after is None:
        return None
    clear = None
    if None not in (before.low, before.high, after.low, after.high):
        low, high = max(before.low or 0, after.low or 0), min(before.high or 0, after.high or 0)
        clear = high < low
    change = after.median / before.median - 1 if before.median else None
    cell = first.cell
    return PointChange(
        cell.cores, cell.batch, cell.threads, before.median, after.median, change, clear
    )


def _by_layer(run: MeasuredRun) -> dict[str, float]:
    microseconds: dict[str, float] = {}
    for figure in () if run.table is None else run.table.figures:
        if figure.id and figure.microseconds is not None:
            microseconds[figure.id] = microseconds.get(figure.id, 0.0) + figure.microseconds
    return microseconds


def _differences(first: MeasuredRun, second: MeasuredRun) -> list[str]:
    one, other = first.conditions, second.conditions
    pairs: list[tuple[str, str, str]] = [
        ("model", one.model[:12], other.model[:12]),
        ("chip", one.chip, other.chip),
        ("device", one.device, other.device),
        ("figures", first.label, second.label),
        *_pairs(one.versions, other.versions),
    ]
    for part in dict.fromkeys((*one.clocks, *other.clocks)):
        was, now = one.clocks.get(part), other.clocks.get(part)
        if was is None or now is None or abs(now - was) > _CLOCK_CHANGE * was:
            pairs.append((f"clock of {part}", _megahertz(was), _megahertz(now)))
    return [f"{name}: {was}, {now}" for name, was, now in pairs if was != now]


def _pairs(one: Mapping[str, str], other: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys((*one, *other))
    return [(name, one.get(name, "unknown"), other.get(name, "unknown")) for name in names]


def _megahertz(hertz: int | None) -> str:
    return "unknown" if hertz is None else f"{hertz / 1e6:.0f} MHz"
