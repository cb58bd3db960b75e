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
from engine.graph.execute import cosine, dot, euclidean, sqnr

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
    assert sqnr(one, one) == math.inf
    assert sqnr(zero, zero) == math.inf
    assert sqnr(zero, one) == -math.inf
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
        assert sqnr(a, b) == pytest.approx(10 * math.log10(float(np.sum(r * r)) / noise))
    assert euclidean(a, b) == pytest.approx(math.sqrt(noise))
    assert -1 - 1e-12 <= cosine(a, b) <= 1 + 1e-12


def test_dot_is_the_same_whatever_threads_blas_may_use() -> None:
    """A container holds such sums: the front ends must agree on the last bit."""
    script = (
        "import numpy as np; from engine.graph.execute import cosine, dot, euclidean; "
        "r = np.random.default_rng(5); a, b = r.normal(size=(2, 999_999)); "
        "f = a.astype(np.float32); "
        "print(dot(a, b).hex(), dot(f, f).hex(), cosine(a, b).hex(), euclidean(a, b).hex())"
    )
    root = Path(__file__).resolve().parents[3]
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
