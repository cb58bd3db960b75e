"""Q/DQ graphs whose int8 weights and zero points are shared, as exporters write them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from engine.graph.execute import Session
from engine.graph.execute.shared_weights import duplicate_shared_weights
from engine.graph.ir import Graph
from engine.quantize import calibrate, quantize
from tests.quantize.models import Net, small_cnn


def quantized_with_shared_zero_points() -> tuple[Net, Graph, Graph]:
    net, graph = small_cnn()
    separate = quantize(graph, calibrate(graph, net.feeds(2))).graph
    proto = separate.to_proto()
    stored = {tensor.name: tensor for tensor in proto.graph.initializer}
    first: dict[tuple[object, ...], str] = {}
    for node in proto.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in stored:
            tensor = stored[node.input[2]]
            key = (tensor.data_type, tuple(tensor.dims), tensor.raw_data)
            node.input[2] = first.setdefault(key, node.input[2])
    return net, separate, Graph.from_proto(proto)


@pytest.mark.parametrize("lower", [True, False])
def test_shared_zero_points_run_with_the_same_results(lower: bool) -> None:
    net, separate, shared = quantized_with_shared_zero_points()
    feed = net.feeds(1)[0]
    expected, found = Session(separate).run(feed), Session(shared, lower=lower).run(feed)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_two_operators_with_one_dequantized_weight() -> None:
    net = Net()
    x, weight = net.input(1, 4, 6, 6), net.constant(net.normal(4, 4, 1, 1))
    out = net.op("Conv", net.op("Conv", x, weight), weight)
    graph = net.graph(out)
    separate = quantize(graph, calibrate(graph, net.feeds(2))).graph
    proto = separate.to_proto()
    first, second = (node for node in proto.graph.node if node.op_type == "Conv")
    second.input[1] = first.input[1]
    shared = Graph.from_proto(proto)
    feed = net.feeds(1)[0]
    np.testing.assert_array_equal(Session(shared).run(feed)[out], Session(separate).run(feed)[out])


def test_a_graph_without_shared_weights_comes_back_as_it_is() -> None:
    _, separate, shared = quantized_with_shared_zero_points()
    assert duplicate_shared_weights(separate) is separate
    done = duplicate_shared_weights(shared)
    assert done is not shared
    assert duplicate_shared_weights(done) is done
    onnx.checker.check_model(done.to_proto(), full_check=True)
