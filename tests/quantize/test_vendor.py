"""The file for the vendor's toolkit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from engine.base.errors import QuantizationError
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.quantize import calibrate, lower_for_vendor, quantize
from tests.quantize.models import Net, small_cnn


def test_opset_19_with_the_same_results() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(4)
    quantized = quantize(graph, calibrate(graph, feeds)).graph
    model = lower_for_vendor(quantized)
    assert model.ir_version == 8
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 19)]
    onnx.checker.check_model(model, full_check=True)
    stored = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    zeros = {
        stored[node.input[2]]
        for node in model.graph.node
        if node.op_type in ("QuantizeLinear", "DequantizeLinear")
    }
    assert zeros == {onnx.TensorProto.INT8, onnx.TensorProto.INT32}
    assert not any(node.metadata_props for node in model.graph.node)
    plain, vendor = Session(quantized), Session(Graph.from_proto(model))
    for feed in feeds:
        expected, found = plain.run(feed), vendor.run(feed)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)


def test_an_operator_that_opset_19_lacks_is_named() -> None:
    net = Net()
    out = net.op("Gelu", net.conv(net.input(1, 3, 8, 8), 3, 4))
    graph = net.graph(out)
    quantized = quantize(graph, calibrate(graph, net.feeds(1))).graph
    with pytest.raises(QuantizationError, match="Gelu"):
        lower_for_vendor(quantized)
