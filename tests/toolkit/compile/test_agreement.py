"""The vendor's simulator beside ours: figures of one output."""

from __future__ import annotations

import numpy as np
import pytest

from engine.toolkit.compile.agreement import (
    LEVEL_2,
    LEVEL_3,
    WITH_FLOAT16,
    Agreement,
    OutputsDifferError,
)
from engine.wire.compile import OutputAgreement


def test_steps_and_shares_are_counted_over_samples() -> None:
    row = Agreement("y", 0.5)
    ours = np.array([[0.5, 1.0, -2.0, 4.0]], np.float32)
    row.add(ours.reshape(1, 2, 2, 1), ours, ours)
    row.add(ours + np.float32([0.5, 0, 0, -1.5]), ours, ours)
    found = row.told()
    assert (found.samples, found.max_steps, found.equal) == (2, 3, 6 / 8)
    assert found.unequal == 2
    assert found.our_sqnr_db is None
    noise, signal = 0.5**2 + 1.5**2, 2 * float((ours**2).sum())
    assert found.sqnr_db == pytest.approx(10 * np.log10(signal / noise))
    assert 0.9 < found.cosine < 1


def test_a_float_output_has_no_steps() -> None:
    row = Agreement("y")
    one = np.array([1.0, 2.0], np.float32)
    row.add(one, one, one)
    assert (row.told().max_steps, row.told().equal, row.told().cosine) == (None, 1.0, 1.0)


def test_another_size_is_an_error() -> None:
    with pytest.raises(OutputsDifferError, match="1x3"):
        Agreement("y").add(np.zeros((1, 3)), np.zeros((1, 4)), np.zeros((1, 4)))


def test_limits_are_those_of_the_arithmetic() -> None:
    def row(cosine: float, equal: float, steps: int | None, unequal: int = 100) -> OutputAgreement:
        return OutputAgreement(
            name="y", samples=1, cosine=cosine, equal=equal, max_steps=steps, unequal=unequal
        )

    exact, near = row(1.0, 1.0, 0, 0), row(0.99995, 0.9, 3)
    few = row(0.999995, 0.9998, 1)
    assert LEVEL_2.missed([exact, near, few]) == [near, few]
    assert LEVEL_3.missed([exact, near, few]) == []
    assert LEVEL_3.missed([row(0.9998, 0.9, 3)])
    assert not WITH_FLOAT16.missed([row(0.9995, 0.5, 3)])
    # ten values of which one is a step off are near enough, of which one is two steps off are not
    assert LEVEL_2.missed([row(0.9998, 0.9, 1, 1)]) == []
    assert LEVEL_2.missed([row(0.9998, 0.9, 2, 1)])
    assert LEVEL_2.missed([row(0.9998, 0.9, 1, 2)])  # two of one sample
    # a float output is held to its cosine alone
    assert LEVEL_2.missed([row(0.999995, 0.1, None)]) == []
