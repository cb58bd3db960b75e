"""A measured run of the user's board makes estimates of its chip better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, isfinite, log, sqrt

from engine.base.errors import UsageError
from engine.cost.timing.model import LayerTime, NetTime

_REPEATED = 0.01
"""A model that is published twice differs by 0.3 to 1.2 %: no run says more than that."""
_OTHERS = 0.6
"""Part of the interval that stays for other networks of the same kind: with two measured
networks the error of the others falls from 11-22 % to 3-5 % [docs/estimates/derivation.md]."""
_QUANTILE = 1.645
"""Half width of nine in ten, in standard deviations."""


@dataclass(frozen=True)
class Calibration:
    """What a run says of a chip.

    Attributes:
        factor: estimates of the chip are multiplied by it.
        spread: half width of the calibrated interval, of the logarithm, for networks like it.
        stratum: the kind of network that was measured; others keep their own interval.
        measured, estimated: milliseconds.
        layers: measured over estimated milliseconds of each layer that was measured, by its place.
        notes: what a reader should know.
    """

    factor: float
    spread: float
    stratum: str
    measured: float
    estimated: float
    layers: Mapping[int, float]
    notes: tuple[str, ...] = ()


def calibrate(
    estimate: NetTime,
    measured_ms: Sequence[float],
    layers: Mapping[int, float] | None = None,
) -> Calibration:
    """A factor of a chip from one run.

    The factor is shrunk towards 1 by how much of the difference may be chance: in logarithms the
    estimate has its interval's variance and the run the variance of its mean.

    Args:
        estimate: of the network that was measured, on that chip, not calibrated.
        measured_ms: milliseconds of each inference of the run, or of its median alone.
        layers: place of a layer in the estimate -> its measured milliseconds, where known.

    Raises:
        UsageError: a time is not above 0, or there is none.
    """
    times = [float(ms) for ms in measured_ms]
    if not times or not all(isfinite(ms) and ms > 0 for ms in times):
        raise UsageError(
            "The run has no times to calibrate with.",
            cause="A time is missing, or not above 0.",
            remedy="Measure the model with `rknntui perf` again.",
        )
    if not estimate.time.value > 0:
        raise UsageError(
            "The estimate of this model is 0 ms: there is nothing to calibrate.",
            remedy="Calibrate with another model.",
        )
    middle = sorted(times)[len(times) // 2]
    logs = [log(ms) for ms in times]
    mean = sum(logs) / len(logs)
    own = sqrt(sum((value - mean) ** 2 for value in logs) / len(logs))
    noise = hypot(_REPEATED, own)
    expected = log(estimate.time.high / estimate.time.value) / _QUANTILE
    weight = expected**2 / (expected**2 + noise**2) if expected > 0 else 0.0
    difference = log(middle / estimate.time.value)
    factor = exp(weight * difference)
    unsure = expected * noise / hypot(expected, noise)  # of the factor, after the run
    left = hypot(_OTHERS * expected, unsure) * _QUANTILE
    notes = []
    if abs(difference) > 3 * expected:
        notes.append(
            "The run is far outside the interval: other clocks, or another model, than estimated?"
        )
    if own > 0.1:
        notes.append(f"The run's own times differ by {own:.0%}: the factor counts less.")
    return Calibration(
        factor,
        max(left, _REPEATED * _QUANTILE),
        estimate.stratum,
        middle,
        estimate.time.value,
        _ratios(estimate.layers, layers or {}),
        tuple(notes),
    )


def _ratios(estimated: Sequence[LayerTime], measured: Mapping[int, float]) -> dict[int, float]:
    return {
        place: ms / estimated[place].ms
        for place, ms in measured.items()
        if 0 <= place < len(estimated) and estimated[place].ms > 0 and ms > 0
    }
