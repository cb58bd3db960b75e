"""The vendor's simulator beside ours: figures of one output."""

from __future__ import annotations

import numpy as np
import pytest

from engine.base.errors import CompilerError
from engine.compile.rockchip.agreement import Agreement


def test_steps_and_shares_are_counted_over_samples() -> None:
    row = Agreement("y", 0.5)
    ours = np.array([[0.5, 1.0, -2.0, 4.0]], np.float32)
    row.add(ours.reshape(1, 2, 2, 1), ours, ours)
    row.add(ours + np.float32([0.5, 0, 0, -1.5]), ours, ours)
    found = row.told()
    assert (found.samples, found.max_steps, found.equal) == (2, 3, 6 / 8)
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
    with pytest.raises(CompilerError, match="1x3"):
        Agreement("y").add(np.zeros((1, 3)), np.zeros((1, 4)), np.zeros((1, 4)))
