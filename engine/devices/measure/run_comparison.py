"""Two measured runs side by side, and the layers that all runs measured, to calibrate on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.errors import UsageError
from engine.base.text import sanitize
from engine.devices.measure.benchmark import CellResult
from engine.devices.measure.history import Damaged, list_runs, load_run
from engine.devices.measure.measured_run import Conditions, LayerFigure, MeasuredRun
from engine.wire.measured import LayerChange, PointChange, RunsCompared

__all__ = [
    "CalibrationRows",
    "MeasuredLayer",
    "calibration_rows",
    "compare_runs",
]

_CLOCK_CHANGE = 0.01
_NO_LAYERS = frozenset({"InputOperator", "OutputOperator", "exDataConvert"})


def compare_runs(first: MeasuredRun, second: MeasuredRun) -> RunsCompared:
    """What changed from the first run to the second."""
    later = {each.cell: each for each in second.cells}
    cells = [_cell(each, later[each.cell]) for each in first.cells if each.cell in later]
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
    found: dict[str, float] = {}
    for figure in () if run.table is None else run.table.figures:
        if figure.layer is not None and figure.microseconds is not None:
            found[figure.layer] = found.get(figure.layer, 0.0) + figure.microseconds
    return found


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


@dataclass(frozen=True)
class MeasuredLayer:
    """One step of a layer, as a board measured it in one run.

    Attributes:
        run: id of the run, and ``at`` its time in seconds since the epoch.
        conditions: model, chip, board, versions and clocks.
        layer: id of the layer.
        figure: what was measured.
    """

    run: str
    at: float
    conditions: Conditions
    layer: str
    figure: LayerFigure


@dataclass(frozen=True)
class CalibrationRows:
    """Layers to calibrate a model of time on.

    Attributes:
        rows: of all runs, the newest first.
        left_out: what was not taken, with the reason.
    """

    rows: tuple[MeasuredLayer, ...]
    left_out: tuple[str, ...]


def calibration_rows(*, chip: str | None = None, model: str | None = None) -> CalibrationRows:
    """Every step that a board measured and that has a layer and a time.

    Runs of emulated boards are left out, as are those whose clock fell while they ran. The times
    are those of a run with ``perf_debug``, whose sum is longer than a run without.

    Args:
        chip: only of this chip.
        model: only of the file with this SHA-256.

    Raises:
        OSError: the history cannot be read.
    """
    rows: list[MeasuredLayer] = []
    left_out: list[str] = []
    for head in list_runs(chip=chip, model=model):
        if isinstance(head, Damaged):
            left_out.append(f"{head.id}: damaged ({head.why})")
            continue
        if not head.layers:
            continue
        if head.label != "measured":
            left_out.append(f"{head.id}: {head.label}")
            continue
        try:
            run = load_run(head.id)
        except UsageError as error:
            left_out.append(f"{head.id}: {sanitize(error.cause or error.what, 200)}")
            continue
        if any(cell.throttled for cell in run.cells):
            left_out.append(f"{head.id}: a clock fell while it ran")
            continue
        every = () if run.table is None else run.table.figures
        figures = [figure for figure in every if figure.op not in _NO_LAYERS]
        found = [
            MeasuredLayer(head.id, head.at, head.conditions, figure.layer, figure)
            for figure in figures
            if figure.layer is not None and figure.microseconds is not None
        ]
        if len(found) < len(figures):
            left_out.append(f"{head.id}: {len(figures) - len(found)} rows without layer or time")
        rows += found
    return CalibrationRows(tuple(rows), tuple(left_out))
