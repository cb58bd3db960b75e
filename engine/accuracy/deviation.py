"""Whether a board computes a layer otherwise than the simulator: more than rounding explains.

A layer is judged by what it makes of the inputs that it was given on the board: the simulator
computes it on the board's own tensors, and the two results are compared. Errors of earlier layers
are in both of them and play no part. The limits, with their reasons, are in docs/devices.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.accuracy.guide import GOOD
from engine.accuracy.runners import QuantizedTensor
from engine.graph.metrics import ErrorSums, error_sums
from engine.wire.build import Distance
from engine.wire.compare import Difference

FAR = 0.001
"""Share of the values that may be more than one step off: of sums that are rounded twice."""
MOVED = 0.5
"""Share of the values that may be one step off: truncated or rounded, half of them differ, in a
tensor of n values by chance up to ``1.5 / sqrt(n)`` more (three standard deviations)."""
LEAST_SQNR = 40.0
"""In dB, for tensors of 16 bits and more: a rounding to half precision gives 73 dB, and the sum of
a thousand of them 43."""
ROUNDINGS = 4.0
"""Times the noise of quantization that two ways of rounding may be apart: each has that noise, and
where they are opposed the difference is twice as large, its square four times."""
SEEN = 2 * (1 - GOOD)
"""Of the signal's power: less is not held against several layers, as of one sample the noise of
quantization can be small by chance. It is the manual's cosine for two vectors of one length."""

_FAR_STEPS = 1.5
_MOVED_STEPS = 0.5
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Deviation:
    """How far a tensor of a board is from another one of the same layer.

    Attributes:
        sums: against the other one.
        maximum: the greatest difference of two values; NaN where one is no number.
        steps: the greatest difference in steps; None where the tensor is not quantized.
        moved: share of the values that are another integer.
        far: share of the values that are more than one integer off.
        count: of values.
        fine: whether a step is that of 16 bits: chips compute parts of such a layer in half
            precision, and its steps say nothing.
    """

    sums: ErrorSums
    maximum: float
    steps: float | None = None
    moved: float = 0.0
    far: float = 0.0
    count: int = 0
    fine: bool = False

    @property
    def difference(self) -> Difference:
        """As the wire has it."""
        sums, finite = self.sums, self.sums.finite
        return Difference(
            sums.cosine if finite else None,
            sums.sqnr,
            self.maximum if math.isfinite(self.maximum) else None,
        )

    @property
    def distance(self) -> Distance:
        """As error tables have it."""
        return Distance(self.sums.cosine if self.sums.finite else None, self.sums.euclidean)

    def is_more_than_rounding(self, layers: int = 1, quantization: ErrorSums | None = None) -> bool:
        """Whether rounding does not explain it.

        Args:
            layers: that were computed one after the other; 1 for a layer alone.
            quantization: of this tensor in the simulator against the float one: what rounding
                costs. Needed for several layers, whose steps add up in a way that nobody knows.
        """
        if not self.sums.finite or not math.isfinite(self.maximum):
            return True
        if self.steps is None or self.fine:
            sqnr = self.sums.sqnr
            apart = sqnr is not None and sqnr < LEAST_SQNR
        else:
            apart = self.far > FAR or self.moved > MOVED + 1.5 / math.sqrt(max(1, self.count))
        if layers > 1 and apart and quantization is not None:
            bound = max(ROUNDINGS * quantization.noise, SEEN * self.sums.signal)
            return self.sums.noise > bound
        return apart


def deviation(board: np.ndarray, other: np.ndarray, quantized: QuantizedTensor) -> Deviation:
    """Compare a tensor of a board with another one.

    Args:
        board: float32, dequantized.
        other: of the same shape and kind.
        quantized: what its steps are.

    Raises:
        SimulationError: the shapes differ.
    """
    (sums,) = error_sums(other, board)
    scale = quantized.scale
    low, high = quantized.limits
    step = None if scale is None else np.broadcast_to(scale, board.shape).reshape(-1)
    ours, theirs = np.ravel(board), np.ravel(other)
    greatest = most_steps = 0.0
    moved = far = 0
    for start in range(0, ours.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        a, b = ours[block], theirs[block]
        with np.errstate(invalid="ignore"):
            apart = np.where(a == b, np.float32(0), np.abs(a - b))
        greatest = max(greatest, float(apart.max())) if not np.isnan(apart).any() else math.nan
        if math.isnan(greatest):
            break
        if step is not None:
            steps = apart / step[block]
            most_steps = max(most_steps, float(steps.max()))
            moved += int(np.count_nonzero(steps > _MOVED_STEPS))
            far += int(np.count_nonzero(steps > _FAR_STEPS))
    count = max(1, ours.size)
    if step is None:
        return Deviation(sums, greatest)
    fine = high - low > 255
    return Deviation(sums, greatest, most_steps, moved / count, far / count, count, fine)


def difference_of(reference: np.ndarray, other: np.ndarray) -> Difference:
    """How far a tensor is from its reference, both float32 of one shape."""
    return deviation(other, reference, QuantizedTensor("", "", "")).difference
