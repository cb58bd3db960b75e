"""Ranges by Kullback-Leibler divergence: the quantized distribution is to resemble the real one.

As TensorRT does it (Migacz 2017, "8-bit Inference with TensorRT"): for each candidate range, the
histogram within it, with the clipped values in its last bins, is compared with the same histogram
after its values were gathered into the steps of the range and spread over the bins of each step
again. Three things are different, because the divergence alone does not know what values are for:

* both ends are looked for on their own, as activations are asymmetric;
* a range is a candidate only if it costs at most twice what the range that was seen costs, by the
  squared error of :mod:`engine.quantize.algorithms.mmse_range`, where clipping counts more than
  rounding. So no tensor is more than 3 dB worse than with ``normal``, by that measure;
* what float operators read, and results, are not clipped at all
  (:func:`engine.quantize.algorithms.ranges.unclipped_tensors`).

The vendor's ``kl_divergence`` clips logits to a symmetric range and can lose nearly every box with
that (observed on a face detector, toolkit 2.3.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.quantize.algorithms.mmse_range import RangeCost
from engine.quantize.calibration.histograms import Histogram
from engine.quantize.calibration.observations import Observation
from engine.quantize.planning.node_properties import Clamp

COST_LIMIT = 2.0
"""How many times the squared error of the range that was seen a range may cost: 3 dB."""

_SHARES = np.linspace(1.0, 0.3, 36)
_BINS_PER_STEP = 4

# What a bin counts that the quantized tensor lacks and the real one has (clipped values in an end
# bin that holds nothing else): the divergence would be infinite. MXNet and its heirs take 1e-4.
_SMALLEST_COUNT = 1e-4
_STEPS = 255


class Divergence:
    """The cumulative histogram of a tensor, ready for many ranges; values spread evenly within its
    bins.
    """

    def __init__(self, histogram: Histogram) -> None:
        low, high = histogram.edges
        zero = histogram.codes == 0
        self._zeros = float(histogram.counts[zero].sum())
        self._edges = np.append(low[~zero], high[~zero][-1:])
        gaps = np.nonzero(high[~zero][:-1] < low[~zero][1:])[0]
        counts = histogram.counts[~zero].astype(np.float64)
        # between bins that do not touch lies one without values
        self._edges = np.insert(self._edges, gaps + 1, high[~zero][gaps])
        self._counts = np.insert(counts, gaps + 1, 0.0)
        self._below = np.concatenate([np.zeros(1), np.cumsum(self._counts)])

    def of(self, low: float, high: float, steps: int) -> float:
        """Kullback-Leibler divergence of a quantized tensor from the real one, in nats.

        Args:
            low, high: the range, low <= 0 <= high.
            steps: of the format. Each is cut into four bins.
        """
        width = (high - low) / (steps + 1)
        bins = (steps + 1) * _BINS_PER_STEP
        edges = low + np.arange(bins + 1) * (width / _BINS_PER_STEP)
        reached = (
            np.interp(edges, self._edges, self._below) if self._counts.size else np.zeros(bins + 1)
        )
        inside = np.diff(reached)
        home = min(max(int(-low / (high - low) * bins), 0), bins - 1)
        inside[home] += self._zeros
        real = inside.copy()
        total = self._below[-1]
        real[0] += reached[0]
        real[-1] += total - reached[-1]
        held = inside > 0
        grouped = inside.reshape(-1, _BINS_PER_STEP)
        share = held.reshape(-1, _BINS_PER_STEP)
        average = grouped.sum(axis=1) / np.maximum(share.sum(axis=1), 1)
        quantized = (average[:, None] * share).reshape(-1)
        return _relative_entropy(real, quantized)


def _relative_entropy(real: np.ndarray, quantized: np.ndarray) -> float:
    """``sum p log(p / q)`` of two histograms; infinite where one of them is empty."""
    held = real > 0
    if not held.any() or not quantized.any():
        return float("inf")
    p = real[held] / real.sum()
    q = np.maximum(quantized[held], _SMALLEST_COUNT) / quantized.sum()
    return float((p * np.log(p / q)).sum())


def least_divergence_range(
    seen: Observation, steps: int = _STEPS, clamps: Sequence[Clamp] = (), whole: bool = False
) -> tuple[float, float]:
    """The range of least divergence among those that cost little enough.

    Args:
        seen: the tensor; without a histogram its range stays.
        steps: of the format. With more than 255 nothing is gained by clipping: the range stays.
        clamps: that end in the tensor; ranges within what was seen keep their bounds.
        whole: nothing that was seen may be clipped: the range stays.
    """
    low, high = min(seen.minimum, 0.0), max(seen.maximum, 0.0)
    histogram = seen.histogram
    if whole or histogram is None or histogram.total == 0 or high == low or steps > _STEPS:
        return seen.minimum, seen.maximum
    cost, entropy = RangeCost(histogram, steps), Divergence(histogram)
    limit = COST_LIMIT * float(cost.total(np.array(low), np.array(high)))
    best = low, high
    for _ in range(2):
        for end in (0, 1):
            if (low, high)[end] == 0.0:
                continue
            candidates = [_with(best, end, float((low, high)[end] * share)) for share in _SHARES]
            ends = np.array(candidates)
            cheap = cost.total(ends[:, 0], ends[:, 1]) <= limit
            allowed = [pair for pair, good in zip(candidates, cheap, strict=True) if good]
            if allowed:
                best = min(allowed, key=lambda pair: entropy.of(pair[0], pair[1], steps))
    return best


def _with(pair: tuple[float, float], end: int, value: float) -> tuple[float, float]:
    return (value, pair[1]) if end == 0 else (pair[0], value)
