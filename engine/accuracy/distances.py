"""Distances of a row's tensors, pooled over samples; sums in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.graph.execute import dot, without_agreed_infinity

__all__ = ["Distance", "RowSums", "Saturation", "mean"]

# values at a time: what stays in the cache takes a twelfth of the time of whole arrays
_BLOCK = 8192


@dataclass(frozen=True)
class Distance:
    """Of two tensors: cosine of their angle, and Euclidean distance in units of the tensor."""

    cosine: float
    euclidean: float


@dataclass(frozen=True)
class Saturation:
    """Shares of 1 of a tensor's float values that the quantized one cannot hold.

    A value counts where it lies more than half a step beyond the end of the range, so that
    rounding alone cannot have brought it there.
    """

    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"low": self.low, "high": self.high}


@dataclass
class RowSums:
    """Of one row over the samples.

    Attributes:
        entire, single: distances of each sample.
        signal: sum of squares of the golden values.
        noise, own_noise: sum of squares of the errors of the whole run, and of the layer alone.
        low, high: how many golden values lie below and above what the quantized tensor holds.
        values: how many were looked at.
    """

    entire: list[Distance] = field(default_factory=list)
    single: list[Distance] = field(default_factory=list)
    signal: float = 0.0
    noise: float = 0.0
    own_noise: float = 0.0
    low: int = 0
    high: int = 0
    values: int = 0

    def add(
        self,
        golden: np.ndarray,
        whole: np.ndarray,
        alone: np.ndarray,
        span: tuple[float, float] | None,
    ) -> None:
        """Take one sample's tensors: float32, of one shape."""
        g_all, w_all, a_all = golden.ravel(), whole.ravel(), alone.ravel()
        same = alone is whole
        signal = w_power = w_noise = a_power = a_noise = 0.0
        for start in range(0, len(g_all), _BLOCK):
            part = g_all[start : start + _BLOCK]
            w, a = w_all[start : start + _BLOCK], a_all[start : start + _BLOCK]
            g = part.astype(np.float64)
            squares = dot(g, g)
            if not math.isfinite(squares):
                g, w, a = without_agreed_infinity(g, w, a)
                squares = dot(g, g)
            signal += squares
            power, noise = _sums(g, w)
            w_power, w_noise = w_power + power, w_noise + noise
            if not same:
                power, noise = _sums(g, a)
                a_power, a_noise = a_power + power, a_noise + noise
            if span is not None:
                self.low += int(np.count_nonzero(part < span[0]))
                self.high += int(np.count_nonzero(part > span[1]))
        if same:
            a_power, a_noise = w_power, w_noise
        self.entire.append(_distance(signal, w_power, w_noise))
        self.single.append(_distance(signal, a_power, a_noise))
        self.signal += signal
        self.noise += w_noise
        self.own_noise += a_noise
        self.values += len(g_all) if span is not None else 0

    @property
    def sqnr(self) -> float | None:
        """10 log10(signal / noise) in dB; None without noise, very low without signal."""
        return _decibels(self.signal, self.noise)

    @property
    def own_sqnr(self) -> float | None:
        """As :attr:`sqnr`, of the layer alone."""
        return _decibels(self.signal, self.own_noise)

    @property
    def own_share(self) -> float | None:
        """How much of the tensor's error the layer makes by itself, 0 to 1; None without any."""
        if self.noise == 0:
            return None
        return min(1.0, self.own_noise / self.noise)

    @property
    def saturation(self) -> Saturation | None:
        """None where the tensor has no integers, or a range for each channel."""
        if not self.values:
            return None
        return Saturation(self.low / self.values, self.high / self.values)


def mean(distances: list[Distance]) -> Distance | None:
    """The mean over samples; None where there is none."""
    if not distances:
        return None
    return Distance(
        sum(d.cosine for d in distances) / len(distances),
        sum(d.euclidean for d in distances) / len(distances),
    )


def _sums(g: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    q = other.astype(np.float64)
    power = dot(q, q)
    q -= g
    return power, dot(q, q)


def _distance(signal: float, power: float, noise: float) -> Distance:
    norms = math.sqrt(signal) * math.sqrt(power)
    # |r - q|^2 = |r|^2 + |q|^2 - 2 r.q; equal zeros have no angle, they are equal
    cosine = (signal + power - noise) / 2 / norms if norms else float(signal == power)
    return Distance(cosine, math.sqrt(noise))


def _decibels(signal: float, noise: float) -> float | None:
    if noise == 0:
        return None
    return 10 * math.log10(max(signal / noise, 1e-30))
