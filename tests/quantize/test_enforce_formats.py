"""What an algorithm decided for a layer stays, whatever the dtype: formats, biases, ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.base.events import NullReporter
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.quantize.algorithms.accurate.assemble import Candidate
from engine.quantize.algorithms.accurate.select import select_candidate
from tests.quantize.models import Net, small_cnn, statistics_of

Feeds = Sequence[dict[str, np.ndarray]]


def built(graph: Graph, feeds: Feeds, algorithm: str, dtype: str, bias: bool = True) -> Graph:
    settings = QuantizeSettings(dtype=dtype, algorithm=algorithm, bias_correction=bias)
    return quantize(graph, calibrate(graph, feeds), settings, feeds=lambda: iter(feeds)).graph


def mean_error(graph: Graph, other: Graph, feeds: Feeds) -> float:
    """The largest mean error of an output channel over the samples."""
    one, two = Session(graph), Session(other)
    name = graph.outputs[0].name
    errors = [two.run(feed)[name].astype(np.float64) - one.run(feed)[name] for feed in feeds]
    return float(np.abs(np.stack(errors).mean(axis=(0, 1, 3, 4))).max())


@pytest.mark.parametrize("dtype", ["dynamic_fixed_point-8", "w16a16i"])
def test_without_ranges_to_choose_kl_divergence_is_normal(dtype: str) -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    plain = built(graph, feeds, "normal", dtype).to_bytes()
    assert built(graph, feeds, "kl_divergence", dtype).to_bytes() == plain


@pytest.mark.parametrize("algorithm", ["kl_divergence", "mmse", "accurate"])
@pytest.mark.parametrize("dtype", ["w4a8", "asymmetric_quantized-u8"])
def test_biases_are_corrected_in_every_dtype_and_only_where_wanted(
    algorithm: str, dtype: str
) -> None:
    net = Net(4)
    x = net.input(1, 6, 12, 12)
    graph = net.graph(net.op("Conv", x, net.normal(5, 6, 1, 1)))
    feeds = [{name: array + 2 for name, array in feed.items()} for feed in net.feeds(9)]
    corrected = mean_error(graph, built(graph, feeds, algorithm, dtype), feeds)
    left = mean_error(graph, built(graph, feeds, algorithm, dtype, bias=False), feeds)
    assert corrected < 0.5 * left


def test_fixed_point_of_8_bits_gets_no_room_and_wide_formats_always() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(9)
    for dtype, wide in (("dynamic_fixed_point-8", False), ("dynamic_fixed_point-16", True)):
        stats = statistics_of(graph, lambda: iter(feeds), 9, dtype)
        ranges, seen = stats.ranges(Candidate(), range(9)), stats.statistics.tensors
        grown = [
            name
            for name, span in ranges.items()
            if (span.high > np.maximum(seen[name].high.max(axis=0), 0.0)).any()
        ]
        assert bool(grown) is wide
        if wide:
            assert select_candidate(stats, lambda: iter(feeds), NullReporter()).margin
