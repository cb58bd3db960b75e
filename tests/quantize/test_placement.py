"""Where Q and DQ go, and which tensors share a scale."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from engine.base.errors import QuantizationError
from engine.graph.execute import Session
from engine.graph.ir import Graph, QuantTable
from engine.graph.passes import optimise
from engine.quantize import Observations, Quantized, QuantizeSettings, calibrate, quantize
from tests.graph.models import finish, nodes_of, tensor
from tests.quantize.models import Net, quantize_net, seen_cnn, small_cnn


def done(net: Net, *outputs: str, granularity: str = "channel") -> Quantized:
    graph = net.graph(*outputs)
    return quantize_net(graph, net.feeds(4), granularity=granularity)


def ops(quantized: Quantized) -> list[str]:
    return [node.op_type for node in quantized.graph.nodes]


def test_the_quantized_graph_is_valid_and_keeps_the_interface() -> None:
    net, graph = small_cnn()
    result = quantize_net(graph, net.feeds(3))
    onnx.checker.check_model(result.graph.to_proto(), full_check=True)
    assert result.graph.inputs == graph.inputs
    assert result.graph.outputs == graph.outputs
    assert {"QuantizeLinear", "DequantizeLinear"} <= set(ops(result))
    # every float tensor is still there under its name
    for node in graph.nodes:
        for value in node.outputs:
            assert result.graph.value(value.name or "") is not None


def test_quantization_is_deterministic_and_leaves_its_input_alone() -> None:
    net, graph = small_cnn()
    before = graph.to_bytes()
    seen = calibrate(graph, net.feeds(3))
    first, second = quantize(graph, seen), quantize(graph, seen)
    assert first.graph.to_bytes() == second.graph.to_bytes()
    assert first.table == second.table
    assert graph.to_bytes() == before


def test_the_table_holds_what_the_graph_does() -> None:
    net, graph = small_cnn()
    result = quantize_net(graph, net.feeds(3))
    assert QuantTable.from_json(json.loads(json.dumps(result.table.to_json()))) == result.table
    read = 0
    for node in result.graph.nodes:
        if node.op_type == "DequantizeLinear":
            name = (node.name or "").removesuffix("/DequantizeLinear")
            params = result.table[name]
            scale = result.graph.constant(node.inputs[1].name or "")
            np.testing.assert_array_equal(np.float32(params.scale), scale.reshape(-1))
            read += 1
    assert read == len(result.table)


def test_relu_is_absorbed_with_its_range() -> None:
    net = Net()
    before = net.conv(net.input(1, 3, 8, 8), 3, 4)
    out = net.op("Relu", before)
    result = done(net, out)
    assert before not in result.table
    assert result.table[out].zero_point == (-128,)
    assert result.table[out].minimum == (0.0,)


def test_a_tensor_with_another_reader_than_relu_has_a_scale_of_its_own() -> None:
    net = Net()
    before = net.conv(net.input(1, 3, 8, 8), 3, 4)
    out = net.op("Add", net.op("Relu", before), before)
    assert before in done(net, out).table


def test_moving_values_keeps_their_scale() -> None:
    net = Net()
    x = net.conv(net.input(1, 3, 8, 8), 3, 4)
    pooled = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    moved = net.op("Transpose", pooled, perm=[0, 2, 3, 1])
    flat = net.op("Reshape", moved, np.array([1, -1]))
    table = done(net, flat).table
    assert {(table[name].scale, table[name].zero_point) for name in (x, pooled, moved, flat)} == {
        (table[x].scale, table[x].zero_point)
    }


def two_heads(net: Net) -> tuple[str, str, str]:
    x = net.input(1, 3, 8, 8)
    small = net.op("Mul", net.conv(x, 3, 4), 0.1)
    large = net.op("Mul", net.conv(x, 3, 4), 10.0)
    return small, large, net.op("Concat", small, large, axis=1)


def test_inputs_that_only_a_concat_reads_are_written_with_its_scale() -> None:
    net = Net()
    small, large, out = two_heads(net)
    table = done(net, out).table
    assert table[small].scale == table[large].scale == table[out].scale


def test_an_input_with_another_reader_keeps_its_finer_scale() -> None:
    net = Net()
    small, large, out = two_heads(net)
    other = net.op("Sigmoid", small)
    table = done(net, out, other).table
    assert table[large].scale == table[out].scale
    assert table[small].scale[0] < 0.1 * table[out].scale[0]


def test_a_relu_does_not_take_a_signed_scale() -> None:
    net = Net()
    x = net.input(1, 3, 8, 8)
    positive = net.op("Relu", net.conv(x, 3, 4))
    out = net.op("Concat", positive, net.conv(x, 3, 4), axis=1)
    table = done(net, out).table
    assert table[positive].zero_point == (-128,)
    assert table[out].zero_point != (-128,)


def test_softmax_stays_in_float_behind_8_bit_logits() -> None:
    net = Net()
    logits = net.op("Gemm", net.input(1, 8), net.normal(8, 5))
    scores = net.op("Softmax", logits)
    result = done(net, scores)
    assert logits in result.table
    assert scores not in result.table
    assert ops(result)[-1] == "Softmax"


def test_arithmetic_for_float_operators_stays_in_float() -> None:
    net = Net()
    x = net.op("Gemm", net.input(1, 8), net.normal(8, 5))
    masked = net.op("Add", x, net.normal(1, 5))
    # centre and size of boxes: exp() times a prior, behind a float operator
    sizes = net.op("Mul", net.op("Exp", x), net.normal(1, 5))
    result = done(net, net.op("Softmax", masked), sizes)
    assert masked not in result.table
    assert sizes not in result.table
    assert x in result.table


def test_a_float_result_is_quantized_where_an_integer_operator_reads_it() -> None:
    net = Net()
    attention = net.op("Softmax", net.input(1, 4, 4))
    out = net.op("MatMul", attention, net.input(1, 4, 6))
    result = done(net, out, attention)
    assert attention in result.table
    # the graph's output is the float tensor, the product reads its 8-bit form
    assert result.graph.producer(attention).op_type == "Softmax"
    product = next(node for node in result.graph.nodes if node.op_type == "MatMul")
    assert product.inputs[0].name == f"{attention}/dequantized"


@pytest.mark.parametrize(("granularity", "axis"), [("channel", 0), ("layer", None)])
def test_granularity_of_weights(granularity: str, axis: int | None) -> None:
    net = Net()
    out = net.conv(net.input(1, 3, 8, 8), 3, 4)
    table = done(net, out, granularity=granularity).table
    assert table["constant0"].axis == axis
    assert len(table["constant0"].scale) == (4 if axis == 0 else 1)
    assert table["constant1"].dtype == "int32"
    expected = np.float32(table["input0"].scale[0]) * np.float32(table["constant0"].scale)
    np.testing.assert_array_equal(np.float32(table["constant1"].scale), expected)


def test_a_bias_that_would_overflow() -> None:
    net = Net()
    weight = net.normal(4, 3, 1, 1)
    weight[1] = 0
    weight[2] *= 1e-12
    bias = np.array([0.5, 30.0, -7.0, 0.0], np.float32)
    out = net.op("Conv", net.input(1, 3, 4, 4), net.constant(weight), net.constant(bias))
    graph, feeds, result = net.quantized(out)
    step = result.table[out].scale[0]
    expected, found = Session(graph).run(feeds[0])[out], Session(result.graph).run(feeds[0])[out]
    np.testing.assert_allclose(found[:, 1:3], expected[:, 1:3], atol=0.51 * step)


def test_shared_weights() -> None:
    net = Net()
    x, weight = net.input(1, 4, 6, 6), net.constant(net.normal(4, 4, 1, 1))
    out = net.op("Conv", net.op("Conv", x, weight), weight)
    graph, feeds, result = net.quantized(out, count=2)
    noise = Session(result.graph).run(feeds[0])[out] - Session(graph).run(feeds[0])[out]
    assert np.abs(noise).max() < 12 * result.table[out].scale[0]


def test_a_small_divisor_does_not_become_zero() -> None:
    net = Net()
    x = net.op("Gemm", net.input(1, 8), net.normal(8, 2))
    out = net.op("Sigmoid", net.op("Div", x, [[0.001, 100.0]]))
    _, feeds, result = net.quantized(out, count=2)
    assert np.isfinite(Session(result.graph).run(feeds[0])[out]).all()


def test_a_layer_normalization_in_parts_stays_in_float() -> None:
    """Against float: rows whose variance is less than a step of the largest are divided by 0."""
    net = Net()
    x = net.input(1, 6, 16)
    away = net.op("Sub", x, net.op("ReduceMean", x, np.array([-1])))
    square = net.op("Pow", away, 2.0)
    variance = net.op("ReduceMean", square, np.array([-1]))
    root = net.op("Sqrt", net.op("Add", variance, 1e-6))
    y = net.op("Mul", net.op("Div", away, root), net.normal(16))
    graph = net.graph(net.op("MatMul", y, net.normal(16, 8)))
    rows = np.geomspace(1e-3, 1, 6, dtype=np.float32)[:, None]
    feeds = [{name: array * rows for name, array in feed.items()} for feed in net.feeds(4)]
    observed = optimise(graph).graph
    result = quantize_net(observed, feeds)
    (wanted,) = Session(graph).run(feeds[0]).values()
    (found,) = Session(result.graph).run(feeds[0]).values()
    last = np.abs(found - wanted)[:, -1].max()  # the first rows are less than a step of the input
    assert np.isfinite(found).all()
    assert last < 0.1 * np.abs(wanted).max()
    between = {"Sub", "Pow", "ReduceMean", "Sqrt", "Div", "GlobalAveragePool"}
    assert not [
        use.node.op_type
        for node in result.graph.nodes
        if node.op_type in between - {"Div"}
        for use in node.outputs[0].uses()
        if use.node.op_type == "QuantizeLinear"
    ]


def test_a_quantized_source_keeps_its_quantization() -> None:
    net, graph = small_cnn()
    source = quantize_net(graph, net.feeds(2)).graph
    seen = calibrate(source, net.feeds(1))
    again = quantize(source, seen)
    assert again.graph.to_bytes() == source.to_bytes()
    assert len(again.table) > 20
    assert [finding.code for finding in again.findings] == ["source-quantization-kept"]


def test_observations_of_another_graph() -> None:
    _, graph = small_cnn()
    with pytest.raises(QuantizationError, match="not watched"):
        quantize(graph, Observations(1, {}))


def test_nothing_to_quantize() -> None:
    net = Net()
    graph = net.graph(net.op("Exp", net.input(1, 8)))
    with pytest.raises(QuantizationError, match="nothing that can be quantized") as caught:
        quantize_net(graph, net.feeds(1))
    assert "--no-quantize" in caught.value.remedy
    assert "8-bit form" in caught.value.cause


def test_weights_that_are_not_finite_are_named() -> None:
    net = Net()
    weights = np.full((4, 2, 3, 3), np.nan, np.float32)
    graph = net.graph(net.op("Conv", net.input(1, 2, 8, 8), net.constant(weights, "odd_w")))
    with pytest.raises(QuantizationError) as caught:
        quantize(graph, Observations(1, {}))
    assert "odd_w" in caught.value.cause
    assert "NaN" in caught.value.cause


@pytest.mark.parametrize(
    ("option", "value"), [("dtype", "w8a9"), ("algorithm", "norm"), ("granularity", "chanel")]
)
def test_unknown_options(option: str, value: str) -> None:
    graph, seen = seen_cnn(1)
    with pytest.raises(QuantizationError, match=value):
        quantize(graph, seen, QuantizeSettings(**{option: value}))


def test_types_are_inferred_where_a_graph_has_none() -> None:
    net, graph = small_cnn()
    proto = graph.to_proto()
    del proto.graph.value_info[:]
    bare = Graph.from_proto(proto)
    seen = calibrate(graph, net.feeds(1))
    assert calibrate(bare, small_cnn()[0].feeds(1)).tensors.keys() == seen.tensors.keys()


def test_a_graph_of_1000_layers() -> None:
    net = Net()
    x = net.input(1, 4)
    for _ in range(1000):
        x = net.op("Add", x, net.normal(1, 4))
    _, _, result = net.quantized(x, count=1)
    assert len(result.table) == 2 * 1000 + 1


def test_a_float16_graph_is_named_as_the_reason() -> None:
    ends = [tensor(name, 1, 4, dtype=onnx.TensorProto.FLOAT16) for name in ("x", "y")]
    made = Graph.from_proto(finish(nodes_of("y = Relu (x)"), ends[:1], ends[1:]))
    seen = calibrate(made, [{"x": np.ones((1, 4), np.float16)}])
    with pytest.raises(QuantizationError) as caught:
        quantize(made, seen)
    assert "float16" in caught.value.cause
