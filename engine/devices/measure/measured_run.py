"""What boards measured of a model at one time, as the history keeps it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from engine.devices.measure.benchmark import CellResult
from engine.devices.measure.perf_report import Dialect, TotalKind
from engine.wire.devices import BoardMemory, FigureLabel, LayerTime
from engine.wire.measured import Conditions


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
