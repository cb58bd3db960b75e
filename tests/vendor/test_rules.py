"""The mode `vendor` without the toolkit: each rule by itself."""

from __future__ import annotations

import numpy as np
import pytest

from engine.base.errors import QuantizationError
from engine.graph.execute import Session
from engine.graph.ir import NORMALIZED, Graph
from engine.graph.passes import optimise
from engine.quantize import Quantized, QuantizeSettings, calibrate, quantize
from engine.quantize.algorithms.vendor_rewrite import rewrite_as_vendor
from tests.quantize.models import Net, small_cnn


def _vendor(net: Net, graph: Graph, count: int = 3) -> Quantized:
    feeds = net.feeds(count)
    settings = QuantizeSettings(algorithm="vendor")
    return quantize(graph, calibrate(graph, feeds), settings, feeds=lambda: iter(feeds))


def _equal(net: Net, before: Graph, after: Graph, tolerance: float) -> None:
    for feed in net.feeds(2):
        expected, found = Session(before).run(feed), Session(after).run(feed)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("size", "kernels"),
    [
        ((7, 7), []),
        ((8, 8), [(7, 7), (2, 2)]),
        ((10, 7), [(7, 7), (2, 1)]),
        ((50, 50), [(7, 7), (7, 7), (2, 2)]),
    ],
)
def test_means_in_stages(size: tuple[int, int], kernels: list[tuple[int, int]]) -> None:
    net = Net()
    graph = net.graph(net.op("GlobalAveragePool", net.input(1, 3, *size)))
    rewritten, changed = rewrite_as_vendor(graph)
    convolutions = [node for node in rewritten.nodes if node.op_type == "Conv"]
    assert [tuple(n.attributes.get_ints("kernel_shape")) for n in convolutions] == kernels
    assert changed == bool(kernels)
    # float32 sums of up to 2,500 values near 1
    _equal(net, graph, rewritten, 1e-6)


def test_a_sum_with_its_own_input_goes_into_the_weights() -> None:
    net = Net()
    x = net.input(1, 4, 9, 9)
    graph = net.graph(net.op("Add", net.conv(x, 4, 4), x))
    rewritten, changed = rewrite_as_vendor(graph)
    assert changed
    assert [node.op_type for node in rewritten.nodes] == ["Conv"]
    _equal(net, graph, rewritten, 1e-5)


def test_channels_that_cannot_be_positive_lose_their_weights() -> None:
    net = Net()
    x = net.op("Relu", net.input(1, 3, 6, 6))
    weight = net.normal(4, 3, 1, 1)
    weight[0], weight[1], weight[2] = 1e-20, 1e-20, -np.abs(weight[2])
    bias = np.array([0.5, -0.5, -0.1, 0.2], np.float32)
    first = net.op("Relu", net.op("Conv", x, net.constant(weight), net.constant(bias)))
    second = net.normal(2, 4, 1, 1)
    conv = net.op("Conv", first, net.constant(second), net.constant(np.zeros(2, np.float32)))
    # nothing is known of what the first convolution reads, so its third row stays
    graph = net.graph(conv)
    rewritten, changed = rewrite_as_vendor(graph)
    assert changed
    kept, last = (node for node in rewritten.nodes if node.op_type == "Conv")
    found = rewritten.constant(kept.inputs[1].name or "")
    assert found is not None
    assert [bool(row.any()) for row in found][:2] == [False, False]
    assert found[2].any()
    after = rewritten.constant(last.inputs[1].name or "")
    offset = rewritten.constant(last.inputs[2].name or "")
    assert after is not None
    assert offset is not None
    assert not after[:, :2].any()  # one is always 0, the other always 0.5
    np.testing.assert_allclose(offset, 0.5 * second[:, 0, 0, 0], rtol=1e-6)
    _equal(net, graph, rewritten, 1e-5)


def test_batch_normalization_counts_its_epsilon_twice() -> None:
    net = Net()
    conv = net.conv(net.input(1, 3, 6, 6), 3, 4)
    parts = [net.constant(np.abs(net.normal(4)) + 0.5) for _ in range(4)]
    graph = optimise(net.graph(net.op("BatchNormalization", conv, *parts, epsilon=0.01))).graph
    (node,) = graph.nodes
    assert float(node.metadata_props[NORMALIZED]) == pytest.approx(0.01)
    rewritten, changed = rewrite_as_vendor(graph)
    assert changed
    name = node.inputs[1].name or ""
    before, after = graph.constant(name), rewritten.constant(name)
    assert before is not None
    assert after is not None
    np.testing.assert_allclose(after, before / np.sqrt(1.01), rtol=1e-6)


def test_of_two_convolutions_the_first_is_not_rounded_before_their_sum() -> None:
    net = Net()
    x = net.input(1, 3, 6, 6)
    first, second = net.conv(x, 3, 4), net.conv(x, 3, 4)
    quantized = _vendor(net, net.graph(net.op("Relu", net.op("Add", second, first))))
    assert first not in quantized.table
    assert second in quantized.table


def test_weights_have_zero_points_and_softmax_is_float16() -> None:
    net, graph = small_cnn()
    quantized = _vendor(net, graph)
    weights = [params for params in quantized.table.values() if params.axis == 0]
    assert any(zero for params in weights for zero in params.zero_point)
    scores = Session(quantized.graph).run(net.feeds(1)[0])[graph.outputs[0].name]
    np.testing.assert_array_equal(scores, scores.astype(np.float16).astype(np.float32))


def test_a_rewritten_graph_needs_its_samples_again() -> None:
    net = Net()
    conv = net.conv(net.input(1, 3, 16, 16), 3, 4)
    graph = net.graph(net.op("GlobalAveragePool", conv))
    observations = calibrate(graph, net.feeds(1))
    with pytest.raises(QuantizationError, match="samples once more"):
        quantize(graph, observations, QuantizeSettings(algorithm="vendor"))


def test_other_dtypes_are_refused() -> None:
    net, graph = small_cnn()
    observations = calibrate(graph, net.feeds(1))
    settings = QuantizeSettings(algorithm="vendor", dtype="w4a8")
    with pytest.raises(QuantizationError, match="w4a8"):
        quantize(graph, observations, settings)
