"""Distances between tensors."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.base.errors import SimulationError
from engine.graph.metrics import (
    ErrorSums,
    cosine,
    decibel,
    dot,
    error_sums,
    euclidean,
    power,
    sqnr,
)

ARRAYS = hnp.arrays(
    np.float32, hnp.array_shapes(max_dims=3), elements=st.floats(-1e4, 1e4, width=32)
)


def test_known_values() -> None:
    a, b = np.array([3.0, 4.0]), np.array([3.0, 3.0])
    assert sqnr(a, b) == pytest.approx(10 * math.log10(25))
    assert euclidean(a, b) == 1
    assert cosine(a, b) == pytest.approx(21 / (5 * math.sqrt(18)))
    assert cosine(np.array([1, 0]), np.array([0, 1])) == 0
    assert cosine(np.array([1, 0]), np.array([-2, 0])) == -1


def test_the_edges() -> None:
    zero, one = np.zeros(3), np.ones(3)
    assert sqnr(one, one) is sqnr(zero, zero) is None, "no noise"
    assert sqnr(zero, one) == pytest.approx(-300), "no signal"
    assert cosine(zero, one) == 0
    assert cosine(zero, zero) == 1
    assert euclidean(zero, zero) == 0
    assert sqnr(np.array([200], np.uint8), np.array([100], np.uint8)) == pytest.approx(6.0206)
    for metric in (sqnr, cosine, euclidean):
        with pytest.raises(SimulationError, match="shapes"):
            metric(np.zeros(3), np.zeros((1, 3)))


@settings(max_examples=80, deadline=None)
@given(ARRAYS, st.integers(0, 2**31))
def test_the_formulas(a: np.ndarray, seed: int) -> None:
    b = a + np.random.default_rng(seed).normal(size=a.shape).astype(np.float32)
    r, q = a.astype(np.float64), b.astype(np.float64)
    noise = float(np.sum((r - q) ** 2))
    if noise and r.any():
        told = 10 * math.log10(float(np.sum(r * r)) / noise)
        assert sqnr(a, b) == pytest.approx(max(told, -300))
    assert euclidean(a, b) == pytest.approx(math.sqrt(noise))
    assert -1 - 1e-12 <= cosine(a, b) <= 1 + 1e-12


def test_sums_of_samples_add_up_and_say_how_many_they_are() -> None:
    rng = np.random.default_rng(3)
    samples = rng.normal(size=(3, 2, 40_000)).astype(np.float32)  # more than a block
    whole = sum((error_sums(r, q)[0] for r, q in samples), ErrorSums())
    r, q = samples.astype(np.float64).swapaxes(0, 1)
    assert whole.samples == 3
    assert (
        whole.sqnr
        == pytest.approx(sqnr(r, q))
        == pytest.approx(10 * math.log10(np.square(r).sum() / np.square(r - q).sum()))
    )
    assert whole.cosine == pytest.approx(float((r * q).sum()) / math.sqrt(power(r) * power(q)))
    assert whole.euclidean == pytest.approx(float(np.linalg.norm(r - q)))
    both = error_sums(samples[0][0], samples[0][1], samples[1][0])
    assert both == error_sums(*samples[0]) + error_sums(samples[0][0], samples[1][0])


def test_infinities_count_only_where_both_sides_do_not_have_them() -> None:
    """Scores behind an attention mask."""
    mask = np.array([-np.inf, 3.0, 4.0], np.float32)
    assert sqnr(mask, np.array([-np.inf, 3.0, 3.0])) == pytest.approx(10 * math.log10(25))
    assert cosine(mask, mask) == 1
    for odd in (0.0, np.inf, np.nan):
        (sums,) = error_sums(mask, np.array([odd, 3.0, 4.0], np.float32))
        assert not sums.finite
        assert (sums.sqnr, sums.cosine) == (pytest.approx(-300), 0.0)


def test_dot_is_the_same_whatever_threads_blas_may_use() -> None:
    """A container holds such sums: the front ends must agree on the last bit."""
    script = (
        "import numpy as np; from engine.graph.metrics import cosine, dot, euclidean; "
        "r = np.random.default_rng(5); a, b = r.normal(size=(2, 999_999)); "
        "f = a.astype(np.float32); "
        "print(dot(a, b).hex(), dot(f, f).hex(), cosine(a, b).hex(), euclidean(a, b).hex())"
    )
    root = Path(__file__).resolve().parents[2]
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in (1, 2, 7)
    }
    assert len(told) == 1
    a, b = np.random.default_rng(5).normal(size=(2, 999_999))
    assert dot(a, b) == pytest.approx(math.fsum(a * b), rel=1e-9)
    assert dot(a[:0], b[:0]) == 0


def test_the_share_of_an_error_is_its_power_over_the_values() -> None:
    values, found = np.array([3.0, 4.0], np.float32), np.array([3.0, 4.5], np.float32)
    (sums,) = error_sums(values, found)
    assert sums.share == pytest.approx(0.25 / 25)
    assert decibel(1.0, sums.share) == pytest.approx(sums.sqnr)
    assert error_sums(values, values)[0].share == 0.0
    assert error_sums(values * 0, found)[0].share > 1e300, "no values, and an error"
