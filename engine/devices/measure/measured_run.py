"""What boards measured of a model at one time, as the history keeps it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.devices.measure.benchmark import CellResult
from engine.devices.measure.perf_report import Dialect, TotalKind
from engine.wire.devices import BoardMemory, FigureLabel
from engine.wire.measured import Conditions

if TYPE_CHECKING:
    from engine.devices.measure.perf_layers import LayerRows
    from engine.devices.measure.perf_report import PerfReport

__all__ = ["LayerFigure", "LayerTable", "MeasuredRun", "layer_table"]


@dataclass(frozen=True)
class LayerFigure:
    """What a board measured of one of its steps.

    Attributes:
        layer: id of the layer in our graph; None where the row has none.
        name, op, target: as the runtime calls it, and where it ran.
        microseconds, ddr_cycles, npu_cycles, total_cycles, traffic: see
            :class:`~engine.devices.measure.perf_report.PerfRow`.
    """

    layer: str | None
    name: str
    op: str
    target: str
    microseconds: float | None = None
    ddr_cycles: int | None = None
    npu_cycles: int | None = None
    total_cycles: int | None = None
    traffic: int | None = None


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
    figures: tuple[LayerFigure, ...]


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


def layer_table(report: PerfReport, rows: LayerRows) -> LayerTable:
    """The table of a report whose rows have found their layers."""
    figures = tuple(
        LayerFigure(
            layer=each.layer,
            name=each.row.name,
            op=each.row.op,
            target=each.row.target,
            microseconds=each.row.microseconds,
            ddr_cycles=each.row.ddr_cycles,
            npu_cycles=each.row.npu_cycles,
            total_cycles=each.row.total_cycles,
            traffic=each.row.traffic,
        )
        for each in rows.rows
    )
    return LayerTable(report.dialect, report.microseconds, report.total_kind, figures)
