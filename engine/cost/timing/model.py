"""Milliseconds of a network on a chip of generation 2, with an interval; calibrated where measured.

Intervals are from networks that were left out of the fit. The data files are written by
``scripts/fit_time_model.py``: ``intervals.csv`` has a half width for each stratum of networks,
``operators.csv`` how many fitted networks have each operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, hypot, isfinite, log, sqrt

import numpy as np

from engine.base.errors import UsageError
from engine.cost.cycles import Cycles
from engine.cost.lowered import Lowered
from engine.cost.timing.form import Terms, columns_of, layer_terms, speeds_of, timed_chip, values
from engine.cost.timing.work import LayerWork, layer_work
from engine.facts import numbers
from engine.facts.npu import npu_profile, npu_profiles
from engine.wire.cost import Bound, Interval

_EXTRAPOLATED = 0.2
"""Share of the time in rarely seen operators from which an estimate is called extrapolated."""
_CORES_SPREAD = 0.35
"""What sharing layers between cores adds to the interval: no rate of it was published."""
_SHARED = 0.8
"""Gain of each further core in a layer that they share: assumed (docs/estimates/derivation.md)."""
_ALONE = ("silu", "sigmoid", "hardswish", "gelu")
"""Activations whose convolution runs on one core only [RKNN-T2, operator lists]."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Milliseconds of a layer in one inference, and what most of them are."""

    ms: float
    bound: Bound


@dataclass(frozen=True)
class NetTime:
    """Of a run of a network.

    Attributes:
        time: milliseconds of a run: all of the batch.
        fps: inferences in a second, each of the batch counted; None of a run without layers.
        layers: of one inference, in the order of the lowered layers; they add up to the time of
            one inference.
        confidence: ``fitted``, ``derived``, ``structural`` or ``calibrated``.
        stratum: kind of network that the interval is of.
        notes: what a reader should know, in sentences.
    """

    time: Interval
    fps: Interval | None
    layers: tuple[LayerTime, ...]
    confidence: str
    stratum: str
    notes: tuple[str, ...] = ()


def layer_times(
    lowered: Lowered, cycles: Sequence[Cycles], chip: str, npu_mhz: float | None = None
) -> tuple[LayerTime, ...]:
    """Milliseconds of each layer on one core, in the order of :attr:`Lowered.layers`.

    Args:
        lowered: the compiler's layers for this chip.
        cycles: of each layer.
        chip: name of a chip of generation 2.
        npu_mhz: clock of the NPU; the highest where None.

    Raises:
        UsageError: no such chip.
        ValueError: the number of cycles is not that of the layers.
    """
    works = _works(lowered, cycles, chip)
    return _layers(works, _terms(works, chip, npu_mhz, 1))


def net_time(
    lowered: Lowered,
    cycles: Sequence[Cycles],
    chip: str,
    npu_mhz: float | None = None,
    *,
    cores: int = 1,
    batch: int = 1,
) -> NetTime:
    """Milliseconds of a run, with the interval that holds it nine times in ten.

    A batch of several is several inferences: on one core behind each other; on several cores
    each has its own inference at a time [RKNN-T2 2.3.0, rknn_batch_size].

    Args:
        lowered, cycles, chip, npu_mhz: as of :func:`layer_times`.
        cores: that share an inference.
        batch: inferences in a run.

    Raises:
        UsageError: no such chip or batch.
        ValueError: the number of cycles is not that of the layers.
    """
    if not 1 <= batch <= 1024:
        raise UsageError(f"A batch of {batch} is not possible.", remedy="Give 1 to 1024.")
    works = _works(lowered, cycles, chip)
    together = batch == 1
    layers = _layers(works, _terms(works, chip, npu_mhz, cores if together else 1))
    timed = timed_chip(chip)
    times = [layer.ms for layer in layers]
    cpu, rare = less_known(works, times)
    stratum = stratum_of(works, rare)
    beside = hypot(timed.spread, _CORES_SPREAD * log(cores) if cores > 1 else 0.0)
    width = hypot(
        numbers("engine.cost.timing", "intervals.csv")[stratum] * widening(cpu, rare), beside
    )
    value = sum(times) * (1 if together else ceil(batch / cores))
    return NetTime(
        interval(value, width),
        interval(1000 * batch / value, width) if value > 0 else Interval(0.0, 0.0, 0.0),
        layers,
        timed.confidence,
        stratum,
        _notes(timed.confidence, timed.note, rare, cores, width),
    )


def _works(lowered: Lowered, cycles: Sequence[Cycles], chip: str) -> tuple[LayerWork, ...]:
    npu = npu_profile(chip)
    if npu is None:
        chips = (name for family in npu_profiles() for name in family.chips)
        raise UsageError(
            f"There is no time model of {chip}.",
            cause="The model is of the chips of toolkit generation 2.",
            remedy=f"Choose one of {', '.join(sorted(chips))}.",
        )
    return layer_work(lowered, npu, [cycle.npu for cycle in cycles])


def _terms(works: Sequence[LayerWork], chip: str, npu_mhz: float | None, cores: int) -> Terms:
    terms = layer_terms(columns_of(works), speeds_of(values(), chip, npu_mhz))
    if cores == 1:
        return terms
    gain = 1 + _SHARED * (cores - 1)
    shared = np.array([_shares(work) for work in works], dtype=np.bool_)
    # Cores share the memory: only what is not bound by it becomes shorter.
    busy = terms.total - terms.start
    short = np.maximum(busy / gain, np.minimum(terms.memory, busy))
    return replace(
        terms,
        total=np.where(shared, short + terms.start, terms.total),
        compute=np.where(shared, terms.compute / gain, terms.compute),
    )


def _shares(work: LayerWork) -> bool:
    """Whether several cores share a layer [RKNN-T2, "multi-core co-run" of the operator lists]."""
    op = work.op.lower()
    if work.part == "array":
        return op.startswith("conv") and "transpose" not in op and work.activation not in _ALONE
    return work.part == "elementwise" and op.startswith(("add", "mul"))


_BOUNDS: tuple[Bound, ...] = ("compute", "memory", "activation", "attention", "cpu", "start")


def _layers(works: Sequence[LayerWork], terms: Terms) -> tuple[LayerTime, ...]:
    parts = np.stack([getattr(terms, bound) for bound in _BOUNDS])
    largest = parts.argmax(axis=0).tolist()
    totals = terms.total.tolist()
    return tuple(
        LayerTime(total, _BOUNDS[at] if total > 0 else "nothing")
        for total, at in zip(totals, largest, strict=True)
    )


def _notes(confidence: str, basis: str, share: float, cores: int, width: float) -> tuple[str, ...]:
    notes = []
    if confidence != "fitted":
        notes.append(f"No frame rate was published for this chip: {basis}.")
    if share > _EXTRAPOLATED:
        notes.append(
            f"{share:.0%} of the time is in operators of which hardly any rate was published: "
            "extrapolated."
        )
    if cores > 1:
        notes.append(
            "No rate on several cores was published: which layers share cores is known, how much "
            "they gain is assumed."
        )
    if width > 0.3:
        notes.append(f"The time may be off by a factor of {exp(width):.1f}.")
    return tuple(notes)


Stratum = str
"""``convolution``: int8, nothing on the CPU and hardly a rarely seen operator; ``mixed``:
everything else."""

RARE = 3
"""An operator of fewer fitted networks than this is rarely seen."""
_FEW = 0.05
"""What ``convolution`` may have of cycles in float16, and of time in rarely seen operators."""
_LESS_KNOWN = 1.5
"""An interval is wider by so many times its width where all of the time is on the CPU, or in
rarely seen operators: those cost by type and by layout in ways that the rates hardly tell."""


def operator_name(work: LayerWork) -> str:
    """What an operator is told apart by: its part, activation or CPU type, and dtype.

    Windows with gaps and a Resize between pixels are others than those without.
    """
    detail = work.cpu or work.activation
    if work.dilated or work.linear:
        detail = f"{detail} dilated" if work.dilated else "linear"
        detail = detail.strip()
    return ":".join((work.part, detail, "float16" if work.half else "int8"))


def stratum_of(works: Sequence[LayerWork], rare: float = 0.0) -> Stratum:
    """The kind of network that an interval is taken from.

    Args:
        works: the layers.
        rare: share of the time in rarely seen operators, of :func:`less_known`.
    """
    plain = all(work.part != "cpu" for work in works)
    whole = sum(work.cycles for work in works)
    half = sum(work.cycles for work in works if work.half)
    return "convolution" if plain and half <= _FEW * whole and rare <= _FEW else "mixed"


def less_known(
    works: Sequence[LayerWork], times: Sequence[float], seen: Mapping[str, float] | None = None
) -> tuple[float, float]:
    """Shares of the time that are on the CPU, and in operators of fewer than :data:`RARE`
    fitted networks.

    Args:
        works: the layers.
        times: milliseconds of each.
        seen: operator -> fitted networks that have it; those of the data file where None.
    """
    counts = numbers("engine.cost.timing", "operators.csv") if seen is None else seen
    whole = sum(times)
    cpu = rare = 0.0
    for work, time in zip(works, times, strict=True):
        if work.part == "cpu":
            cpu += time
        if work.part != "nothing" and counts.get(operator_name(work), 0) < RARE:
            rare += time
    return (cpu / whole, rare / whole) if whole > 0 else (0.0, 0.0)


def widening(cpu: float, rare: float) -> float:
    """How many times wider an interval is for these shares of :func:`less_known`."""
    return 1 + _LESS_KNOWN * max(cpu, rare)


def interval(value: float, width: float) -> Interval:
    """A figure and what holds it nine times in ten; ``width`` of its logarithm."""
    return Interval(value, value * exp(-width), value * exp(width))


# A measured run of the user's board makes estimates of its chip better.

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
        notes: what a reader should know.
    """

    factor: float
    spread: float
    stratum: str
    notes: tuple[str, ...] = ()


def calibrate(estimate: NetTime, measured_ms: Sequence[float]) -> Calibration:
    """A factor of a chip from one run.

    The factor is shrunk towards 1 by how much of the difference may be chance: in logarithms the
    estimate has its interval's variance and the run the variance of its mean.

    Args:
        estimate: of the network that was measured, on that chip, not calibrated.
        measured_ms: milliseconds of each inference of the run, or of its median alone.

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
    spread = max(left, _REPEATED * _QUANTILE)
    return Calibration(factor, spread, estimate.stratum, tuple(notes))
