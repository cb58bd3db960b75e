"""A measured run moves the estimates of its chip, and not more than it can know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.cost.timing import NetTime, calibrate, net_time
from engine.cost.timing.model import interval
from tests.cost.timing.layers import backbone


def estimate(chip: str = "rk3588") -> NetTime:
    net = backbone()
    return net_time(net.done(), net.cycles, chip)


def test_a_run_as_estimated_changes_nothing() -> None:
    made = estimate()
    assert calibrate(made, [made.time.value] * 10).factor == pytest.approx(1.0)


@given(st.floats(0.3, 3.0))
def test_the_factor_lies_between_1_and_the_ratio(ratio: float) -> None:
    made = estimate()
    factor = calibrate(made, [made.time.value * ratio] * 5).factor
    assert min(1.0, ratio) - 1e-9 <= factor <= max(1.0, ratio) + 1e-9


def test_a_run_that_wavers_counts_less() -> None:
    made = estimate()
    slow = made.time.value * 1.3
    steady = calibrate(made, [slow] * 9)
    wavering = calibrate(made, [slow * each for each in (0.5, 0.7, 1, 1, 1, 1, 1, 1.6, 2.2)])
    assert 1 < wavering.factor < steady.factor
    assert wavering.spread > steady.spread
    assert any("differ" in note for note in wavering.notes)


def test_a_calibrated_estimate_is_nearer_and_narrower() -> None:
    before = estimate("rv1106").time
    measured = before.value * 1.25
    found = calibrate(estimate("rv1106"), [measured] * 10)
    after = interval(before.value * found.factor, found.spread)
    assert abs(after.value - measured) < abs(before.value - measured)
    assert after.high / after.value < before.high / before.value
    assert after.low < measured < after.high


def test_a_run_far_outside_the_interval_is_told() -> None:
    made = estimate()
    assert any("outside" in note for note in calibrate(made, [made.time.value * 10]).notes)


@pytest.mark.parametrize("times", [[], [0.0], [-1.0], [float("nan")], [float("inf")]])
def test_times_that_are_none_are_refused(times: list[float]) -> None:
    with pytest.raises(UsageError):
        calibrate(estimate(), times)
