"""How far outputs may be apart."""

from __future__ import annotations

import numpy as np
import pytest

from engine.frontends.numeric_check import compare_outputs


def floats(*values: float) -> list[np.ndarray]:
    return [np.array(values, dtype=np.float32)]


@pytest.mark.parametrize(
    ("want", "got", "error"),
    [
        (floats(1.0, 2.0), floats(1.0, 2.0), 0.0),
        (floats(0.0, 100.0), floats(1.0, 100.0), 0.01),
        (floats(0.0, 0.5), floats(0.25, 0.5), 0.5),
        (floats(0.0, 0.002), floats(0.001, 0.002), 0.5),  # a softmax over many classes
        (floats(0.0, 1e-7), floats(1e-8, 1e-7), 1e-5),  # rounding of what is nothing
        (floats(np.nan, np.inf), floats(np.nan, np.inf), 0.0),
        (floats(1.0, 1.0), floats(np.nan, 1.0), np.inf),
        (floats(np.inf), floats(-np.inf), np.inf),
    ],
)
def test_floats(want: list[np.ndarray], got: list[np.ndarray], error: float) -> None:
    assert compare_outputs(want, got).error == pytest.approx(error)


def test_integers_are_counted() -> None:
    want, got = np.arange(1000), np.arange(1000)
    got[3] = 7
    found = compare_outputs([want], [got])
    assert found.flipped == 0.001
    assert found.within(1e-5)
    got[4] = 9
    assert not compare_outputs([want], [got]).within(1e-5)


@pytest.mark.parametrize(
    "got",
    [[], [np.zeros((1, 2), np.float32)], [np.zeros(2, np.int64)]],
    ids=["count", "shape", "dtype"],
)
def test_another_form_never_agrees(got: list[np.ndarray]) -> None:
    found = compare_outputs([np.zeros(2, np.float32)], got)
    assert found.misfit
    assert not found.within(1.0)
