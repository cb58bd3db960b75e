"""Ranges, scales and weights by squared error, against rounding every value in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph.ir import Graph
from engine.graph.metrics import sqnr
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.quantize.algorithms.range_search import (
    CAUTION,
    RangeCost,
    least_cost_range,
    pixel_grid_range,
)
from engine.quantize.calibration.histograms import Histogram
from engine.quantize.calibration.observations import Observation, Observations
from engine.quantize.dtypes.scheme import activation_params
from engine.quantize.planning.node_properties import Clamp
from tests.quantize.models import Net, quantize_net, results, seen_cnn, small_cnn

SHAPES = {
    "normal": lambda rng: rng.normal(size=40_000),
    "relu": lambda rng: np.maximum(rng.normal(size=40_000), 0.0),
    "long tail": lambda rng: rng.exponential(size=40_000) ** 2,
    "one-sided": lambda rng: -rng.gamma(2.0, size=40_000),
    "outlier": lambda rng: np.append(rng.normal(size=40_000), 60.0),
}


def _values(kind: str) -> np.ndarray:
    array: np.ndarray = SHAPES[kind](np.random.default_rng(7)).astype(np.float32)
    return array


def _observation(values: np.ndarray) -> Observation:
    return Observation(float(values.min()), float(values.max()), Histogram.of(values))


def _reference(values: np.ndarray, low: float, high: float) -> tuple[float, float]:
    """Rounding and clipping error of every single value."""
    params = activation_params(low, high)
    real = params.dequantize(params.quantize(values)).astype(np.float64)
    square = (real - values) ** 2
    step = params.scale[0]
    outside = (values > high + step / 2) | (values < low - step / 2)
    return float(square[~outside].sum()), float(square[outside].sum())


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("share", [1.0, 0.7, 0.4, 1.3])
def test_costs_are_those_of_rounding_every_value(kind: str, share: float) -> None:
    values = _values(kind)
    low, high = share * min(values.min(), 0.0), share * max(values.max(), 0.0)
    cost = RangeCost(Histogram.of(values))
    ends = np.array(low), np.array(high)
    rounding, clipping = _reference(values, low, high)
    # the model of rounding is a mean over where a value lies between two steps
    assert float(cost.rounding(*ends)) == pytest.approx(rounding, rel=0.12)
    seen = float(cost.clipping(*ends, law=False))
    assert seen == pytest.approx(clipping, rel=0.1, abs=0.02 * rounding)
    assert float(cost.clipping(*ends)) >= seen


@pytest.mark.parametrize("kind", ["normal", "relu", "one-sided"])
def test_the_range_found_is_as_good_as_the_best_of_a_grid(kind: str) -> None:
    values = _values(kind)
    seen = _observation(values)
    low, high = least_cost_range(seen)

    def cost(share: float) -> float:
        rounding, clipping = _reference(
            values, share * min(seen.minimum, 0.0), share * max(seen.maximum, 0.0)
        )
        return rounding + CAUTION * clipping

    best = min(cost(share) for share in np.linspace(0.3, 1.0, 30))
    rounding, clipping = _reference(values, low, high)
    # it may pay for values that were not seen: the law of the tail
    assert rounding + CAUTION * clipping < 1.5 * best


def _loud() -> Observation:
    """Ten million values up to 1, and ten of 1.5."""
    few = Histogram.of(np.append(np.linspace(0.0, 1.0, 999), 1.5).astype(np.float32))
    counts = np.where(few.codes == few.codes.max(), 10, few.counts * 10_000)
    return Observation(0.0, 1.5, Histogram(few.codes, counts))


def test_a_long_tail_gets_room_and_only_many_values_clip_a_few() -> None:
    tail = _observation(_values("long tail"))
    assert tail.maximum < least_cost_range(tail)[1] <= 1.4 * tail.maximum
    outlier = _observation(_values("outlier"))
    # 40,000 values rounded a little coarser cost less than one that is off by 50
    assert least_cost_range(outlier)[1] > 55.0
    assert least_cost_range(_loud())[1] < 1.3


def test_clamps_and_results_are_kept() -> None:
    values = np.clip(_values("normal") * 4, 0, 6)
    seen = _observation(values)
    assert least_cost_range(seen, clamps=[Clamp("clip", 0.0, 6.0)])[1] <= 6.0
    assert least_cost_range(_loud(), whole=True)[1] >= 1.5


def test_without_a_histogram_or_values_the_range_stays() -> None:
    assert least_cost_range(Observation(-1.0, 2.0)) == (-1.0, 2.0)
    assert least_cost_range(_observation(np.zeros(5, np.float32))) == (0.0, 0.0)
    low, high = least_cost_range(_observation(np.full(3, 2.5, np.float32)))
    assert low == 0.0
    assert high >= 2.5


def test_pixels_that_lie_between_the_steps_get_a_range_of_their_own() -> None:
    pixels = (np.arange(256, dtype=np.float32) - 127.5) / 127.5

    def error(low: float, high: float) -> float:
        return sum(_reference(pixels, low, high))

    low, high = pixel_grid_range(np.repeat(pixels, 3), -1.0, 1.0)
    assert error(low, high) < 0.6 * error(-1.0, 1.0)
    exact = np.arange(256, dtype=np.float32) / 256
    assert pixel_grid_range(exact, 0.0, 255 / 256) == (0.0, 255 / 256)
    noise = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    assert pixel_grid_range(noise, -3.0, 3.0) == (-3.0, 3.0)


def _unequal_net() -> tuple[Net, Graph]:
    """Channels of very unlike size behind one another, as detectors have them."""
    net = Net(4)
    x = net.input(1, 3, 16, 16)
    sizes = np.geomspace(0.02, 2.0, 12).astype(np.float32)
    first = net.normal(12, 3, 3, 3) * sizes[:, None, None, None]
    one = net.op("Relu", net.op("Conv", x, net.constant(first), pads=[1] * 4))
    second = net.normal(8, 12, 1, 1) / sizes[None, :, None, None]
    two = net.op("Relu", net.op("Conv", one, net.constant(second)))
    return net, net.graph(net.conv(two, 8, 4))


def test_scales_of_channels_and_rounded_weights_gain() -> None:
    net, graph = _unequal_net()
    feeds, others = net.feeds(6), net.feeds(6)
    seen = calibrate(graph, feeds)
    (output,) = (spec.name for spec in graph.outputs)
    golden = results(graph, others)[output]
    gain = {}
    for algorithm in ("normal", "mmse"):
        done = quantize(
            graph, seen, QuantizeSettings(algorithm=algorithm), feeds=lambda: iter(feeds)
        )
        gain[algorithm] = sqnr(golden, results(done.graph, others)[output])
        again = results(done.reference, others)[output]
        np.testing.assert_allclose(again, golden, rtol=1e-3, atol=1e-3)
    assert gain["mmse"] > gain["normal"] + 5.0


@pytest.mark.parametrize("dtype", ["w8a8", "w8a16", "w4a16", "w16a16i", "dynamic_fixed_point-8"])
def test_every_dtype_goes_through(dtype: str) -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    done = quantize_net(graph, feeds, dtype=dtype, algorithm="mmse")
    assert set(done.table)


def test_without_samples_only_ranges_are_chosen_and_bare_observations_do() -> None:
    graph, seen = seen_cnn(3)
    assert quantize(graph, seen, QuantizeSettings(algorithm="mmse")).reference is graph
    bare = Observations.from_json(seen.to_json())
    mmse = quantize(graph, bare, QuantizeSettings(algorithm="mmse"))
    normal = quantize(graph, bare)
    assert mmse.graph.to_bytes() == normal.graph.to_bytes()


def test_ranges_set_by_hand_win() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    seen = calibrate(graph, feeds)
    settings = QuantizeSettings(algorithm="mmse", ranges={"Relu_2_0": (0.0, 9.0)})
    done = quantize(graph, seen, settings, feeds=lambda: iter(feeds))
    assert done.table["Relu_2_0"].maximum == (9.0,)
