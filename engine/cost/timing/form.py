"""The form of the time model and its parameters: what each quantity of work costs.

It works on arrays over layers.

The same code serves the fit (all layers of all networks at once) and an estimate (one network), so
that what was fitted is what is shipped. Reasons and errors: docs/estimates/derivation.md, "Time".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from engine.cost.timing.work import ACTIVATIONS, CPU_KINDS, LayerWork, Part
from engine.facts import records

Floats = npt.NDArray[np.float64]

NORM = 4.0
"""Multiplying, moving bytes and the output stage work at the same time: a smooth maximum, the
4-norm, as no pipeline overlaps completely."""


Columns = Mapping[str, npt.NDArray[Any]]
"""The work of many layers: a column for each quantity of :class:`LayerWork`, by its name. Shapes
(layers,); float64, and of ``part``, ``activation`` and ``cpu`` int64: the place in its list."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "part": get_args(Part),
    "activation": ACTIVATIONS,
    "cpu": CPU_KINDS,
}
_NUMBERS = [each.name for each in fields(LayerWork) if each.name not in (*_CHOICES, "op")]


def columns_of(works: Sequence[LayerWork]) -> Columns:
    """The columns of a sequence of layers; what is not in a list has the place behind its last."""
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.array([getattr(work, name) for work in works], dtype=np.float64)
        for name in _NUMBERS
    }
    for name, names in _CHOICES.items():
        places = {name: at for at, name in enumerate(names)}
        codes = [places.get(getattr(work, name), len(names)) for work in works]
        columns[name] = np.array(codes, dtype=np.int64)
    return columns


@dataclass(frozen=True)
class Speeds:
    """What one core of one chip does in a millisecond, and what things cost on it.

    Attributes:
        cycles: cycles of the MAC array in a millisecond.
        bandwidth: bytes of features in a millisecond.
        weight_bandwidth: bytes of weights in a millisecond.
        lookup: milliseconds of the output stage for one element of the dearest usual activation
            (SiLU).
        activations: cost of each of :data:`ACTIVATIONS` and of none, SiLU = 1.
        average: milliseconds of each element in the windows of an average pool, where that is not
            hidden behind its bytes.
        head: milliseconds for each head of a fused attention.
        task: milliseconds to start a layer.
        cpu_start: milliseconds to hand a layer to the CPU and back.
        cpu: milliseconds for each unit of :attr:`LayerWork.cpu_amount`, by :data:`CPU_KINDS`.
        fitted: what is the same on all chips, by name. ``vector``: cycles to hand one vector of
            outputs on, beside those of multiplying; ``depthwise``, ``strided``: cycles of such
            convolutions, over the printed ones; ``copy``, ``elementwise``, ``pool``: bytes that
            such a layer moves, over those of its tensors; ``score``: lookups for each element of
            an attention's score matrix.
    """

    cycles: float
    bandwidth: float
    weight_bandwidth: float
    lookup: float
    activations: tuple[float, ...]
    average: float
    head: float
    task: float
    cpu_start: float
    cpu: tuple[float, ...]
    fitted: Mapping[str, float]


@dataclass(frozen=True)
class Terms:
    """Milliseconds of each layer: the whole, and each part of it; shapes (layers,).

    The parts do not add up to the whole where they overlap.
    """

    total: Floats
    compute: Floats
    memory: Floats
    activation: Floats
    attention: Floats
    cpu: Floats
    start: Floats


def layer_terms(work: Columns, speeds: Speeds) -> Terms:
    """Milliseconds of each layer on one core."""
    part = {name: work["part"] == at for at, name in enumerate(_CHOICES["part"])}
    fitted = speeds.fitted
    cycles = (
        work["cycles"]
        * work["packed"]
        * np.where(work["depthwise"], fitted["depthwise"], 1.0)
        * np.where(work["strided"], fitted["strided"], 1.0)
        + work["vectors"] * fitted["vector"]
    )
    compute = cycles / speeds.cycles + work["averaged"] * speeds.average
    moved = work["features"] / speeds.bandwidth + work["weights"] / speeds.weight_bandwidth
    passes = (
        part["array"] * 1.0
        + part["copy"] * fitted["copy"]
        + (part["elementwise"] | part["softmax"]) * fitted["elementwise"]
        + part["pool"] * fitted["pool"]
    )
    memory = moved * passes
    activation = work["lookups"] * np.array((*speeds.activations, 0.0))[work["activation"]]
    activation = (
        activation + np.where(part["softmax"], fitted["score"], 0.0) * work["lookups"]
    ) * speeds.lookup
    overlapped = (compute**NORM + memory**NORM + activation**NORM) ** (1 / NORM)
    attention = part["attention"] * (
        speeds.head * work["heads"]
        + fitted["score"] * speeds.lookup * work["scores"]
        + _ATTENTION * (moved + compute)
    )
    cpu = part["cpu"] * (
        speeds.cpu_start + np.array((*speeds.cpu, 0.0))[work["cpu"]] * work["cpu_amount"]
    )
    start = speeds.task * work["tasks"] * ~part["cpu"]
    overlapped = np.where(part["softmax"], memory + activation, overlapped)
    busy = ~(part["attention"] | part["cpu"] | part["nothing"])
    total = np.where(busy, overlapped, 0.0) + attention + cpu + start
    return Terms(
        total,
        np.where(busy, compute, 0.0),
        np.where(busy, memory, 0.0),
        np.where(busy, activation, 0.0),
        attention,
        cpu,
        start,
    )


# Parameters of the time model: fitted values with their spread, and chips derived from others.
#
# ``parameters.csv`` is written by ``scripts/fit_time_model.py`` from published frame rates;
# ``chips.csv`` says what every chip stands on.

FITTED = ("rk3562", "rk3566", "rk3576", "rk3588")
"""Chips with published rates of their own."""
_512 = ("rk3562", "rk3566")
"""Chips whose array has 512 multipliers; their output stages are alike."""
_ATTENTION = 1.5
"""Products and bytes of a fused attention overlap badly: assumed, the rates do not tell."""
_CLOCKS = {"rk3566": 0.9}
"""GHz that the array has where the benchmark script sets 1000 MHz: the compiler counts with 900."""
_FITTED_AT = 1000.0
"""MHz of the NPU to which the vendor's benchmark script set all of them."""


@dataclass(frozen=True)
class Parameter:
    """A figure of the model.

    Attributes:
        name: ``utilisation``; with a chip behind a dot where it is that chip's.
        value: fitted, in ``unit``.
        spread: standard deviation of its logarithm after the fit (0.1: 10 %).
        prior: expected before the fit.
        prior_spread: standard deviation of the prior's logarithm.
        source: why the prior is what it is.
    """

    name: str
    value: float
    spread: float
    prior: float
    prior_spread: float
    unit: str
    source: str


@dataclass(frozen=True)
class TimedChip:
    """What a chip's time stands on.

    Attributes:
        base: the fitted chip of which it takes the parameters.
        mhz: highest clock of its NPU.
        bandwidth: of its memory, over that of the base.
        lookup: cycles of an activation, over those of the base.
        cpu: time of its CPU, over that of the base.
        spread: half width of its interval in logarithms, beside that of the network; 0 where
            the chip has rates of its own.
        confidence: ``fitted``, ``derived`` or ``structural``.
        note: what it is derived from.
    """

    name: str
    base: str
    mhz: float
    bandwidth: float
    lookup: float
    cpu: float
    spread: float
    confidence: str
    note: str


@cache
def parameters() -> tuple[Parameter, ...]:
    """All of the data file, in its order."""
    return records(Parameter, "engine.cost.timing", "parameters.csv")


@cache
def values() -> Mapping[str, float]:
    """The fitted value of each parameter."""
    return {parameter.name: parameter.value for parameter in parameters()}


@cache
def _chips() -> Mapping[str, TimedChip]:
    return {row.name: row for row in records(TimedChip, "engine.cost.timing", "chips.csv")}


def timed_chip(chip: str) -> TimedChip:
    """What the time of a chip of generation 2 stands on."""
    return _chips()[chip]


def speeds_of(fitted: Mapping[str, float], chip: str, mhz: float | None = None) -> Speeds:
    """What a chip does in a millisecond.

    Args:
        fitted: value of each parameter.
        chip: of ``chips.csv``.
        mhz: clock of its NPU; the highest where None.
    """
    timed = timed_chip(chip)
    base = timed.base
    ratio = (timed.mhz if mhz is None else mhz) / _FITTED_AT
    bandwidth = fitted[f"bandwidth.{base}"] * timed.bandwidth * 1e6
    rate = fitted["clock"] * _CLOCKS.get(base, 1.0) * ratio
    wide = "512" if base in _512 else base
    cpu = fitted[f"cpu.{base}"] * timed.cpu
    other = fitted["cpu_other"]
    return Speeds(
        cycles=rate * 1e6,
        bandwidth=bandwidth,
        weight_bandwidth=bandwidth * fitted[f"weights.{base}"],
        lookup=fitted[f"lookup.{wide}"] * timed.lookup / rate * 1e-6,
        activations=tuple(fitted.get(f"activation.{kind}", 1.0) for kind in ACTIVATIONS),
        average=fitted.get(f"average.{base}", 0.0) / rate * 1e-6,
        head=fitted["head"] * 1e-3,
        task=fitted["task"] * 1e-3,
        cpu_start=cpu * fitted["cpu_start"] * 1e-3,
        cpu=tuple(cpu * fitted.get(f"cpu_{kind}", other) * 1e-6 for kind in CPU_KINDS),
        fitted=fitted,
    )
