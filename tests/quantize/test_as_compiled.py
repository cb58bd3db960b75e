"""Quantized graphs as the vendor's compiler and the chip carry them out."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.graph.execute import (
    FINEST_SIGMOID,
    Session,
    as_compiled,
    coarse_sigmoids,
    fused_roundings,
    lower_for_runtime,
    rounded_operands,
    table_roundings,
)
from engine.graph.execute.means import LARGEST_WINDOW, means_in_stages, quantized_means
from engine.graph.ir import Graph, QuantParams, constant_of, params_of
from engine.pipeline.runner import Runnable
from engine.quantize import lower_for_vendor
from tests.graph.models import as_it_stands
from tests.quantize.models import Net, quantize_net


def parameters(graph: Graph, name: str) -> QuantParams:
    """Of a tensor that a DequantizeLinear writes."""
    producer = graph.values[name].producer()
    found = None if producer is None else params_of(producer)
    assert found is not None
    return found


def activated(net: Net, kind: str) -> str:
    """A convolution and what is behind it."""
    x = net.input(1, 4, 6, 6)
    if kind == "add":
        return str(net.op("Add", net.conv(x, 4, 4), net.conv(x, 4, 4)))
    if kind == "swish":
        y = net.conv(x, 4, 4)
        return str(net.op("Mul", y, net.op("Sigmoid", y)))
    y = net.conv(x, 4, 4, group=4 if "depthwise" in kind else 1)
    if "hard" in kind:
        return str(net.op("HardSwish" if "swish" in kind else "HardSigmoid", y))
    if kind == "prelu":
        return str(net.op("PRelu", y, net.normal(4, 1, 1)))
    return str(net.op("Relu" if kind == "relu" else "LeakyRelu", y))


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("leaky", 1),
        ("prelu", 1),
        ("add", 1),
        ("swish", 2),
        ("depthwise", 0),
        ("relu", 0),
        ("hardswish", 1),
        ("hardsigmoid", 0),
    ],
)
def test_what_is_not_rounded(kind: str, count: int) -> None:
    net = Net()
    out = activated(net, kind)
    graph, feeds, done = net.quantized(net.conv(out, 4, 4))
    given = done.graph
    assert len(fused_roundings(given)) == count
    compiled = as_compiled(given)
    pairs = [sum(n.op_type == "QuantizeLinear" for n in each.nodes) for each in (given, compiled)]
    assert pairs[0] - pairs[1] == count
    assert (compiled is given) == (count == 0)
    exact, one, other = (Session(each).run(feeds[0]) for each in (graph, given, compiled))
    (name,) = exact
    assert np.abs(other[name] - one[name]).max() <= 8 * parameters(given, name).scale[0]
    assert exact[name].shape == other[name].shape
    assert as_compiled(compiled) is compiled


def test_a_runnable_graph_has_the_numbers_of_the_compiled_one() -> None:
    net = Net()
    graph, feeds, done = net.quantized(net.conv(activated(net, "add"), 4, 4), count=2)
    given = done.graph
    plain = Runnable("key", "model", quantized=True, graph=given, session=Session(given))
    (wanted,) = Session(as_compiled(given)).run(feeds[0]).values()
    (found,) = plain.in_form("integer", compiled=True).run(feeds[0]).values()
    np.testing.assert_array_equal(found, wanted)
    exact = Runnable("key", "model", quantized=False, graph=graph, session=Session(graph))
    assert exact.in_form("integer", compiled=True) is exact


@pytest.mark.parametrize("compiled", [False, True])
def test_a_runnable_graph_has_the_numbers_of_the_vendors_simulator(compiled: bool) -> None:
    """The file that is handed over, in ONNX Runtime as it stands: what its simulator computes."""
    net = Net()
    feeds, given = net.given(net.conv(activated(net, "leaky"), 4, 4))
    plain = Runnable("key", "model", quantized=True, graph=given, session=Session(given))
    runnable = plain.in_form("reference", compiled=compiled)
    file = lower_for_vendor(as_compiled(given) if compiled else given)
    for feed in feeds:
        (wanted,) = as_it_stands(file, feed)
        (found,) = runnable.run(feed).values()
        np.testing.assert_array_equal(found, wanted)


def test_of_two_sums_the_one_on_the_first_branch_is_not_rounded() -> None:
    """The order is along a branch to its end, not that of the file."""
    net = Net()
    x = net.input(1, 4, 6, 6)
    first = net.conv(x, 4, 4)
    other = net.conv(x, 4, 4)
    deep = net.conv(net.op("Relu", first), 4, 4)
    graph = net.graph(net.conv(net.op("Add", other, deep), 4, 4))
    (found,) = fused_roundings(quantize_net(graph, net.feeds(3)).graph)
    assert found.name == f"{deep}/QuantizeLinear"


def test_a_tensor_that_is_an_output_is_rounded_for_who_looks_at_it_alone() -> None:
    net = Net()
    x = net.input(1, 4, 6, 6)
    y = net.conv(x, 4, 4)
    _, given = net.given(net.op("LeakyRelu", y), y)
    assert not fused_roundings(given)  # it is stored: the compiler has to round it


@pytest.mark.parametrize("sides", [(9, 9), (25, 5), (29, 11), (56, 56), (13, 130)])
def test_a_mean_over_a_large_window_in_stages(sides: tuple[int, int]) -> None:
    net = Net()
    net.input(1, 3, *sides)
    feeds, given = net.given(
        net.op("GlobalAveragePool", net.op("Relu", net.conv("input0", 3, 3))), count=2
    )
    staged = means_in_stages(given)
    assert {node.name for node in given.nodes} < {node.name for node in staged.nodes}
    (mean,) = quantized_means(staged)
    assert mean.inputs[0] is not None
    assert mean.inputs[0].shape is not None
    assert max(mean.inputs[0].shape.numpy()[2:]) <= LARGEST_WINDOW
    for node in staged.nodes:
        if "/blocks" in (node.name or "") and node.op_type == "Conv":
            assert max(node.attributes.get_ints("strides")) <= LARGEST_WINDOW - 1
    # the mean of means is the mean, up to the rounding of the blocks, which averages out
    (name,) = (value.name for value in given.outputs)
    source = quantized_means(given)[0].inputs[0]
    assert source is not None
    steps = parameters(given, name).scale[0] + parameters(given, source.name or "").scale[0]
    for feed in feeds:
        whole = Session(given, lower=False).run(feed)[name]
        found = Session(given).run(feed)[name]
        np.testing.assert_allclose(found, whole, atol=steps)
        file = Session(Graph.from_proto(lower_for_vendor(given))).run(feed)[name]
        np.testing.assert_array_equal(file, found)
    kinds = {node.op_type for node in lower_for_vendor(given).graph.node}
    assert "GlobalAveragePool" not in kinds


@pytest.mark.parametrize("pads", [0, 1])
def test_an_average_pool_is_a_convolution_in_the_file(pads: int) -> None:
    net = Net()
    x = net.conv(net.input(1, 3, 8, 8), 3, 3)
    pooled = net.op(
        "AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[pads] * 4, count_include_pad=1
    )
    feeds, given = net.given(pooled)
    model = lower_for_vendor(given)
    assert [n.op_type for n in model.graph.node if n.name == "AveragePool_2"] == ["Conv"]
    (name,) = (spec.name for spec in given.outputs)
    for feed in feeds:
        file = Session(Graph.from_proto(model)).run(feed)[name]
        step = parameters(given, name).scale[0]
        np.testing.assert_allclose(file, Session(given).run(feed)[name], atol=1.01 * step)


@pytest.mark.parametrize(
    "attributes",
    [{"pads": [1] * 4}, {"ceil_mode": 1, "strides": [2, 2]}, {"kernel_shape": [9, 9]}],
)
def test_windows_that_count_otherwise_stay(attributes: dict[str, object]) -> None:
    net = Net()
    x = net.conv(net.input(1, 3, 12, 12), 3, 3)
    graph = net.graph(net.op("AveragePool", x, **{"kernel_shape": [2, 2], **attributes}))
    model = lower_for_vendor(quantize_net(graph, net.feeds(2)).graph)
    assert "AveragePool" in {node.op_type for node in model.graph.node}


def test_outputs_that_are_read_inside_have_their_own_dequantization() -> None:
    net = Net()
    y = net.conv(net.input(1, 4, 6, 6), 4, 4)
    feeds, given = net.given(net.op("LeakyRelu", net.conv(y, 4, 4)), y)
    model = lower_for_vendor(given)
    read = {name for node in model.graph.node for name in node.input}
    outputs = {value.name for value in model.graph.output}
    assert not outputs & read
    file, ours = Session(Graph.from_proto(model)), Session(given)
    for name in outputs:
        np.testing.assert_array_equal(file.run(feeds[0])[name], ours.run(feeds[0])[name])


def test_a_mean_over_a_small_window_stays() -> None:
    net = Net()
    net.input(1, 3, 8, 8)
    _, given = net.given(net.op("GlobalAveragePool", net.conv("input0", 3, 3)), count=2)
    assert means_in_stages(given) is given
    assert len(list(lower_for_runtime(given).nodes)) == len(list(given.nodes))


@pytest.mark.parametrize(("level", "kind"), [(2, "GlobalAveragePool"), (3, "ReduceMean")])
def test_a_mean_stays_one_where_the_file_is_for_several_shapes(level: int, kind: str) -> None:
    net = Net()
    net.input(1, 3, 12, 10)
    feeds, given = net.given(
        net.op("GlobalAveragePool", net.conv("input0", 3, 3, kernel=1)), count=2
    )
    model = lower_for_vendor(given, every_shape=True, level=level)
    assert [n.op_type for n in model.graph.node if n.op_type != "Conv"][-3] == kind
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 1
    whole = Session(given, level="disabled", lower=False)
    # the file takes another size as it stands, and gives that size's mean
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 6
    del model.graph.value_info[:]
    smaller = Session(Graph.from_proto(model), level="disabled", lower=False)
    (name,) = (spec.name for spec in given.outputs)
    scale = parameters(given, name).scale[0]
    for feed in feeds:
        half = feed["input0"][:, :, :6]
        twice = np.concatenate([half, half], axis=2)
        found = smaller.run({"input0": half})[name]
        assert found.shape == (1, 3, 1, 1)
        # the same picture twice has the same mean
        assert np.abs(found - whole.run({"input0": twice})[name]).max() <= 1.01 * scale


@pytest.mark.parametrize(("alpha", "beta"), [(1 / 6, 0.5), (0.2, 0.5), (0.3, 0.25)])
def test_a_hard_sigmoid_is_a_convolution_in_the_file(alpha: float, beta: float) -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 6, 6), 4, 4)
    feeds, given = net.given(net.op("HardSigmoid", x, alpha=alpha, beta=beta), scale=3.0)
    model = lower_for_vendor(given)
    assert "HardSigmoid" not in {node.op_type for node in model.graph.node}
    (name,) = (spec.name for spec in given.outputs)
    scale = parameters(given, name).scale[0]
    for feed in feeds:
        wanted = Session(given, level="disabled", lower=False).run(feed)[name]
        found = Session(Graph.from_proto(model), level="disabled", lower=False).run(feed)[name]
        assert wanted.min() == 0.0
        away = np.abs(np.rint((found - wanted) / scale))
        # a bias of whole steps: a value on the edge (0 is 127.5 steps) may go the other way
        assert away.max() <= 1
        assert np.mean(away > 0) < 0.05


def test_a_hard_sigmoid_that_gates_its_own_input_stays_for_it_is_a_hard_swish() -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 6, 6), 4, 4)
    graph = net.graph(net.op("Mul", x, net.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)))
    model = lower_for_vendor(quantize_net(graph, net.feeds(3)).graph)
    assert "HardSigmoid" in {node.op_type for node in model.graph.node}


def test_the_second_operand_of_a_product_of_two_tensors_is_made_symmetric() -> None:
    """Against numpy: the operand's integers in steps of the farther end of its range over 127."""
    net = Net()
    x = net.input(1, 4, 6, 6)
    one, two = net.conv(x, 4, 4), net.op("Relu", net.conv(x, 4, 4))
    feeds, given = net.given(net.op("MatMul", one, two))
    (product,) = rounded_operands(given)
    left, right = (value.name or "" for value in product.inputs if value is not None)
    compiled = as_compiled(given)
    feed = feeds[0]
    (name,) = (spec.name for spec in given.outputs)
    plain = Session(given, level="disabled", lower=False)
    a, b = (plain.run(feed, [each])[each].astype(np.float64) for each in (left, right))
    params = parameters(given, right)
    (scale,), (zero,) = params.scale, params.zero_point
    step = np.float32(max(127 - zero, 128 + zero) * scale / 127)
    rounded = np.clip(np.rint((b / step).astype(np.float32)), -128, 127) * step
    assert np.abs(rounded - b).max() > 0.2 * step
    out = parameters(given, name)
    wanted = np.clip(np.rint(a @ rounded / out.scale[0]) + out.zero_point[0], -128, 127)
    found = Session(compiled, level="disabled", lower=False).run(feed)[name]
    integers = np.rint(found / out.scale[0]) + out.zero_point[0]
    assert np.mean(integers != wanted) < 0.02
    assert np.abs(integers - wanted).max() <= 1
    before = np.rint(plain.run(feed)[name] / out.scale[0]) + out.zero_point[0]
    assert np.mean(before != wanted) > 0.05
    # a product with a constant is a convolution: nothing more is rounded
    net = Net()
    dense = net.graph(net.op("MatMul", net.input(2, 8), net.normal(8, 4)))
    assert rounded_operands(quantize_net(dense, net.feeds(2)).graph) == []


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("pooled", [False, True])
def test_a_sigmoid_has_no_finer_steps_than_the_compiler(moved: bool, pooled: bool) -> None:
    net = Net()
    x = net.input(1, 4, 6, 6)
    before = net.op("Conv", x, net.normal(3, 4, 1, 1, scale=0.3), [-8.0] * 3)
    if pooled:
        before = net.op("MaxPool", before, kernel_shape=[1, 1])
    y = net.op("Sigmoid", before)
    if moved:
        y = net.op("Reshape", y, np.array([1, 108]))
    feeds, given = net.given(y)
    assert [node.op_type for node in coarse_sigmoids(given)] == ["Sigmoid"]
    fine, coarse = (Session(each).run(feeds[0])[y] for each in (given, as_compiled(given)))
    assert fine.max() > 0
    steps = coarse / np.float32(FINEST_SIGMOID)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-5)
    np.testing.assert_allclose(coarse, fine, atol=FINEST_SIGMOID)


def test_a_sigmoid_of_large_results_keeps_its_scale() -> None:
    net = Net()
    y = net.op("Sigmoid", net.conv(net.input(1, 4, 6, 6), 4, 3))
    _, given = net.given(y)
    assert coarse_sigmoids(given) == []


def attention(net: Net, *, linear: bool) -> Graph:
    """Queries with a factor, their product with the rest, and a linear layer behind it or none."""
    x = net.input(4, 8, 16)
    queries = net.op("Add", net.op("MatMul", x, net.normal(16, 16)), net.normal(16))
    scaled = net.op("Mul", queries, np.array(0.125, np.float32))
    weights = net.op(
        "Softmax", net.op("MatMul", scaled, net.op("Transpose", x, perm=[0, 2, 1])), axis=-1
    )
    out = net.op("Transpose", net.op("MatMul", weights, x), perm=[1, 0, 2])
    if linear:
        out = net.op("MatMul", out, net.normal(16, 16))
    return net.graph(out)


@pytest.mark.parametrize("linear", [True, False])
def test_a_product_before_a_linear_layer_is_turned_and_a_factor_goes_into_weights(
    linear: bool,
) -> None:
    net = Net()
    given = quantize_net(attention(net, linear=linear), net.feeds(3)).graph
    compiled = as_compiled(given)
    products = [node for node in compiled.nodes if node.op_type == "MatMul"]
    sides = [
        [
            "/symmetric" in (value.name or "")
            for value in compiled.node(node.name or "").inputs
            if value
        ]
        for node in rounded_operands(given)
    ]
    assert sides == [[False, True], [True, False] if linear else [False, True]]
    # weights between the ends of each column, in 255 steps; the build has 254 around 0
    changed = values_of(products[0].inputs[1])
    plain = values_of(given.node(products[0].name or "").inputs[1])
    step = (plain.max(axis=0) - plain.min(axis=0)) / 255
    assert not np.array_equal(changed, plain)
    assert np.all(np.abs(changed - plain) <= 0.501 * step)
    assert np.abs(changed / step - np.rint(changed / step)).max() < 1e-3
    # the bias is in steps of the sum with the new weights
    (add,) = (use.node for use in products[0].outputs[0].uses())
    bias = values_of(next(value for value in add.inputs if value and value.const_value))
    whole = bias / (parameters(given, products[0].inputs[0].name).scale[0] * step)
    assert np.abs(whole - np.rint(whole)).max() < 0.01


def values_of(value: ir.Value | None) -> np.ndarray:
    """Of a constant, dequantized or not."""
    assert value is not None
    node = value.producer()
    if node is None:
        assert value.const_value is not None
        return value.const_value.numpy()
    scale, stored = (constant_of(node.inputs[at]) for at in (1, 0))
    assert scale is not None
    assert stored is not None
    return stored.numpy().astype(np.float32) * scale.numpy()


TABLES = {
    "HardSwish": (-3.0, np.inf, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Sigmoid": (-7.0, 7.0, lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": (-3.2, 3.2, np.tanh),
}


@pytest.mark.parametrize("writer", ["depthwise", "transposed", "product"])
@pytest.mark.parametrize("op", list(TABLES))
def test_an_activation_that_no_convolution_hands_its_sum_to_is_a_table(
    op: str, writer: str
) -> None:
    """Against numpy: its input is rounded in 255 steps of a narrower range."""
    net = Net()
    x = net.input(1, 4, 6, 6)
    if writer == "transposed":
        y = net.op("ConvTranspose", x, net.normal(4, 4, 2, 2), strides=[2, 2])
    elif writer == "product":
        y = net.op("Mul", net.op("LeakyRelu", x), net.input(1, 4, 6, 6))
    else:
        y = net.conv(x, 4, 4, group=4)
    feeds, given = net.given(net.conv(net.op(op, y), 4, 4), scale=4.0)
    (rounding,) = table_roundings(given)
    assert fused_roundings(given) == []
    before = params_of(rounding)
    assert before is not None
    compiled = as_compiled(given)
    assert [node.op_type for node in compiled.nodes] == [node.op_type for node in given.nodes]
    (node,) = (node for node in given.nodes if node.op_type == op)
    (after,) = (use.node for use in node.outputs[0].uses())
    (read,) = (use.node for use in after.outputs[0].uses())
    name = read.outputs[0].name or ""
    source = rounding.inputs[0].name if rounding.inputs[0] else ""
    (total,) = as_it_stands(given.to_proto(), feeds[0], source or "")
    begin, end, function = TABLES[op]
    low, high = ((side - before.zero_point[0]) * before.scale[0] for side in (-128, 127))
    begin, end = max(low, begin), min(high, end)
    step = (end - begin) / 255
    zero = np.rint(-128 - begin / step)
    wanted = function((np.clip(np.rint(total / step) + zero, -128, 127) - zero) * step)
    out = params_of(after)
    assert out is not None
    scale = 1 / 255 if op == "Sigmoid" and out.scale[0] * 255 > 0.999 else out.scale[0]
    integers = np.clip(np.rint(wanted / scale) + out.zero_point[0], -128, 127)
    (found,), (old,) = (as_it_stands(each.to_proto(), feeds[0], name) for each in (compiled, given))
    integers = (integers - out.zero_point[0]) * np.float32(scale)
    exact = np.abs(wanted / scale % 1 - 0.5) > 1e-3  # 0.5 is half-way between two of 255 steps
    assert np.mean(exact) > 0.5
    assert np.mean(np.abs(found - integers)[exact] > 1e-4) < 4e-3  # float32 in another order
    assert np.mean(np.abs(old - integers)[exact] > 1e-4) > 0.02
    assert as_compiled(compiled) is compiled


@pytest.mark.parametrize("op", ["MaxPool", "Transpose", "Resize"])
def test_an_activation_of_what_is_only_moved_keeps_the_range_of_its_input(op: str) -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 6, 6), 4, 4)
    if op == "MaxPool":
        y = net.op(op, x, kernel_shape=[2, 2])
    elif op == "Transpose":
        y = net.op(op, x, perm=[0, 2, 3, 1])
    else:
        y = net.op(op, x, "", np.array([1, 1, 2, 2], np.float32), mode="nearest")
    _, given = net.given(net.op("Tanh", y), scale=4.0)
    assert table_roundings(given) == []


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "LeakyRelu", "HardSwish"])
def test_a_convolution_of_groups_hands_its_sum_to_an_activation(op: str) -> None:
    net = Net()
    y = net.op(op, net.conv(net.input(1, 4, 6, 6), 4, 4, group=2))
    _, given = net.given(net.conv(y, 4, 4), scale=4.0)
    assert len(fused_roundings(given)) == 1
    assert table_roundings(given) == []


@pytest.mark.parametrize(("gain", "fewer"), [(0.6, True), (0.2, False)])
def test_a_sigmoid_that_nearly_reaches_1_has_the_range_up_to_1(gain: float, fewer: bool) -> None:
    net = Net()
    x = net.input(1, 4, 6, 6)
    y = net.op("Sigmoid", net.op("Conv", x, net.normal(4, 4, 1, 1, scale=gain)))
    _, given = net.given(y, scale=4.0)
    scale = parameters(given, y).scale[0]
    assert (0.999 <= scale * 255 < 1) == fewer
    wanted = np.float32(1 / 255) if fewer else np.float32(scale)
    assert parameters(as_compiled(given), y).scale[0] == wanted


def test_such_tables_are_nearer_to_float_than_the_steps_of_the_file() -> None:
    net = Net()
    last = net.conv(net.input(1, 3, 24, 24), 3, 16)
    for _ in range(3):
        last = net.conv(net.op("HardSwish", net.conv(last, 16, 16, group=16)), 16, 16, 1)
    graph, feeds, done = net.quantized(last, count=8)
    given = done.graph
    compiled = as_compiled(given)
    assert compiled is not given

    def loss(one: Graph) -> float:
        found, true = Session(one, reference=True), Session(graph)
        return sum(float(((found.run(x)[last] - true.run(x)[last]) ** 2).sum()) for x in feeds)

    assert loss(compiled) < loss(given)
