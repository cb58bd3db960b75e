"""How sure a score over a limited number of samples is: 95 % confidence intervals."""

from __future__ import annotations

import math

__all__ = ["mean_interval", "paired_interval", "share_interval"]

_Z = 1.959963984540054  # of the normal distribution, two-sided 95 %

Interval = tuple[float, float]


def share_interval(right: int, samples: int) -> Interval:
    """Of a share: Wilson's score interval, which holds near 0 and 1 and for few samples.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    if samples < 1:
        return 0.0, 1.0
    share, square = right / samples, _Z * _Z
    centre = (share + square / (2 * samples)) / (1 + square / samples)
    spread = share * (1 - share) / samples + square / (4 * samples * samples)
    half = _Z * math.sqrt(spread) / (1 + square / samples)
    return max(0.0, centre - half), min(1.0, centre + half)


def paired_interval(only_first: int, only_second: int, samples: int) -> Interval:
    """Of the second share less the first, both of the same samples.

    What both got right or wrong says nothing of the difference. Agresti and Min's interval for
    matched pairs (Simple improved confidence intervals for comparing matched proportions, 2005):
    half a sample is added to each of the four cells, so that equal answers do not claim certainty.
    """
    first, second, count = only_first + 0.5, only_second + 0.5, samples + 2.0
    difference = (second - first) / count
    variance = ((first + second) - (second - first) ** 2 / count) / (count * count)
    half = _Z * math.sqrt(variance)
    return max(-1.0, difference - half), min(1.0, difference + half)


def mean_interval(total: float, squares: float, samples: int) -> Interval | None:
    """Of a mean, by the normal distribution; None for fewer than two samples.

    Args:
        total, squares: sums of the values and of their squares.
        samples: how many values.
    """
    if samples < 2:
        return None
    mean = total / samples
    variance = max(0.0, (squares - samples * mean * mean) / (samples - 1))
    half = _Z * math.sqrt(variance / samples)
    return mean - half, mean + half
