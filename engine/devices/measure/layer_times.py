"""The runtime's own table of layers, from a run of its own, and the layers of the build in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import DeviceError, EngineError, JobCancelledError
from engine.devices.measure.history import LayerTable
from engine.devices.measure.perf_layers import LayerRow, layer_rows, unmatched_note
from engine.devices.measure.perf_text import parse_perf_text
from engine.devices.model_source import FindLayers
from engine.wire.devices import LayerTime, TimedStep

if TYPE_CHECKING:
    from engine.devices.board.runtime import BoardRuntime
    from engine.devices.board.tensors import BoardInput
    from engine.devices.measure.perf_report import PerfReport


@dataclass(frozen=True)
class LayerTimes:
    """A table of layers.

    Attributes:
        rows: of the table, with the layers of the build.
        table: the same for the history; None where the runtime printed none.
        text: as the runtime printed it.
        notes: what is to be known of it.
    """

    rows: tuple[LayerTime, ...] = ()
    table: LayerTable | None = None
    text: str = ""
    notes: tuple[str, ...] = ()


def time_layers(
    runtime: BoardRuntime,
    model: Path,
    inputs: Sequence[BoardInput],
    *,
    warmup: int = 1,
    core_mask: int | None = None,
) -> str:
    """What the runtime prints of its layers, with the timing of layers on, which slows the run.

    Raises:
        DeviceError: the board is lost, or its runtime refuses the run.
    """
    runtime.open(model, perf=True, core_mask=core_mask)
    return runtime.run(inputs, warmup=warmup, outputs=False).perf or ""


def read_layer_times(text: str, find: FindLayers, told: Callable[[str], str] = str) -> LayerTimes:
    """The table, and which layer of the build each row computes.

    Args:
        text: as a runtime printed it; nothing of it is believed.
        find: the layers of the build. Where it fails the table is told without them: the times are
            measured, whatever became of their names.
        told: gives names of the compiled model as the user has them.
    """
    return layer_times_of(parse_perf_text(text), find, text, told)


def layer_times_of(
    report: PerfReport, find: FindLayers, text: str = "", told: Callable[[str], str] = str
) -> LayerTimes:
    """As :func:`read_layer_times`, of a table that was read already."""
    if not report.rows:
        return LayerTimes(text=text, notes=("The runtime printed no table of layers.",))
    report = replace(report, rows=tuple(replace(row, name=told(row.name)) for row in report.rows))
    text = told(text)
    notes: list[str] = []
    matched = tuple(LayerRow(row, None, "nothing") for row in report.rows)
    try:
        layers = find()
        if layers is not None:
            matched = layer_rows(report, layers)
            notes += filter(None, [unmatched_note(matched)])
    except (DeviceError, JobCancelledError):
        raise
    except EngineError as error:
        notes.append(f"The layers of the build are not known: {error}")
    rows = tuple(map(_row, matched))
    table = LayerTable(report.dialect, report.microseconds, report.total_kind, rows)
    return LayerTimes(rows, table, text, tuple(notes))


def _row(matched: LayerRow) -> LayerTime:
    row = matched.row
    return LayerTime(
        number=row.id,
        id=matched.layer or "",
        also=matched.also,
        **{field.name: getattr(row, field.name) for field in fields(TimedStep)},
    )
