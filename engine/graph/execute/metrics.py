"""Distances between a reference tensor and its quantized twin."""

from __future__ import annotations

import math

import numpy as np

from engine.base.errors import SimulationError

__all__ = ["cosine", "dot", "euclidean", "sqnr", "without_agreed_infinity"]

_BLOCK = 16_384


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


def _pair(reference: np.ndarray, quantized: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if reference.shape != quantized.shape:
        raise SimulationError(
            f"Tensors of shapes {reference.shape} and {quantized.shape} cannot be compared.",
            remedy="Give two models, or two files, whose outputs have the same shapes.",
        )
    return reference.astype(np.float64).ravel(), quantized.astype(np.float64).ravel()


def sqnr(reference: np.ndarray, quantized: np.ndarray) -> float:
    """Signal to quantization noise in dB: ``10 log10(sum r^2 / sum (r - q)^2)``, in float64.

    Infinite for equal arrays; minus infinite where the reference is zero and the other is not.

    Raises:
        SimulationError: the shapes differ.
    """
    r, q = _pair(reference, quantized)
    noise = float(np.square(r - q).sum())
    if noise == 0:
        return float("inf")
    signal = float(np.square(r).sum())
    return 10 * float(np.log10(signal / noise)) if signal > 0 else float("-inf")


def cosine(reference: np.ndarray, quantized: np.ndarray) -> float:
    """Cosine of the angle between two arrays taken as vectors, in float64.

    1 where both are zero everywhere (they are equal), 0 where one of them is.

    Raises:
        SimulationError: the shapes differ.
    """
    r, q = _pair(reference, quantized)
    norms = math.sqrt(dot(r, r)) * math.sqrt(dot(q, q))
    if norms == 0:
        return 1.0 if not r.any() and not q.any() else 0.0
    return dot(r, q) / norms


def euclidean(reference: np.ndarray, quantized: np.ndarray) -> float:
    """Euclidean distance of two arrays taken as vectors, in float64 and units of the tensor.

    Raises:
        SimulationError: the shapes differ.
    """
    r, q = _pair(reference, quantized)
    difference = r - q
    return math.sqrt(dot(difference, difference))
