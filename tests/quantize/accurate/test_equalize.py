"""Equalization: the float graph keeps its outputs, and channels fill their tensor's range."""

from __future__ import annotations

import numpy as np

from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import sqnr
from engine.quantize.algorithms.accurate.assemble import Candidate, assemble
from engine.quantize.planning.plan import plan
from engine.quantize.techniques.channels import find_channels
from engine.quantize.techniques.equalize import ChannelRange, _needed, scaled_graph
from tests.quantize.models import Net, results, small_cnn, statistics_of


def every_form() -> tuple[Net, Graph]:
    """Depthwise, fan-out, Add, Concat, gate, groups, PRelu, ConvTranspose, Flatten and Gemm."""
    net = Net(1)
    x = net.input(1, 3, 12, 12)
    stem = net.op("Relu", net.conv(x, 3, 8))
    deep = net.op("PRelu", net.conv(stem, 8, 8, group=8), abs(net.normal(8, 1, 1)))
    added = net.op("Relu", net.op("Add", net.conv(deep, 8, 8), stem))
    mean = net.op("GlobalAveragePool", added)
    gate = net.op("Sigmoid", net.conv(mean, 8, 8, kernel=1, pads=[0] * 4))
    gated = net.op("Mul", gate, added)
    both = net.op("Concat", gated, net.op("MaxPool", deep, kernel_shape=[1, 1]), axis=1)
    grouped = net.op("LeakyRelu", net.conv(both, 16, 8, group=2), alpha=0.2)
    up = net.op("ConvTranspose", grouped, net.normal(8, 4, 2, 2), net.normal(4), strides=[2, 2])
    pooled = net.op("AveragePool", net.conv(up, 4, 4), kernel_shape=[8, 8], strides=[8, 8])
    dense = net.op("Gemm", net.op("Flatten", pooled), net.normal(36, 6))
    return net, net.graph(net.op("MatMul", net.op("Relu", dense), net.normal(6, 5)))


def test_any_factors_leave_the_outputs_alone() -> None:
    for net, graph in (every_form(), small_cnn()):
        channels = find_channels(graph, plan(graph))
        rng = np.random.default_rng(0)
        factors = np.exp(rng.normal(size=channels.count))
        members = np.zeros(channels.count, dtype=int)
        for groups in channels.groups.values():
            members[groups] += 1
        assert not channels.frozen[members > 0].all()
        factors[channels.frozen] = 1.0
        feeds = net.feeds(3)
        expected = results(graph, feeds)
        found = results(scaled_graph(graph, channels, factors), feeds)
        for name, array in expected.items():
            assert sqnr(array, found[name]) > 110, name


def test_what_the_outputs_or_shared_weights_hold_is_frozen() -> None:
    net = Net()
    x = net.input(1, 3, 8, 8)
    weight, bias = net.constant(net.normal(3, 3, 3, 3)), net.constant(net.normal(3))
    first = net.op("Relu", net.op("Conv", x, weight, bias, pads=[1] * 4))
    second = net.op("Relu", net.op("Conv", first, weight, bias, pads=[1] * 4))
    out = net.op("Relu", net.conv(second, 3, 4))
    graph = net.graph(out)
    channels = find_channels(graph, plan(graph))
    assert first not in channels.groups
    assert channels.frozen[channels.groups[out]].all()


def test_equalized_channels_fill_the_range() -> None:
    net = Net(4)
    x = net.input(1, 3, 16, 16)
    weight = net.normal(8, 3, 3, 3) * np.logspace(-2, 0, 8, dtype=np.float32)[:, None, None, None]
    made = net.op("Relu", net.op("Conv", x, net.constant(weight), pads=[1] * 4))
    graph = net.graph(net.conv(made, 8, 8, group=8))
    feeds = net.feeds(8)
    stats = statistics_of(graph, lambda: feeds, 8)
    ready = assemble(stats, Candidate(margin=False), range(8))
    session = Session(ready.graph, outputs=[made])
    values = np.stack([session.run(feed, [made])[made] for feed in feeds])
    peaks = values.max(axis=(0, 1, 3, 4)) / ready.activations[made].maximum[0]
    assert peaks.min() > 0.3  # 0.01 before
    assert peaks.max() <= 1 + 1e-5


def test_reference_and_quantized_graph_of_every_form() -> None:
    net, graph = every_form()
    feeds = net.feeds(9)
    stats = statistics_of(graph, lambda: feeds, 9)
    ready = assemble(stats, Candidate(), range(9))
    expected, found = results(graph, feeds), results(ready.graph, feeds)
    for name, array in expected.items():
        assert sqnr(array, found[name]) > 100, name
    assert {params.dtype for params in ready.activations.values()} == {"int8"}
    assert all(params.axis is None for params in ready.activations.values())
    assert all(set(given.params.zero_point) == {0} for given in ready.weights.values())


def test_every_feature_of_a_flattened_tensor_keeps_the_group_of_its_channel() -> None:
    _, graph = every_form()
    channels = find_channels(graph, plan(graph))
    gemm = next(node for node in graph.nodes if node.op_type == "Gemm")
    flat = gemm.inputs[0]
    assert flat is not None
    pooled = graph.producer(flat.name or "").inputs[0]
    assert pooled is not None
    assert gemm.name in {consumer.node for consumer in channels.consumers}
    own = channels.groups[pooled.name or ""]
    np.testing.assert_array_equal(channels.groups[flat.name or ""], np.repeat(own, 9))


def test_a_channel_of_little_noise_gets_a_range_of_04_of_the_average_noise() -> None:
    span = ChannelRange(np.zeros(2), np.array([1.0, 0.1]))
    gain = np.array([1.0, 0.5])
    width = _needed(span, np.arange(2), np.arange(2), gain)
    mean = (1.0 * 1.0**2 + 0.5 * 0.1**2) / 2
    np.testing.assert_allclose(width, [1.0, 0.4 * np.sqrt(mean / 0.5)])
