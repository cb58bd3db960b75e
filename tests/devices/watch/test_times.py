"""Times of a board's clock on this machine's."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.devices.watch.board_watch import BoardTimes


def test_distances_are_those_of_the_board() -> None:
    times = BoardTimes()
    # looks every 100 ms; some are heard late
    late = [0.03, 0.01, 0.2, 0.05, 0.01, 0.3, 0.02]
    found = [times.at(5000 + look / 10, 7 + look / 10 + late[look]) for look in range(7)]
    steps = [round(after - before, 2) for before, after in pairwise(found[1:])]
    assert steps == [0.1] * 5


def test_a_clock_that_runs_otherwise_is_followed() -> None:
    for rate in (0.9999, 1.0001):  # ten seconds a day
        times = BoardTimes()
        for look in range(100_000):
            at = times.at(1000 + look * rate, float(look))
        assert abs(at - 99_999) < 0.2


def test_a_board_that_begins_anew_is_where_it_is_heard() -> None:
    times = BoardTimes()
    times.at(9000.0, 1.0)
    assert times.at(3.0, 2.0) == 2.0
    assert times.at(4.0, 3.0) == 3.0
    assert times.at(1e12, 4.0) == 4.0
    assert times.at(1e12, 100.0) == 100.0, "a clock that stands still"


@given(
    st.lists(
        st.tuples(st.floats(-1e15, 1e15, allow_nan=False), st.floats(0, 1000.0, allow_nan=False)),
        max_size=50,
    )
)
def test_whatever_it_says_no_look_is_later_than_it_was_heard(
    looks: list[tuple[float, float]],
) -> None:
    times, heard, last = BoardTimes(), 0.0, 0.0
    for told, passed in looks:
        heard += passed
        at = times.at(told, heard)
        assert last <= at <= heard + 1.0  # of numbers this large not every digit is kept
        last = at
