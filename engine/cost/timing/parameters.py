"""Parameters of the time model: fitted values with their spread, and chips derived from others.

``parameters.csv`` is written by ``scripts/fit_time_model.py`` from published frame rates;
``chips.csv`` says what every chip stands on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from engine.base.errors import UsageError
from engine.cost.timing.form import Speeds
from engine.cost.timing.work import ACTIVATIONS, CPU_KINDS
from engine.facts import records

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
    """What a chip's time stands on.

    Raises:
        UsageError: it is no chip of generation 2.
    """
    row = _chips().get(chip)
    if row is None:
        raise UsageError(
            f"There is no time model of {chip}.",
            cause="The model is of the chips of toolkit generation 2.",
            remedy=f"Choose one of {', '.join(sorted(_chips()))}.",
        )
    return row


def speeds_of(fitted: Mapping[str, float], chip: str, mhz: float | None = None) -> Speeds:
    """What a chip does in a millisecond.

    Args:
        fitted: value of each parameter.
        chip: of ``chips.csv``.
        mhz: clock of its NPU; the highest where None.

    Raises:
        UsageError: no such chip, or a clock that is none.
    """
    timed = timed_chip(chip)
    clock = timed.mhz if mhz is None else mhz
    if not 1 <= clock <= 10_000:
        raise UsageError(f"{clock:g} MHz is no clock of an NPU.", remedy="Give 1 to 10000, as 600.")
    base = timed.base
    ratio = clock / _FITTED_AT
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
        vector=fitted["vector"],
        depthwise=fitted["depthwise"],
        strided=fitted["strided"],
        copy=fitted["copy"],
        elementwise=fitted["elementwise"],
        pool=fitted["pool"],
        average=fitted.get(f"average.{base}", 0.0) / rate * 1e-6,
        head=fitted["head"] * 1e-3,
        score=fitted["score"],
        attention=_ATTENTION,
        task=fitted["task"] * 1e-3,
        cpu_start=cpu * fitted["cpu_start"] * 1e-3,
        cpu=tuple(cpu * fitted.get(f"cpu_{kind}", other) * 1e-6 for kind in CPU_KINDS),
    )
