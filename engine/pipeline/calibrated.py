"""Estimates of time corrected by a run of the user's own board, kept in the state folder.

``STATE/calibration.json`` (0600) has for each chip the run, what it measured, and what was
estimated of the same model under the same conditions. Their ratio, nearer to 1 by what may be
chance, multiplies every estimate of the chip; each of those says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import exp, inf, log
from pathlib import Path

from engine.base.errors import UsageError
from engine.base.files import atomic_write, output_errors, read_regular
from engine.base.paths import private_folder, state_folder
from engine.base.text import sanitize
from engine.wire.codec import encode, typed
from engine.wire.cost import Calibrated, ChipEstimate, Interval
from engine.wire.record import record

_LIMIT = 1 << 16
_RATIOS = (0.05, 20.0)
"""A ratio outside is no correction: another model, or another clock, was measured."""
_LONGEST_MS = 1e9
"""Eleven days: no inference takes so long."""


@record
class _Kept:
    chips: Mapping[str, Calibrated] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasuredPoint:
    """What a run of the history says: one inference on ``cores`` cores at a clock.

    Attributes:
        run: its id.
        title: name of the model that was measured.
        milliseconds: the median.
        times: milliseconds of each inference; empty where they are not kept.
        npu_mhz: None where the board did not tell its clock.
    """

    run: str
    title: str
    chip: str
    milliseconds: float
    cores: int
    batch: int
    npu_mhz: float | None
    times: tuple[float, ...] = ()


def _path() -> Path:
    return state_folder() / "calibration.json"


def kept_calibrations() -> Mapping[str, Calibrated]:
    """Chip -> its calibration; none where the file is missing or damaged.

    A calibration with a number that :func:`calibration` never gives is left out: an estimate
    would become negative, endless or none at all.
    """
    try:
        kept = typed(_Kept, json.loads(read_regular(_path(), _LIMIT))).chips
    except (OSError, ValueError, TypeError, RecursionError):
        return {}
    return {chip: entry for chip, entry in kept.items() if _possible(entry)}


def _possible(kept: Calibrated) -> bool:
    """Whether the numbers of a kept calibration are such as a run gives; NaN never is."""
    spread = 0.0 if kept.spread is None else kept.spread
    return (
        _RATIOS[0] <= kept.factor <= _RATIOS[1]
        and 0 <= spread < inf
        and 0 < kept.measured_ms <= _LONGEST_MS
        and 0 < kept.estimated_ms <= _LONGEST_MS
    )


def save(found: Calibrated) -> None:
    """Keep the calibration of a chip in the place of an earlier one.

    Raises:
        OutputError: it could not be written.
    """
    _write({**kept_calibrations(), found.chip: found})


def forget(chip: str) -> bool:
    """Estimate a chip without a run again; whether it had one."""
    kept = dict(kept_calibrations())
    had = kept.pop(chip, None) is not None
    if had:
        _write(kept)
    return had


def _write(chips: Mapping[str, Calibrated]) -> None:
    content = json.dumps(encode(_Kept(chips)), indent=1).encode("ascii")
    with output_errors(_path()):
        private_folder(_path().parent)
    atomic_write(_path(), content, overwrite=True, private=True)


def measured_of(run: str | None, title: str) -> MeasuredPoint:
    """What a run of the history measured with one thread on the fewest cores.

    Args:
        run: its id; None: the newest run of a model of that name.
        title: name of the model, without its suffix.

    Raises:
        UsageError: there is no such run, or it measured no time on a real board.
    """
    from engine.devices.measure.history import list_runs, load_run

    if run is None:
        fits = (
            item.id
            for item in list_runs()
            if item.label == "measured" and item.median and Path(item.title).stem == title
        )
        run = next(fits, None)
    if run is None:
        raise UsageError(
            f"No measured run of a model {sanitize(title, 80)!r} is kept.",
            cause="A calibration takes a run of `rknntui perf MODEL.rknn --device DEVICE`.",
            remedy="Measure one, or name a run of `rknntui perf history`.",
        )
    run_loaded = load_run(run)
    if run_loaded.label != "measured":
        raise UsageError(
            f"The run {run} is of an emulated board.",
            cause="Its times are of this machine, not of an NPU.",
            remedy="Measure on a board.",
        )
    points = [
        (_cores(item.cell.cores), item.cell.batch, item.timings.median / 1000, item.times)
        for item in run_loaded.cells
        if item.timings is not None and item.cell.threads == 1
    ]
    if not points:
        raise UsageError(
            f"The run {run} has no time of a single thread.",
            remedy="Measure with --threads 1.",
        )
    cores, batch, milliseconds, times = min(points)
    clock = run_loaded.conditions.clocks.get("npu") or run_loaded.conditions.clocks.get("NPU")
    return MeasuredPoint(
        run,
        run_loaded.title,
        run_loaded.conditions.chip,
        milliseconds,
        cores,
        batch,
        clock / 1e6 if clock and 0 < clock < inf else None,
        tuple(item / 1000 for item in times),
    )


def _cores(name: str) -> int:
    """Of a core mask: ``auto`` is one core, ``0_1`` are two."""
    return name.count("_") + 1


def calibration(measured: MeasuredPoint, estimated: ChipEstimate, model: str) -> Calibrated:
    """What a measured run says about an estimate under the same conditions.

    Raises:
        UsageError: there is no such estimate, or the two are too far apart.
    """
    from engine.cost.timing import LayerTime, NetTime, calibrate

    if estimated.time_ms is None or estimated.fps is None:
        raise UsageError(
            f"{estimated.chip} cannot be estimated: {estimated.problem}", remedy=estimated.remedy
        )
    ratio = measured.milliseconds / estimated.time_ms.value
    if not _RATIOS[0] <= ratio <= _RATIOS[1]:
        raise UsageError(
            f"The run {measured.run} took {measured.milliseconds:.2f} ms, and "
            f"{estimated.time_ms.value:.2f} ms are estimated: too far apart to calibrate.",
            cause="The run may be of another model, dtype or input size.",
            remedy="Name the run of this model, as it was compiled.",
        )
    timed = NetTime(
        estimated.time_ms,
        estimated.fps,
        tuple(LayerTime(row.time_ms, row.bound) for row in estimated.layers),
        estimated.confidence,
        estimated.stratum,
    )
    fit = calibrate(timed, measured.times or (measured.milliseconds,))
    notes = list(fit.notes)
    if Path(measured.title).stem != Path(model).stem:
        notes.append(f"the run is of {measured.title}, the estimate of {model}")
    if measured.npu_mhz is None:
        notes.append("the board did not tell its clock: the highest is assumed")
    return Calibrated(
        estimated.chip,
        measured.run,
        round(measured.milliseconds, 4),
        round(estimated.time_ms.value, 4),
        round(fit.factor, 5),
        tuple(notes),
        round(fit.spread, 5),
        fit.stratum,
    )


def apply(found: ChipEstimate, kept: Mapping[str, Calibrated]) -> ChipEstimate:
    """An estimate corrected by the calibration of its chip, where there is one; it says so.

    The interval becomes narrower where the measured network was of the same kind.
    """
    run = kept.get(found.chip)
    if run is None or found.time_ms is None or found.fps is None:
        return found
    time, factor = found.time_ms, run.factor
    width = log(time.high / time.value) if time.high > time.value > 0 else 0.0
    if run.spread is not None and run.stratum == found.stratum:
        width = min(width, run.spread)
    note = (
        f"time x {factor:.3f}, calibrated by your run {run.run} "
        f"({run.measured_ms:.2f} ms measured, {run.estimated_ms:.2f} ms estimated)"
    )
    return replace(
        found,
        confidence="calibrated",
        time_ms=_around(time.value * factor, width),
        fps=_around(found.fps.value / factor, width),
        layers=tuple(replace(row, time_ms=row.time_ms * factor) for row in found.layers),
        notes=(*found.notes, note),
    )


def _around(value: float, width: float) -> Interval:
    return Interval(value, value * exp(-width), value * exp(width))
