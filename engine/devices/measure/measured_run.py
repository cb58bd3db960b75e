"""What boards measured of a model at one time, as the history keeps it, and two such runs compared.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.devices.measure.benchmark import CellResult
from engine.devices.measure.perf_report import Dialect, TotalKind
from engine.wire.devices import BoardMemory, FigureLabel, LayerTime
from engine.wire.measured import Conditions, LayerChange, PointChange, RunsCompared


@dataclass(frozen=True)
class LayerTable:
    """The layers of one report.

    Attributes:
        dialect: of the runtime that wrote it.
        microseconds: its total, and what that is.
        figures: of each step, in the order of the report.
    """

    dialect: Dialect
    microseconds: float | None
    total_kind: TotalKind | None
    figures: tuple[LayerTime, ...]


@dataclass(frozen=True)
class MeasuredRun:
    """Everything that was measured of one model at one time.

    Attributes:
        at: seconds since the epoch.
        title: name of the model, for a list.
        conditions: what was measured where.
        label: ``measured``, or ``emulated`` where the board is.
        cells: points of a benchmark; of their times only the first ones are kept.
        table: of the layers, with ``perf_debug``; None without.
        memory: None where it was not asked for.
        notes: what is to be known of the figures.
    """

    at: float
    title: str
    conditions: Conditions
    label: FigureLabel = "measured"
    cells: tuple[CellResult, ...] = ()
    table: LayerTable | None = None
    memory: BoardMemory | None = None
    notes: tuple[str, ...] = ()


# Two measured runs side by side.

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
