"""The file for the vendor's toolkit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from engine.base.errors import QuantizationError
from engine.graph.execute import Session, ort
from engine.graph.ir import Graph, params_of
from engine.quantize import lower_for_vendor, require_plain_run, vendor_form
from tests.quantize.models import Net, quantize_net, results, small_cnn


def test_opset_19_with_the_same_results() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(4)
    quantized = quantize_net(graph, feeds).graph
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
    found = results(Graph.from_proto(model), feeds)
    for name, array in results(quantized, feeds).items():
        np.testing.assert_array_equal(found[name], array)


def test_an_operator_that_opset_19_lacks_is_named() -> None:
    net = Net()
    out = net.op("AffineGrid", net.input(1, 2, 3), np.array([1, 1, 4, 4]))
    _, quantized = net.given(out, net.conv(net.input(1, 3, 8, 8), 3, 4), count=1)
    with pytest.raises(QuantizationError, match="AffineGrid"):
        lower_for_vendor(quantized)


def test_layers_with_one_weight_run_in_every_session_of_the_runtime() -> None:
    """With exact sums ONNX Runtime refuses a weight or zero point that two operators share."""
    net = Net()
    x, weight = net.input(1, 4, 6, 6), net.constant(net.normal(4, 4, 1, 1))
    gain = net.constant(net.normal(4, 1, 1))
    left = net.op("Mul", net.op("Conv", x, weight), gain)
    out = net.op("Mul", net.op("Conv", left, weight), gain)
    graph = net.graph(out)
    feed = net.feeds(1)[0]
    done = quantize_net(graph, [feed]).graph
    model = done.to_proto()
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    convs[1].input[1] = convs[0].input[1]
    shared = Graph.from_proto(model)
    data = lower_for_vendor(shared).SerializeToString()
    require_plain_run(data, feed)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    found = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feed)
    np.testing.assert_array_equal(found[0], Session(shared).run(feed)[out])


@pytest.mark.parametrize("readers", [1, 2])
def test_numbers_that_only_the_runtime_computes_count_as_weights(readers: int) -> None:
    """ONNX Runtime quantizes them while it loads the file, and then takes them for weights."""
    net = Net()
    x = net.input(1, 4, 6, 6)
    size = net.op("Gather", net.op("Shape", x), np.array(2))
    root = net.op("Sqrt", net.op("Cast", size, to=onnx.TensorProto.FLOAT))
    other = net.op("Sqrt", net.op("Add", root, 3.0))
    y = net.op("Mul", net.op("Mul", net.conv(x, 4, 4), root), other)
    outputs = [y, net.op("Mul", x, root)] if readers == 2 else [y]
    graph = net.graph(*outputs)
    feed = net.feeds(1)[0]
    done = quantize_net(graph, [feed]).graph
    model = done.to_proto()
    first = {}
    for node in model.graph.node:  # one zero point for both, as equal constants become one
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            tensor = next(t for t in model.graph.initializer if t.name == node.input[2])
            key = (tensor.data_type, tuple(tensor.dims), tensor.raw_data)
            node.input[2] = first.setdefault(key, node.input[2])
    require_plain_run(lower_for_vendor(Graph.from_proto(model)).SerializeToString(), feed)


def test_an_export_that_does_not_run_is_an_error() -> None:
    net, graph = small_cnn()
    feed = net.feeds(1)[0]
    model = lower_for_vendor(quantize_net(graph, [feed]).graph)
    require_plain_run(model.SerializeToString(), feed)
    twice = onnx.ModelProto()
    twice.CopyFrom(model)
    twice.graph.node[-1].output[0] = twice.graph.node[-2].output[0]
    with pytest.raises(QuantizationError, match="does not run in ONNX Runtime") as error:
        require_plain_run(twice.SerializeToString(), feed)
    assert "mistake of this program" in error.value.cause
    reshape = next(node for node in model.graph.node if node.op_type == "Reshape")
    for tensor in model.graph.initializer:
        if tensor.name == reshape.input[1]:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([7, -1]), tensor.name))
    with pytest.raises(QuantizationError, match="Reshape"):  # it opens, and fails when it runs
        require_plain_run(model.SerializeToString(), feed)


def test_the_form_of_many_rewrites_is_made_in_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool, a mean, an output that is read inside too and a hard sigmoid: four rewrites."""
    net = Net()
    pooled = net.op("AveragePool", net.input(1, 4, 16, 16), kernel_shape=[2, 2], strides=[2, 2])
    inner = net.conv(pooled, 4, 8)
    gate = net.op("HardSigmoid", net.conv(inner, 8, 8), alpha=1 / 6, beta=0.5)
    feeds, quantized = net.given(inner, net.op("GlobalAveragePool", gate), count=2)
    before = quantized.to_bytes()
    copies: list[Graph] = []
    plain = Graph.copy

    def counted(graph: Graph) -> Graph:
        copies.append(graph)
        return plain(graph)

    monkeypatch.setattr(Graph, "copy", counted)
    form = vendor_form(quantized)
    assert copies == [quantized]
    assert quantized.to_bytes() == before
    ops = [node.op_type for node in form.nodes]
    assert not {"AveragePool", "HardSigmoid", "GlobalAveragePool"} & set(ops)
    assert ops.count("Conv") == 5
    expected = Session(quantized, level="disabled").run(feeds[0])
    for name, array in Session(form, level="disabled").run(feeds[0]).items():
        # float sums in another order: a value on the edge between two integers may move a step
        read = quantized.value(name).producer()
        step = None if read is None else params_of(read)
        assert step is not None
        np.testing.assert_allclose(array, expected[name], rtol=0, atol=1.01 * step.scale[0])
    assert vendor_form(form) is form
