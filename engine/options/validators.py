"""Checks of single options beside their kind: empty, or what the value must be."""

from __future__ import annotations

from typing import Any

__all__ = ["check_divisors", "check_epochs", "check_mean_and_scale", "check_permutation"]

_SMALLEST_DIVISOR = 1e-30  # below it float32 pixels become infinite


def check_divisors(rows: Any) -> str:
    """Pixels are divided by every number."""
    fits = all(abs(n) >= _SMALLEST_DIVISOR for row in rows for n in row)
    return "" if fits else "without 0: pixels are divided by it"


def check_mean_and_scale(rows: Any) -> str:
    """The mean of every channel, then one scale [RKNN-TS 1.4.0, 1.2]."""
    if any(len(row) < 2 for row in rows):
        return "the mean of every channel and then the scale, as 128 128 128 128"
    return check_divisors([row[-1:] for row in rows])


def check_permutation(rows: Any) -> str:
    """Every channel once, in any order [RKNN-T1 1.3.2, 3.6.3]."""
    fits = all(sorted(row) == list(range(len(row))) for row in rows)
    return "" if fits else "every channel's number once, from 0, as 2 1 0"


def check_epochs(number: Any) -> str:
    """-1 or a number of rounds."""
    return "" if number != 0 else "-1 (all samples) or at least 1"
