"""What is told of the outputs of a run, and beside those of the float graph."""

from __future__ import annotations

import numpy as np
import pytest

from engine.simulate.outputs import figures_of_output


def test_an_output_stands_beside_float() -> None:
    rng = np.random.default_rng(3)
    reference = rng.normal(size=(2, 50))
    array = np.round(reference * 16) / 16
    told = figures_of_output("y", array, 5, "simulated", reference)
    noise = ((reference - array) ** 2).sum()
    assert told.beside.sqnr_db == pytest.approx(10 * np.log10((reference**2).sum() / noise))
    assert told.beside.largest == pytest.approx(np.abs(reference - array).max())
    assert [value.index for value in told.beside.top] == list(np.argsort(-reference.ravel())[:5])
    assert list(told.beside.at) == [reference.ravel()[value.index] for value in told.top]


def test_what_cannot_be_compared_has_nothing_beside_it() -> None:
    array = np.array([1.0, np.nan, np.inf])
    assert figures_of_output("y", array, 2, "simulated").beside is None
    assert figures_of_output("y", array, 2, "simulated", np.ones(4)).beside is None
    told = figures_of_output("y", array, 2, "simulated", np.array([np.nan, 1.0, 2.0]))
    assert told.top[0].value == 1.0
    assert told.beside.largest is None
    assert told.beside.at == (None,)
    same = figures_of_output("y", np.ones(3), 1, "simulated", np.ones(3))
    assert same.beside.sqnr_db is None
    assert same.beside.largest == 0
