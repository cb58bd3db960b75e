"""Statistics of the times of many runs. Standard library only.

A percentile p of n sorted times lies at place ``p / 100 * (n - 1)``, between two times in
proportion (Hyndman and Fan 1996, type 7: numpy's own). So the 99th of fewer than 100 runs is nearly
the longest one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
"""Of the interval of the median."""
RESAMPLES = 2000
_SEED = 20240517
_FEWEST = 5
_FAR = 3.0
_NEAR_SHARE = 0.01


@dataclass(frozen=True)
class Timings:
    """Times of runs, in microseconds.

    Attributes:
        count: of runs.
        minimum, median, mean, p90, p99, maximum: microseconds.
        deviation: standard deviation of the sample (divided by n - 1); 0 for one run.
        low, high: a 95 % interval of the median, see :func:`median_interval`; None for fewer than
            5 runs.
        outliers: places of runs far outside, in the order of the runs: below the first quartile or
            above the third one by more than 3 times their distance (Tukey 1977, "far out") and more
            than 1 % of the median. They are told and stay in every figure.
    """

    count: int
    minimum: float
    median: float
    mean: float
    p90: float
    p99: float
    maximum: float
    deviation: float
    low: float | None
    high: float | None
    outliers: tuple[int, ...]


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The percentile of sorted values, by the definition of this module.

    Raises:
        ValueError: there are no values, or ``percent`` is not within 0 and 100.
    """
    if not ordered or not 0 <= percent <= 100:
        raise ValueError("a percentile from 0 to 100 of some values is needed")
    place = percent / 100 * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median (percentile method, Efron 1979), with a fixed seed:
    equal times give equal intervals.

    Drawing n of n values again and taking their median needs no list of them: the k-th smallest of
    n places drawn evenly has the distribution Beta(k, n + 1 - k). Runs that follow each other are
    not independent, so the truth may lie outside more often than the 95 % say.

    Args:
        ordered: sorted values.

    Raises:
        ValueError: there are none.
    """
    count = len(ordered)
    if not count:
        raise ValueError("an interval needs values")
    draw = random.Random(_SEED)
    half = (count + 1) // 2
    medians: list[float] = []
    for _ in range(RESAMPLES):
        place = draw.betavariate(half, count + 1 - half)
        middle = ordered[min(int(place * count), count - 1)]
        if count % 2 == 0:
            place += (1 - place) * draw.betavariate(1, count - half)
            middle = (middle + ordered[min(int(place * count), count - 1)]) / 2
        medians.append(middle)
    medians.sort()
    tail = (1 - CONFIDENCE) / 2 * 100
    return percentile(medians, tail), percentile(medians, 100 - tail)


def timings_of(times: Sequence[float]) -> Timings:
    """The statistics of runs, in the order in which they ran, without those to warm up.

    Raises:
        ValueError: there are none, or one is negative, infinite or no number.
    """
    if not times or not all(math.isfinite(time) and time >= 0 for time in times):
        raise ValueError("times are finite and not negative, and there is at least one")
    ordered = sorted(times)
    median = percentile(ordered, 50)
    mean = math.fsum(ordered) / len(ordered)
    squares = math.fsum((time - mean) ** 2 for time in ordered)
    interval = median_interval(ordered) if len(ordered) >= _FEWEST else (None, None)
    first, third = percentile(ordered, 25), percentile(ordered, 75)
    far = max(_FAR * (third - first), _NEAR_SHARE * median)
    outliers = tuple(
        place for place, time in enumerate(times) if time < first - far or time > third + far
    )
    return Timings(
        count=len(ordered),
        minimum=ordered[0],
        median=median,
        mean=mean,
        p90=percentile(ordered, 90),
        p99=percentile(ordered, 99),
        maximum=ordered[-1],
        deviation=math.sqrt(squares / (len(ordered) - 1)) if len(ordered) > 1 else 0.0,
        low=interval[0],
        high=interval[1],
        outliers=outliers,
    )
