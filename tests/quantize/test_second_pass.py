"""What the second pass of ``mmse`` leaves out, as calibration of the scaled graph tells it too."""

from __future__ import annotations

import numpy as np

from engine.quantize import QuantizeSettings, calibrate
from engine.quantize.algorithms.mmse import channel_factors, scaled_means
from engine.quantize.calibration.observer import _reduced
from engine.quantize.planning.plan import plan
from engine.quantize.techniques.channels import find_channels
from engine.quantize.techniques.equalize import scaled_graph
from engine.quantize.techniques.moments import make_moments
from tests.quantize.models import small_cnn


def test_means_of_the_scaled_graph_follow_from_those_of_the_first_pass() -> None:
    net, graph = small_cnn()
    feeds, decided = net.feeds(5), plan(graph)
    seen, channels = calibrate(graph, feeds), find_channels(graph, decided)
    factors = channel_factors(decided, channels, seen, QuantizeSettings(algorithm="mmse"))
    assert (factors != 1).any()
    again = calibrate(scaled_graph(graph, channels, factors), feeds)
    found = scaled_means(graph, decided, channels, factors, seen)
    assert list(found) == list(again.inputs)
    changed = 0
    for name, own in again.inputs.items():
        assert found[name].positions == own.positions
        np.testing.assert_allclose(found[name].total, own.total, rtol=1e-3, atol=1e-3)
        changed += not np.allclose(own.total, seen.inputs[name].total, rtol=1e-3, atol=1e-3)
    assert changed > 2


def test_a_brief_calibration_has_the_same_ranges_and_histograms() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    whole, brief = calibrate(graph, feeds), calibrate(graph, feeds, brief=True)
    assert not brief.inputs
    assert list(brief.tensors) == list(whole.tensors)
    for name, own in brief.tensors.items():
        other = whole[name]
        assert len(own.peaks or ()) < 2
        assert own.maximum == other.maximum
        assert min(own.minimum, 0.0) == min(other.minimum, 0.0)
        assert (own.histogram is None) == (other.histogram is None)
        if own.histogram is not None and other.histogram is not None:
            np.testing.assert_array_equal(own.histogram.counts, other.histogram.counts)


def test_ranges_of_short_rows_are_those_of_numpy() -> None:
    array = np.random.default_rng(0).normal(size=(1, 700, 7, 7)).astype(np.float32)
    low, high, _ = _reduced(array)
    np.testing.assert_array_equal(low, array.min(axis=(0, 2, 3)))
    np.testing.assert_array_equal(high, array.max(axis=(0, 2, 3)))


def test_second_moments_do_not_depend_on_what_is_multiplied_together() -> None:
    _, graph = small_cnn()
    every = make_moments(graph, plan(graph), 4000, 4)
    own = next(one for one in every.values() if one.groups == 1 and one.length > 20)
    shape = graph.spec(own.tensor).shape
    arrays = [np.random.default_rng(i).normal(size=shape).astype(np.float32) for i in range(4)]
    together = 0.0
    for number, array in enumerate(arrays):
        own.add(array, number)
        columns = own._columns(array, np.random.default_rng(number))
        assert columns is not None
        together = together + np.einsum("grk,grl->gkl", columns, columns, dtype=np.float64)
    assert own.second is not None
    rows = own._count
    np.testing.assert_allclose(own.second, together / rows, rtol=1e-3, atol=1e-4)
    own.add(arrays[0], 0)  # goes on after it was read
    assert own._count > rows
    assert own.second is not None
