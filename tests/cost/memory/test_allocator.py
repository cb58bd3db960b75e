"""Addresses: buffers that are needed together never overlap, and each goes where it fits best."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cost.cycles import ALIGNMENT, aligned
from engine.cost.memory.plan import Buffer, place


def buffer(size: int, first: int, last: int) -> Buffer:
    """Of 64-byte units."""
    return Buffer(f"{size}@{first}", size * ALIGNMENT, first, last)


def test_a_chain_uses_two_places_in_turn() -> None:
    chain = [buffer(4, layer, layer + 1) for layer in range(5)]
    assert place(chain) == [0, 4 * ALIGNMENT, 0, 4 * ALIGNMENT, 0]


def test_the_smallest_gap_that_holds_it_is_taken() -> None:
    # gaps of 5 and 3 units stay between tensors that are still needed
    held = [buffer(5, 0, 0), buffer(1, 0, 9), buffer(3, 0, 0), buffer(1, 0, 9)]
    assert place([*held, buffer(2, 1, 1)])[-1] == 6 * ALIGNMENT
    assert place([*held, buffer(4, 1, 1)])[-1] == 0
    assert place([*held, buffer(6, 1, 1)])[-1] == 10 * ALIGNMENT


def test_of_equal_gaps_the_lower_one_is_taken() -> None:
    held = [buffer(2, 0, 0), buffer(1, 0, 9), buffer(2, 0, 0), buffer(1, 0, 9)]
    assert place([*held, buffer(2, 1, 1)])[-1] == 0


def test_room_at_the_end_is_no_gap() -> None:
    # the last tensor is gone: what follows starts behind the highest that is needed
    assert place([buffer(2, 0, 5), buffer(9, 0, 0), buffer(3, 1, 1)])[-1] == 2 * ALIGNMENT


def test_an_empty_buffer_takes_no_room() -> None:
    assert place([Buffer("none", 0, 0, 3), buffer(1, 0, 0)]) == [0, 0]


def test_the_order_must_be_that_of_the_layers() -> None:
    with pytest.raises(ValueError, match="later layer"):
        place([buffer(1, 3, 3), buffer(1, 2, 2)])


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Buffer]:
    found = []
    first = 0
    for index in range(draw(st.integers(1, 60))):
        first += draw(st.integers(0, 3))
        last = first + draw(st.integers(0, 12))
        found.append(Buffer(str(index), draw(st.integers(0, 3000)), first, last))
    return found


@given(lifetimes())
def test_no_two_live_buffers_overlap(buffers: list[Buffer]) -> None:
    starts = place(buffers)
    for i, (one, at) in enumerate(zip(buffers, starts, strict=True)):
        assert at % ALIGNMENT == 0
        assert at >= 0
        for other, there in zip(buffers[:i], starts[:i], strict=True):
            together = one.first <= other.last and other.first <= one.last
            apart = at >= there + other.size or there >= at + one.size
            assert apart or not together


@given(lifetimes())
def test_it_is_best_fit(buffers: list[Buffer]) -> None:
    """As a plain search through all gaps says, which is what the compiler's tables show."""
    starts = place(buffers)
    for index, each in enumerate(buffers):
        if not each.size:
            continue
        live = sorted(
            (starts[i], starts[i] + aligned(before.size))
            for i, before in enumerate(buffers[:index])
            if before.last >= each.first and before.size
        )
        gaps, end = [], 0
        for low, high in live:
            if low - end >= each.size:
                gaps.append((low - end, end))
            end = max(end, high)
        assert starts[index] == (min(gaps)[1] if gaps else end)
