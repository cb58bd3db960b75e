"""Ranges by divergence: the figure against numpy, and that nothing collapses."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from engine.graph.ir import Graph
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.quantize.algorithms.range_search import (
    COST_LIMIT,
    Divergence,
    RangeCost,
    least_divergence_range,
)
from engine.quantize.calibration.histograms import Histogram
from engine.quantize.calibration.observations import Observation
from engine.report import gain_text
from tests.quantize.models import Net, least_sqnr, quantize_net


def _reference(values: np.ndarray, low: float, high: float, steps: int = 255) -> float:
    """Divergence by numpy's own histogram of the values."""
    bins = (steps + 1) * 4
    inside, _ = np.histogram(values, bins=bins, range=(low, high))
    real = inside.astype(np.float64)
    real[0] += (values < low).sum()
    real[-1] += (values > high).sum()
    quantized = np.zeros(bins)
    for start in range(0, bins, 4):
        held = inside[start : start + 4] > 0
        if held.any():
            quantized[start : start + 4][held] = inside[start : start + 4].sum() / held.sum()
    held = real > 0
    p, q = real[held] / real.sum(), np.maximum(quantized[held], 1e-4) / quantized.sum()
    return float((p * np.log(p / q)).sum())


@pytest.mark.parametrize(("low", "high"), [(-4.0, 4.0), (-2.0, 2.5), (-1.0, 1.0), (-3.0, 1.0)])
def test_the_divergence_is_that_of_numpy(low: float, high: float) -> None:
    values = np.random.default_rng(0).normal(size=400_000).astype(np.float32)
    found = Divergence(Histogram.of(values)).of(low, high, 255)
    assert found == pytest.approx(_reference(values, low, high), rel=0.05, abs=2e-3)


def test_a_long_tail_is_clipped_and_never_for_more_than_twice_the_error() -> None:
    rng = np.random.default_rng(1)
    narrower = 0
    for values in (
        np.append(rng.normal(size=50_000), [9.0, -7.0]),
        rng.exponential(size=50_000) ** 1.5,
        rng.normal(size=50_000),
        -rng.gamma(1.0, size=20_000),
    ):
        array = values.astype(np.float32)
        seen = Observation(float(array.min()), float(array.max()), Histogram.of(array))
        low, high = least_divergence_range(seen)
        assert min(seen.minimum, 0) <= low <= 0 <= high <= max(seen.maximum, 0)
        narrower += (low, high) != (min(seen.minimum, 0.0), max(seen.maximum, 0.0))
        cost = RangeCost(Histogram.of(array))
        own = cost.total(np.array(low), np.array(high))
        usual = cost.total(np.array(min(seen.minimum, 0.0)), np.array(max(seen.maximum, 0.0)))
        assert own <= COST_LIMIT * usual * 1.0001
    assert narrower >= 3


def test_nothing_to_choose_leaves_the_range() -> None:
    constant = np.zeros(10, np.float32)
    assert least_divergence_range(Observation(0.0, 0.0, Histogram.of(constant))) == (0.0, 0.0)
    assert least_divergence_range(Observation(-1.0, 1.0)) == (-1.0, 1.0)
    tail = np.random.default_rng(2).exponential(size=9000).astype(np.float32) ** 2
    seen = Observation(float(tail.min()), float(tail.max()), Histogram.of(tail))
    assert least_divergence_range(seen, whole=True) == (seen.minimum, seen.maximum)
    assert least_divergence_range(seen, steps=65535) == (seen.minimum, seen.maximum)


def _sqnr(graph: Graph, algorithm: str, feeds: list[dict[str, np.ndarray]]) -> float:
    quantized = quantize(graph, calibrate(graph, feeds), QuantizeSettings(algorithm=algorithm))
    return least_sqnr(graph, quantized.graph, feeds)


@pytest.mark.parametrize("seed", range(4))
def test_no_ordinary_net_collapses(seed: int) -> None:
    net = Net(seed)
    x = net.input(1, 3, 12, 12)
    y = net.op("Relu", net.conv(x, 3, 8))
    y = net.op("Relu", net.conv(y, 8, 8, group=8))
    graph = net.graph(net.conv(y, 8, 4, kernel=1, pads=[0] * 4))
    feeds = [{x: net.rng.standard_t(3, size=(1, 3, 12, 12)).astype(np.float32)} for _ in range(6)]
    assert _sqnr(graph, "kl_divergence", feeds) > _sqnr(graph, "normal", feeds) - 3.0


def few_large_values() -> tuple[Graph, list[dict[str, np.ndarray]]]:
    """A net whose few largest values are all that its result depends on."""
    net = Net(2)
    x = net.input(1, 4, 16, 16)
    y = net.op("Relu", net.conv(x, 4, 8, kernel=1, pads=[0] * 4))
    z = net.op("Relu", net.conv(y, 8, 8, kernel=1, pads=[0] * 4))
    pooled = net.op("GlobalMaxPool", net.conv(z, 8, 4, kernel=1, pads=[0] * 4))
    feeds = []
    for _ in range(6):
        image = net.normal(1, 4, 16, 16, scale=0.2)
        image[:, :, 3, 3] = np.abs(net.normal(4)) * 20
        feeds.append({x: image})
    return net.graph(net.op("Flatten", pooled)), feeds


def test_a_loss_is_told_with_the_tensors_that_were_clipped() -> None:
    graph, feeds = few_large_values()
    lost = _sqnr(graph, "normal", feeds) - _sqnr(graph, "kl_divergence", feeds)
    assert lost > 3.0
    done = quantize_net(graph, feeds, algorithm="kl_divergence")
    (finding,) = (f for f in done.findings if f.code == "kl-divergence-loses")
    assert finding.severity == "warning"
    assert finding.where == graph.outputs[0].name
    assert f"{gain_text(-lost)} against normal (simulated, over 6 " in finding.what
    assert "became" in finding.cause
    assert "% of its energy" in finding.cause


@pytest.mark.parametrize(("loss", "told"), [(2.9, False), (3.1, True)])
def test_a_loss_is_told_from_3_db_on(
    loss: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("engine.quantize.algorithms.kl_divergence")
    monkeypatch.setattr(module, "sqnr_losses", lambda *_: ({"out": loss}, 3))
    done = quantize_net(*few_large_values(), algorithm="kl_divergence")
    assert [f.code for f in done.findings] == ["kl-divergence-loses"] * told
