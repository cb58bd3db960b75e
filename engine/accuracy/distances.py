"""Distances of a row's tensors, and how much of them the integers cannot hold, over samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.graph.metrics import ErrorSums, error_sums
from engine.wire.build import Distance
from engine.wire.model import Saturation


@dataclass
class Outside:
    """Counts of values that lie below and above what a tensor's integers hold.

    Attributes:
        low, high: how many.
        values: how many were looked at.
    """

    low: int = 0
    high: int = 0
    values: int = 0

    def add(self, array: np.ndarray, span: tuple[float, float] | None) -> None:
        """Count an array's values; None: the tensor has no integers, or a range per channel."""
        if span is not None:
            self.low += int(np.count_nonzero(array < span[0]))
            self.high += int(np.count_nonzero(array > span[1]))
            self.values += array.size

    @property
    def saturation(self) -> Saturation | None:
        """The shares; None where nothing was looked at."""
        if not self.values:
            return None
        return Saturation(self.low / self.values, self.high / self.values)


@dataclass
class RowSums:
    """Of one row over the samples.

    Attributes:
        cumulative, isolated: sums of each sample, of the whole run and of the layer alone.
        outside: of the golden values.
    """

    cumulative: list[ErrorSums] = field(default_factory=list)
    isolated: list[ErrorSums] = field(default_factory=list)
    outside: Outside = field(default_factory=Outside)

    def add(
        self,
        golden: np.ndarray,
        whole: np.ndarray,
        alone: np.ndarray,
        span: tuple[float, float] | None,
    ) -> None:
        """Take one sample's tensors: float32, of one shape."""
        sums = error_sums(golden, *((whole,) if alone is whole else (whole, alone)))
        self.cumulative.append(sums[0])
        self.isolated.append(sums[-1])
        self.outside.add(golden, span)


def mean_distance(sums: Sequence[ErrorSums]) -> Distance | None:
    """The mean over samples; None where there is none."""
    if not sums:
        return None
    cosine = sum(one.cosine for one in sums) / len(sums) if all(s.finite for s in sums) else None
    return Distance(cosine, sum(one.euclidean for one in sums) / len(sums))
