"""How far a quantized tensor is from its float reference: SQNR, cosine, Euclidean distance.

Everything follows from three sums, which add up over samples: :class:`ErrorSums`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.base.errors import SimulationError

# Values at a time: what stays in the cache takes a twelfth of the time of whole arrays.
_BLOCK = 1 << 14

_LEAST_RATIO = 1e-30  # of signal to noise: -300 dB stand for no signal, and for infinite values


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """Inner product of two arrays of one dimension and one float dtype, the same in any process.

    ``a @ b`` spreads long vectors over as many threads as the process allows BLAS, and the last
    bits of its sum depend on their number: a container must not depend on the front end that
    made it. Sums of one block have the dtype of the arrays, their sum is float64.
    """
    return sum(
        float(np.einsum("i,i->", a[start : start + _BLOCK], b[start : start + _BLOCK]))
        for start in range(0, len(a), _BLOCK)
    )


def power(array: np.ndarray) -> float:
    """Sum of the squares of an array of any shape, in float64."""
    flat: np.ndarray = np.ravel(array).astype(np.float64)
    return dot(flat, flat)


def without_agreed_infinity(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Copies of arrays of one shape, with 0 where all of them hold the same infinity.

    Scores behind an attention mask are minus infinity in both graphs: they are equal there, and
    have no part in a sum of squares. Where only one is infinite it stays.
    """
    first = arrays[0]
    agreed = np.isinf(first)
    for other in arrays[1:]:
        agreed &= other == first
    return tuple(np.where(agreed, array.dtype.type(0), array) for array in arrays)


def decibel(signal: float, noise: float) -> float | None:
    """``10 log10(signal / noise)`` of two sums of squares, in dB.

    None without noise: both sides are equal. At least -300, which stands for no signal and for
    sums that are no numbers too.
    """
    if noise == 0:
        return None
    ratio = signal / noise if math.isfinite(signal + noise) else 0.0
    return 10 * math.log10(max(ratio, _LEAST_RATIO))


@dataclass(frozen=True)
class ErrorSums:
    """Sums over the values of a tensor; those of several samples add up.

    Attributes:
        signal: of r*r, r the float values.
        noise: of (r-q)*(r-q), q the simulated ones.
        power: of q*q.
        samples: how many samples they are over.
    """

    signal: float = 0.0
    noise: float = 0.0
    power: float = 0.0
    samples: int = 0

    def __add__(self, other: ErrorSums) -> ErrorSums:
        return ErrorSums(
            self.signal + other.signal,
            self.noise + other.noise,
            self.power + other.power,
            self.samples + other.samples,
        )

    @property
    def finite(self) -> bool:
        """Whether no value was infinite or NaN, but for infinities on which both sides agree."""
        return math.isfinite(self.signal + self.noise + self.power)

    @property
    def sqnr(self) -> float | None:
        """Signal to quantization noise ratio in dB, as :func:`decibel`."""
        return decibel(self.signal, self.noise)

    @property
    def share(self) -> float:
        """Power of the error over that of the float values."""
        return self.noise / max(self.signal, float(np.finfo(np.float64).tiny))

    @property
    def cosine(self) -> float:
        """Of the angle between all values as vectors; 1 where both are zero, 0 where one is, and
        where values are not finite.
        """
        if not self.finite:
            return 0.0
        norms = math.sqrt(self.signal * self.power)
        if norms == 0:
            return 1.0 if self.noise == 0 else 0.0
        # |r - q|^2 = |r|^2 + |q|^2 - 2 r.q
        return max(-1.0, min(1.0, (self.signal + self.power - self.noise) / 2 / norms))

    @property
    def euclidean(self) -> float:
        """Euclidean distance of all values as vectors, in units of the tensor."""
        return math.sqrt(self.noise)


def error_sums(reference: np.ndarray, *simulated: np.ndarray) -> tuple[ErrorSums, ...]:
    """The sums of one sample, in float64, for each of some arrays against one reference.

    Args:
        reference: of any dtype and shape.
        simulated: of the same shape.

    Raises:
        SimulationError: the shapes differ.
    """
    for array in simulated:
        if array.shape != reference.shape:
            raise SimulationError(
                f"Tensors of shapes {reference.shape} and {array.shape} cannot be compared.",
                remedy="Give two models, or two files, whose outputs have the same shapes.",
            )
    flat = [np.ravel(array) for array in (reference, *simulated)]
    signal = 0.0
    sums = [(0.0, 0.0)] * len(simulated)
    for start in range(0, flat[0].size, _BLOCK):
        r, *others = (array[start : start + _BLOCK].astype(np.float64) for array in flat)
        square = dot(r, r)
        if not math.isfinite(square):
            r, *others = without_agreed_infinity(r, *others)
            square = dot(r, r)
        signal += square
        for index, q in enumerate(others):
            noise, square = sums[index]
            square += dot(q, q)
            difference = np.subtract(r, q, out=q)
            sums[index] = noise + dot(difference, difference), square
    return tuple(ErrorSums(signal, noise, square, 1) for noise, square in sums)


def sqnr(reference: np.ndarray, simulated: np.ndarray) -> float | None:
    """SQNR of two arrays of one shape: see :attr:`ErrorSums.sqnr`, :func:`error_sums`."""
    return error_sums(reference, simulated)[0].sqnr


def cosine(reference: np.ndarray, simulated: np.ndarray) -> float:
    """Cosine of two arrays of one shape: see :attr:`ErrorSums.cosine`, :func:`error_sums`."""
    return error_sums(reference, simulated)[0].cosine


def euclidean(reference: np.ndarray, simulated: np.ndarray) -> float:
    """Distance of two arrays of one shape: see :attr:`ErrorSums.euclidean`, :func:`error_sums`."""
    return error_sums(reference, simulated)[0].euclidean
