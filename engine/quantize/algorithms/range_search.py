"""The searches of a tensor's range, on its histogram: by squared error and by divergence.

**Mean squared error**: both ends, narrower and wider than seen.

A range of ``n`` steps of size ``s`` costs, per value,

* rounding: ``s^2 / 12`` (Widrow, Kollar 2008); a value below half a step becomes 0 and costs its
  own square; 0 itself costs nothing;
* clipping: the square of what a value lies beyond the end, ``CAUTION`` times. Errors of rounding
  differ in sign and average out in the sum of the layer that follows; errors of clipping have one
  sign and stand side by side.

A few samples do not show how far values go: beyond the last thousandth of the values the tail is
taken as exponential, the limit law of light tails over thresholds (Pickands 1975), and the larger
of the cost that was seen and the cost that this law expects counts. So a range may also reach
beyond the largest value seen.

``CAUTION`` was chosen on folds of the calibration photographs of the four models of the benchmark
(ranges from three quarters of them, error on the rest), not on their evaluation split: 1 and 64
were ruled out first, then 4 was better than 16 together with the exponent of
:mod:`engine.quantize.algorithms.mmse`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.quantize.calibration.histograms import Histogram
from engine.quantize.calibration.observations import Observation
from engine.quantize.planning.node_properties import Clamp

CAUTION = 4.0

_SHARES = np.arange(20, 71) / 50  # of the end that was seen; 1 is one of them, exactly
_TAIL = 1e-3
_TAIL_VALUES = 30  # at least, else the tail's mean says nothing

# More distinct values than this are no pixels.
_LATTICE = 1024
_LATTICE_SHARES = np.linspace(1.0, 1.1, 21)


class _End:
    """The values on one side of zero: sums over those beyond a limit, and the tail's law."""

    def __init__(self, size: np.ndarray, count: np.ndarray) -> None:
        order = np.argsort(size)
        self._size, weight = size[order], count[order]
        self.largest = float(self._size[-1]) if size.size else 0.0
        # sums over all values from an index on, and a last 0
        self._sums = [
            np.append(np.cumsum((weight * self._size**power)[::-1])[::-1], 0.0)
            for power in range(3)
        ]
        self._start, self._mass, self._decay = self._law(weight)

    def _law(self, weight: np.ndarray) -> tuple[float, float, float]:
        """Threshold, number of values over it, and their mean excess."""
        total = self._sums[0][0]
        if total == 0:
            return 0.0, 0.0, 0.0
        count = max(_TAIL * total, min(_TAIL_VALUES, total))
        index = max(int(np.searchsorted(-self._sums[0], -count, side="right")) - 1, 0)
        index = min(index, weight.size - 1)
        start, mass = float(self._size[index]), float(self._sums[0][index])
        return start, mass, float(self._sums[1][index]) / mass - start

    def below(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Number of values up to each limit, and the sum of their squares."""
        index = np.searchsorted(self._size, limit, side="right")
        return self._sums[0][0] - self._sums[0][index], self._sums[2][0] - self._sums[2][index]

    def clipped(self, limit: np.ndarray) -> np.ndarray:
        """Sum of the squares of what values lie beyond each limit, as seen."""
        index = np.searchsorted(self._size, limit, side="right")
        zeroth, first, second = (sums[index] for sums in self._sums)
        cost: np.ndarray = np.maximum(second - 2 * limit * first + limit**2 * zeroth, 0.0)
        return cost

    def expected(self, limit: np.ndarray) -> np.ndarray:
        """:meth:`clipped`, or what the tail's law expects where that is more."""
        seen = self.clipped(limit)
        if self._decay <= 0:
            return seen
        beyond = np.maximum(limit - self._start, 0.0)
        law = 2 * self._mass * self._decay**2 * np.exp(-beyond / self._decay)
        return np.where(limit >= self._start, np.maximum(seen, law), seen)


class RangeCost:
    """What ranges of one tensor cost: sums of squared errors over the values of its histogram.

    Args:
        histogram: of the tensor.
        steps: of the format, 255 of 8 bits.
    """

    def __init__(self, histogram: Histogram, steps: int = 255) -> None:
        low, high = histogram.edges
        middle, count = (low + high) / 2, histogram.counts.astype(np.float64)
        self._steps = steps
        self.above = _End(middle[middle > 0], count[middle > 0])
        self.under = _End(-middle[middle < 0], count[middle < 0])

    def rounding(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Of values inside of ranges (low <= 0 <= high), for every pair of ends."""
        step = (high - low) / self._steps
        cost = np.zeros(np.broadcast(low, high).shape)
        for end, limit in ((self.above, high), (self.under, -low)):
            near, lost = end.below(np.minimum(step / 2, limit))
            inside, _ = end.below(np.broadcast_to(limit, cost.shape))
            cost += lost + (inside - near) * step**2 / 12
        return cost

    def clipping(self, low: np.ndarray, high: np.ndarray, *, law: bool = True) -> np.ndarray:
        """Of values outside of ranges; ``law``: as the tail's law expects, else as seen."""
        cost: np.ndarray
        if law:
            cost = self.above.expected(high) + self.under.expected(-low)
        else:
            cost = self.above.clipped(high) + self.under.clipped(-low)
        return cost

    def total(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Both, clipping :data:`CAUTION` times."""
        return self.rounding(low, high) + CAUTION * self.clipping(low, high)


def least_cost_range(
    seen: Observation, steps: int = 255, clamps: Sequence[Clamp] = (), whole: bool = False
) -> tuple[float, float]:
    """The range of least cost.

    Args:
        seen: the tensor; without a histogram its range stays.
        steps: of the format, 255 of 8 bits.
        clamps: that end in the tensor; no range goes beyond their bounds, else saturation would
            not do their work.
    """
    low, high = min(seen.minimum, 0.0), max(seen.maximum, 0.0)
    if seen.histogram is None or seen.histogram.total == 0 or high == low:
        return seen.minimum, seen.maximum
    cost = RangeCost(seen.histogram, steps)
    floor = max((clamp.low for clamp in clamps), default=-np.inf)
    ceiling = min((clamp.high for clamp in clamps), default=np.inf)
    shares = _SHARES[_SHARES >= 1.0] if whole else _SHARES
    lows = np.maximum(low * shares, min(floor, 0.0)) if low < 0 else np.zeros(1)
    highs = np.minimum(high * shares, max(ceiling, 0.0)) if high > 0 else np.zeros(1)
    table = cost.total(lows[:, None], highs[None, :])
    row, column = np.unravel_index(int(table.argmin()), table.shape)
    return float(lows[row]), float(highs[column])


def pixel_grid_range(values: np.ndarray, low: float, high: float) -> tuple[float, float]:
    """The range of least error for an input that takes few values, as pixels do.

    Pixels lie on a lattice of their own. With mean and std of 127.5 each of them is half a step off
    the lattice of the range that was seen, and costs three times as much as a value anywhere.

    Args:
        values: of the input, of any shape; more than 1024 different ones leave the range as it is.
        low, high: the range that was seen.
    """
    points, counts = np.unique(values, return_counts=True)
    low, high = min(low, 0.0), max(high, 0.0)
    if points.size > _LATTICE or high == low:
        return low, high
    lows = low * _LATTICE_SHARES[:, None] if low < 0 else np.zeros((1, 1))
    highs = high * _LATTICE_SHARES[None, :] if high > 0 else np.zeros((1, 1))
    lows, highs = np.broadcast_arrays(lows, highs)
    step = ((highs - lows) / 255.0).astype(np.float32)
    zero = np.rint(-128.0 - lows / step.astype(np.float64))
    error = np.zeros(step.shape)
    for point, count in zip(points, counts, strict=True):
        steps = np.clip(np.rint(point / step) + zero, -128, 127) - zero
        error += count * (steps * step.astype(np.float64) - float(point)) ** 2
    best = int(error.argmin())  # the first of equals: the range that was seen
    return float(lows.flat[best]), float(highs.flat[best])


# Ranges by Kullback-Leibler divergence: the quantized distribution is to resemble the real one.
#
# As TensorRT does it (Migacz 2017, "8-bit Inference with TensorRT"): for each candidate range, the
# histogram within it, with the clipped values in its last bins, is compared with the same histogram
# after its values were gathered into the steps of the range and spread over the bins of each step
# again. Three things are different, because the divergence alone does not know what values are for:
#
# * both ends are looked for on their own, as activations are asymmetric;
# * a range is a candidate only if it costs at most twice what the range that was seen costs, by the
#   squared error above, where clipping counts more than rounding. So no tensor is more than 3 dB
#   worse than with ``normal``, by that measure;
# * what float operators read, and results, are not clipped at all
#   (:func:`engine.quantize.algorithms.ranges.unclipped_tensors`).
#
# The vendor's ``kl_divergence`` clips logits to a symmetric range and can lose nearly every box
# with that (observed on a face detector, toolkit 2.3.2).

COST_LIMIT = 2.0
"""How many times the squared error of the range that was seen a range may cost: 3 dB."""

_KL_SHARES = np.linspace(1.0, 0.3, 36)
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
            candidates = [_with(best, end, float((low, high)[end] * share)) for share in _KL_SHARES]
            ends = np.array(candidates)
            cheap = cost.total(ends[:, 0], ends[:, 1]) <= limit
            allowed = [pair for pair, good in zip(candidates, cheap, strict=True) if good]
            if allowed:
                best = min(allowed, key=lambda pair: entropy.of(pair[0], pair[1], steps))
    return best


def _with(pair: tuple[float, float], end: int, value: float) -> tuple[float, float]:
    return (value, pair[1]) if end == 0 else (pair[0], value)
