"""Integer divisions that would end the process: by zero, and INT_MIN by -1."""

from __future__ import annotations

import numpy as np

__all__ = ["DIVISIONS", "is_safe_division"]

DIVISIONS = frozenset({"Div", "Mod"})
"""Operators that divide."""


def is_safe_division(dividend: np.ndarray | None, divisor: np.ndarray) -> bool:
    """Whether a division has a result; one of integers that has none kills the process (SIGFPE).

    That is a division by zero, and one of the smallest number by -1, whose result is too large.

    Args:
        dividend: its numbers; None where they are not known, which counts as the worst.
        divisor: of the same type.
    """
    if divisor.dtype.kind not in "iu":
        return True
    if not divisor.all():
        return False
    if divisor.dtype.kind == "u" or not (divisor == -1).any():
        return True
    return dividend is not None and not (dividend == np.iinfo(divisor.dtype).min).any()
