"""Statistics of times, against numpy, the standard library and a plain bootstrap."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.devices.measure.timings import median_interval, percentile, timings_of

TIMES = st.lists(st.floats(0, 1e9), min_size=1, max_size=60)


@given(TIMES, st.floats(0, 100))
def test_percentiles_are_numpys(times: list[float], percent: float) -> None:
    found = percentile(sorted(times), percent)
    assert found == pytest.approx(float(np.percentile(times, percent)), rel=1e-9, abs=1e-9)
    assert min(times) <= found <= max(times)


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=60))
def test_figures_are_those_of_the_standard_library(times: list[float]) -> None:
    found = timings_of(times)
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    about = pytest.approx
    assert found.p90 == about(cuts[89], abs=1e-6)
    assert found.p99 == about(cuts[98], abs=1e-6)
    assert found.median == about(statistics.median(times))
    assert found.mean == about(statistics.fmean(times))
    assert found.deviation == about(statistics.stdev(times), rel=1e-6, abs=1e-3)
    assert (found.minimum, found.maximum, found.count) == (min(times), max(times), len(times))


@given(TIMES)
def test_the_interval_holds_the_median(times: list[float]) -> None:
    found = timings_of(times)
    if found.low is None or found.high is None:
        assert len(times) < 5
    else:
        assert found.minimum <= found.low <= found.median <= found.high <= found.maximum
    assert timings_of(times) == found


@pytest.mark.parametrize("count", [15, 16, 101, 102])
def test_the_interval_is_that_of_drawing_again(count: int) -> None:
    rng = np.random.default_rng(1)
    times = np.sort(rng.gamma(4.0, 100.0, count))
    drawn = rng.choice(times, (20_000, count))
    wanted = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    found = np.array(median_interval([float(time) for time in times]))
    # 2000 draws know the ends to about a twentieth of the interval's width
    assert np.abs(found - wanted).max() < 0.15 * (wanted[1] - wanted[0])


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    truth = float(np.log(2.0))
    held = 0
    for _ in range(60):
        times = sorted(float(each) for each in rng.exponential(1.0, 40))
        low, high = median_interval(times)
        held += low <= truth <= high
    assert 50 <= held <= 60


def test_runs_far_outside_are_told_and_stay() -> None:
    times = [100.0, 101.0, 99.0, 100.5, 400.0, 100.2, 99.8, 100.1]
    found = timings_of(times)
    assert found.outliers == (4,)
    assert found.maximum == 400
    # times of a coarse clock are equal: one step aside is not far
    assert timings_of([100.0] * 50 + [100.5]).outliers == ()
    assert timings_of([100.0] * 50 + [102.0]).outliers == (50,)


def test_one_run() -> None:
    found = timings_of([250.0])
    assert (found.median, found.p99, found.deviation, found.low) == (250, 250, 0, None)


@pytest.mark.parametrize("times", [[], [-1.0], [float("nan")], [1.0, float("inf")]])
def test_times_that_cannot_be(times: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        timings_of(times)


def test_arguments_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="0 to 100"):
        percentile([1.0], 101)
    with pytest.raises(ValueError, match="values"):
        median_interval([])
