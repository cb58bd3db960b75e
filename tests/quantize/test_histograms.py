"""Histograms that know no range beforehand: parts add up exactly, quantiles fall in their bin."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from engine.quantize.calibration.histograms import (
    BINS_PER_OCTAVE,
    OCTAVES,
    Histogram,
    HistogramBuilder,
)
from tests.quantize.models import quantile

values = npst.arrays(
    np.float32,
    st.integers(0, 40),
    elements=st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False),
)


@settings(max_examples=40)
@given(values, values, values)
def test_parts_add_up_to_the_whole_in_any_order(
    a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> None:
    whole = Histogram.of(np.concatenate([a, b, c]))
    parts = [Histogram.of(part) for part in (a, b, c)]
    for order in (parts, parts[::-1]):
        joined = HistogramBuilder(order[0])
        for part in order[1:]:
            joined.include(part)
        assert joined.histogram() == whole
    builder = HistogramBuilder()
    for part in (c, a, b):
        builder.add(part)
    assert builder.histogram() == whole
    assert whole.total == a.size + b.size + c.size


@settings(max_examples=40)
@given(values.filter(lambda array: array.size > 0))
def test_every_value_is_in_its_bin(array: np.ndarray) -> None:
    histogram = Histogram.of(array)
    low, high = histogram.edges
    small = float(np.abs(array).max()) * 2.0 ** -(OCTAVES - 1)
    held = np.zeros(histogram.codes.size, np.int64)
    for value in array.astype(np.float64):
        inside = (low <= value) & (value <= high) if abs(value) >= small else low == high
        candidates = np.nonzero(inside | ((low <= value) & (value <= high)))[0]
        assert candidates.size, value
        held[candidates[0]] += 1
    assert histogram.counts.sum() == array.size
    assert (high - low <= np.maximum(np.abs(low), np.abs(high)) / BINS_PER_OCTAVE * 1.0001).all()
    assert (np.diff(histogram.codes) > 0).all()


@settings(max_examples=40)
@given(values.filter(lambda array: array.size > 0), st.floats(0.0, 1.0))
def test_quantiles_are_exact_within_a_bin(array: np.ndarray, share: float) -> None:
    found = quantile(Histogram.of(array), share)
    ordered = np.sort(array.astype(np.float64))
    # the values at and beside the share: with counts as floats, either may be meant
    at = int(np.ceil(share * array.size)) - 1
    near = ordered[[max(at - 1, 0), max(at, 0), min(at + 1, array.size - 1)]]
    largest = np.abs(ordered).max()
    error = np.abs(near) / BINS_PER_OCTAVE + largest * 2.0 ** -(OCTAVES - 1)
    assert (np.abs(near - found) <= error + 1e-30).any()


def test_an_outlier_costs_no_resolution_and_only_what_is_far_smaller_joins_zero() -> None:
    rng = np.random.default_rng(0)
    bulk = rng.normal(size=20_000).astype(np.float32)
    alone, joined = Histogram.of(bulk), Histogram.of(np.append(bulk, np.float32(100.0)))
    for share in (0.1, 0.5, 0.9):
        exact = float(np.quantile(bulk, share))
        for histogram in (alone, joined):
            assert abs(quantile(histogram, share) - exact) < 0.02
    tiny = Histogram.of(np.array([1e-9, 1.0], np.float32))
    assert tiny.codes[0] == 0
    assert tiny.counts.tolist() == [1, 1]


def test_values_without_negative_ones_take_the_short_way_to_the_same_result() -> None:
    array = np.abs(np.random.default_rng(1).normal(size=500)).astype(np.float32)
    quick = HistogramBuilder()
    quick.add(array, positive=True)
    assert quick.histogram() == Histogram.of(array)


def test_nothing_and_extremes() -> None:
    assert Histogram.of(np.zeros(0, np.float32)).total == 0
    assert quantile(Histogram(), 0.5) == 0.0
    largest = np.finfo(np.float32).max
    extremes = Histogram.of(np.array([largest, -largest, 0.0], np.float32))
    low, high = extremes.edges
    assert np.isfinite([low, high]).all()
    assert extremes.counts.tolist() == [1, 1, 1]
