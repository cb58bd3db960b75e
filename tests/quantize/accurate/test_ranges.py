"""Headroom, copies, Softmax ranges and clamped sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.graph.execute import Session
from engine.graph.ir import TensorSpec
from engine.quantize.algorithms.accurate.collect import (
    COPIES,
    are_images,
    augment,
)
from engine.quantize.algorithms.accurate.range_margin import (
    WEIGHINGS,
    _losses,
    best_margin_rules,
    range_ends,
    tail_thresholds,
)
from engine.quantize.algorithms.accurate.statistics import TailStats, residual_terms
from engine.quantize.dtypes.scheme import activation_params
from engine.quantize.planning.plan import plan
from engine.quantize.techniques.softmax import find_logits
from tests.quantize.models import Net, small_cnn, statistics_of


def tails_of(values: np.ndarray) -> TailStats:
    """(samples, channels, positions)."""
    peaks = values.max(axis=2)
    limit = np.maximum(tail_thresholds(peaks), 0)
    beyond = np.maximum(values - limit[:, None], 0)
    return TailStats(limit, peaks, beyond.mean(axis=2), (beyond**2).mean(axis=2))


def ends_of(values: np.ndarray, weighing: str = "far") -> np.ndarray:
    tails = tails_of(values)
    samples, channels = tails.peak.shape
    rules = best_margin_rules(tails, samples, np.ones(channels), 1.0)[weighing]
    return range_ends(tails, np.arange(samples), samples, rules.each)


def test_channels_that_have_shown_their_range_get_no_headroom() -> None:
    values = np.random.default_rng(0).uniform(0, 1, size=(20, 6, 4000))
    assert np.allclose(ends_of(values), 1.0, atol=0.11)


def test_channels_of_few_values_and_a_long_tail_get_headroom() -> None:
    values = np.random.default_rng(0).exponential(size=(12, 40, 4))
    ends = ends_of(values)
    assert (ends > 1.2 * values.max(axis=(0, 2))).mean() > 0.5


def test_the_rule_loses_less_than_plain_ranges_on_values_never_seen() -> None:
    rng = np.random.default_rng(1)
    seen, unseen = (rng.exponential(size=(20, 64, 9)) for _ in range(2))

    def loss(ends: np.ndarray) -> float:
        clipped = np.maximum(unseen - ends[:, None], 0)
        return float((clipped**2).mean() + (ends**2 / (12 * 255**2)).mean())

    assert loss(ends_of(seen)) < 0.5 * loss(seen.max(axis=(0, 2)))


def test_one_sample_that_goes_far_decides_only_where_the_furthest_counts() -> None:
    values = np.random.default_rng(0).uniform(0.9, 1, size=(20, 6, 50))
    values[1] *= 2.5  # the channels of no other sample
    far, most = (ends_of(values, weighing).max() for weighing in WEIGHINGS)
    assert far > 1.3 * most


def test_few_samples_get_much_headroom() -> None:
    values = np.ones((1, 2, 5))
    values[:, 1] = 0
    assert np.array_equal(ends_of(values), [1.5, 1.5])


def test_copies_stay_within_the_limits_and_mirror() -> None:
    image = np.linspace(-1, 1, 3 * 12 * 10, dtype=np.float32).reshape(1, 3, 12, 10)
    for turn in range(COPIES):
        copy = augment({"x": image}, {"x": (-1.0, 1.0)}, turn)["x"]
        assert copy.shape == image.shape
        assert copy.dtype == np.float32
        assert np.abs(copy).max() <= 1
        assert (np.diff(copy[0, 0, 6]) <= 0).sum() >= 4  # rows rise in the original
    assert are_images([TensorSpec("x", (1, 3, 12, 10), "float32")])
    for shape in ((1, 3, 12), (1, 8, 12, 10), (1, 3, 4, 10), (1, 3, -1, 10)):
        assert not are_images([TensorSpec("x", shape, "float32")])


def test_the_softmax_range_beats_the_plain_one() -> None:
    net = Net()
    x = net.input(1, 10)
    logits = net.op("Gemm", x, net.normal(10, 5))
    graph = net.graph(net.op("Softmax", logits))
    found = find_logits(graph, plan(graph))
    values = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32) * 10
    values[:, 0] -= 60
    for row in values:
        found.visit(logits, row[None])

    def error(low: float, high: float) -> float:
        params = activation_params(low, high)
        rows = params.dequantize(params.quantize(values))
        exact, near = (np.exp(v - v.max(axis=1, keepdims=True)) for v in (values, rows))
        exact, near = (v / v.sum(axis=1, keepdims=True) for v in (exact, near))
        return float(np.square(exact - near).sum())

    (chosen,) = found.ranges().values()
    assert error(*chosen) < 0.7 * error(float(values.min()), float(values.max()))


def test_logits_that_something_else_reads_are_left_alone() -> None:
    net = Net()
    x = net.input(1, 10)
    logits = net.op("Gemm", x, net.normal(10, 5))
    graph = net.graph(net.op("Softmax", logits), net.op("Relu", logits))
    assert find_logits(graph, plan(graph)).tensors == ()


def test_clipping_a_term_at_what_its_clamped_sum_needs_changes_nothing() -> None:
    net = Net()
    x = net.input(1, 3, 6, 6)
    left, right = net.conv(x, 3, 4), net.conv(x, 3, 4)
    out = net.op("Relu", net.op("Add", left, right))
    graph = net.graph(net.conv(out, 4, 2))
    sums = residual_terms(graph, plan(graph))
    assert sums == {left: (out, right), right: (out, left)}
    (feed,) = net.feeds(1)
    found = Session(graph, outputs=[left, right, out]).run(feed)
    a, b = found[left], found[right]
    low_a, low_b = (found[out] - b).min(), (found[out] - a).min()
    assert low_a > a.min()
    clipped = np.maximum(np.maximum(a, low_a) + np.maximum(b, low_b), 0)
    assert np.allclose(clipped, found[out], rtol=1e-5, atol=1e-5)


def test_images_are_read_for_their_statistics_then_for_ranges_with_two_copies() -> None:
    net, graph = small_cnn()
    samples, read = net.feeds(3), []

    def feeds() -> Iterator[dict[str, np.ndarray]]:
        read.append(True)
        yield from samples

    statistics_of(graph, feeds, 3)
    assert len(read) == 1 + 1 + 2


def test_clipping_counts_twice_or_half_by_the_weighing() -> None:
    """Against the law of the tail: beyond 1 lies ``m2 exp(-1 / b)`` with ``b = m2 / (2 m1)``."""
    one = np.ones((1, 1))
    tail = TailStats(np.zeros(1), 2 * one, 0.1 * one, 0.02 * one)
    far, most = _losses(tail, np.array([0]), np.ones(1), np.array([3.0]), 0.5)
    rounding, lost = 3 * 0.5 / (12 * 255**2), 3 * 0.02 * np.exp(-10)
    np.testing.assert_allclose([far, most], [rounding + 2 * lost, np.log(rounding + lost / 2)])
