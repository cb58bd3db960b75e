"""Where to cut: against every possible choice."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.export.segments import propose


def best_of_all(
    times: list[int], crossing: list[int], limit: int, joined: list[bool]
) -> tuple[int, int] | None:
    """(segments, bytes) of the best choice, by trying all; None where no choice keeps the limit."""
    places = [at for at in range(len(times) - 1) if not joined[at]]
    found = []
    for count in range(len(places) + 1):
        for cuts in combinations(places, count):
            edges = [-1, *cuts, len(times) - 1]
            pairs = pairwise(edges)
            if all(sum(times[a + 1 : b + 1]) <= limit for a, b in pairs):
                found.append((count + 1, sum(crossing[at] for at in cuts)))
    return min(found, default=None)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_fewest_segments_and_the_least_that_crosses(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 9))
    numbers = st.lists(st.integers(0, 9), min_size=count, max_size=count)
    times, crossing = data.draw(numbers), data.draw(numbers)
    joined = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    limit = data.draw(st.integers(1, 30))
    found = propose(times, crossing, limit, joined)
    assert not any(joined[at] for at in found.after)
    assert list(found.after) == sorted(set(found.after))
    assert found.crossing == sum(crossing[at] for at in found.after)
    edges = [-1, *found.after, count - 1]
    spans = [(a + 1, b) for a, b in pairwise(edges)]
    long = [span for span in spans if sum(times[span[0] : span[1] + 1]) > limit]
    assert long == list(found.too_long)
    for first, last in long:  # what is too long cannot be divided
        assert all(joined[first:last])
    best = best_of_all(times, crossing, limit, joined)
    if best is None:
        assert long
    else:
        assert not long
        assert (len(spans), found.crossing) == best


def test_nothing_and_all_in_one() -> None:
    assert propose([], [], 1.0).after == ()
    assert propose([1.0, 1.0], [5, 0], 2.0).after == ()
    assert propose([0.1] * 10, [0] * 10, 0.3).after == (2, 5, 8)  # sums of floats are not exact


def test_a_network_of_many_layers_is_done_at_once() -> None:
    """Fifty thousand layers: what tried all pairs would not end."""
    count = 50_000
    found = propose([1.0] * count, [at % 7 for at in range(count)], 100.0)
    assert len(found.after) == count // 100 - 1
    assert not found.too_long
