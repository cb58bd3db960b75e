"""Histograms that need to know no range beforehand, and whose parts add up exactly.

A bin holds the float32 numbers of one sign whose exponent and top eight bits of mantissa agree:
256 bins an octave, each at most 1/256 as wide as its numbers are large. Fourteen octaves below the
largest number are kept apart; what is smaller counts as zero. So an outlier costs no resolution, a
sample larger than all before only moves the lower end, and the histogram of all samples does not
depend on their order or on how they were cut into parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

BINS_PER_OCTAVE = 256
OCTAVES = 14
_SPAN = BINS_PER_OCTAVE * OCTAVES
_SHIFT = 15  # of float32's 23 bits of mantissa, the lowest 15 are dropped
_MAGNITUDE = np.int32(0x7FFFFFFF)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of the values of one tensor; only bins that hold something.

    Attributes:
        codes: (n,) int32, ascending: the bin's number, negative for negative values, 0 for zero
            and everything too small.
        counts: (n,) int64, positive.
    """

    codes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, values: np.ndarray) -> Histogram:
        """The histogram of finite float32 values of any shape."""
        builder = HistogramBuilder()
        builder.add(values)
        return builder.histogram()

    @property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    @property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper edge of every bin, (n,) float64 each; of bin 0 both are 0."""
        magnitude = np.abs(self.codes)
        near = (magnitude << _SHIFT).astype(np.int32).view(np.float32).astype(np.float64)
        # the number of the bin above; the last one of float32 would be infinity
        above = np.minimum((magnitude.astype(np.int64) + 1) << _SHIFT, 0x7F7FFFFF)
        far = above.astype(np.int32).view(np.float32).astype(np.float64)
        far = np.where(magnitude == 0, 0.0, far)
        negative = self.codes < 0
        return np.where(negative, -far, near), np.where(negative, -near, far)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Histogram)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have none


class HistogramBuilder:
    """A histogram that grows; its size does not depend on how much was added."""

    def __init__(self, start: Histogram | None = None) -> None:
        self._top = _SPAN  # number of the largest bin; everything below _top - _SPAN counts as 0
        # index _SPAN is zero; above it the positive bins, below it the negative ones
        self._counts = np.zeros(2 * _SPAN + 1, np.int64)
        if start is not None:
            self.include(start)

    def add(self, values: np.ndarray, *, positive: bool = False) -> None:
        """Count finite float32 values of any shape; ``positive``: none is below 0 (faster)."""
        if values.size == 0:
            return
        bits = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.int32)
        index = (bits & _MAGNITUDE) >> _SHIFT
        self._reach(int(index.max()))
        index -= self._top - _SPAN
        np.maximum(index, 0, out=index)
        if positive:
            self._counts[_SPAN:] += np.bincount(index, minlength=_SPAN + 1)
            return
        negative = bits >> 31  # all bits set, or none: index becomes -index, or stays
        index ^= negative
        index -= negative
        index += _SPAN
        self._counts += np.bincount(index, minlength=self._counts.size)

    def include(self, other: Histogram) -> None:
        """Count what another histogram counted."""
        if other.codes.size == 0:
            return
        magnitude = np.abs(other.codes)
        self._reach(int(magnitude.max()))
        index = np.maximum(magnitude - (self._top - _SPAN), 0)
        np.add.at(self._counts, _SPAN + np.sign(other.codes) * index, other.counts)

    def _reach(self, top: int) -> None:
        """Make the bin ``top`` the last one; what falls below the first one joins zero."""
        up = top - self._top
        if up <= 0:
            return
        zero, cut = self._counts[_SPAN], min(up, _SPAN)
        positive, negative = self._counts[_SPAN + 1 :], self._counts[:_SPAN][::-1]
        zero += positive[:cut].sum() + negative[:cut].sum()
        moved = np.zeros_like(self._counts)
        moved[_SPAN] = zero
        moved[_SPAN + 1 :][: _SPAN - cut] = positive[cut:]
        moved[:_SPAN][::-1][: _SPAN - cut] = negative[cut:]
        self._counts, self._top = moved, top

    def histogram(self) -> Histogram:
        """What was counted so far."""
        (held,) = np.nonzero(self._counts)
        index = held - _SPAN
        codes = np.sign(index) * (np.abs(index) + (index != 0) * (self._top - _SPAN))
        return Histogram(codes.astype(np.int32), self._counts[held])
