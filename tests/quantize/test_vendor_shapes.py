"""Shapes that the vendor's toolkit does not take as they are: the file has another, equal form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from engine.graph.execute import Session, as_compiled, fused_roundings
from engine.graph.execute.float16_layers import gelus, half_precision
from engine.graph.ir import Graph
from engine.quantize import (
    lower_for_vendor,
    narrow_scales,
    plan,
    span_of,
    wide_layers,
)
from tests.graph.models import as_it_stands
from tests.quantize.models import Net, assert_same_numbers, quantize_net


@pytest.mark.parametrize(
    ("sizes", "kernel", "stride", "pads"),
    [
        ((128,), (16,), 8, None),
        ((128,), (9,), 8, None),
        ((130,), (15,), 8, None),
        ((128,), (16,), 8, [4, 4]),
        ((61,), (11,), 11, [3, 0]),
        ((64, 64), (16, 16), 16, None),
        ((72, 58), (14, 14), 14, None),
        ((36, 36), (9, 9), 9, None),
        ((33, 40), (5, 3), 8, [2, 1, 2, 1]),
        ((40, 40), (10, 8), 13, [0, 3, 1, 0]),
    ],
)
def test_large_strides_become_channels(
    sizes: tuple[int, ...], kernel: tuple[int, ...], stride: int, pads: list[int] | None
) -> None:
    net = Net()
    x = net.input(1, 3, *sizes)
    more: dict[str, Any] = {} if pads is None else {"pads": pads}
    weight, bias = net.constant(net.normal(8, 3, *kernel)), net.constant(net.normal(8))
    y = net.op("Conv", x, weight, bias, strides=[stride] * len(kernel), **more)
    feeds, given = net.given(net.op("Relu", y), count=2)
    model = lower_for_vendor(given)
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    for node in convolutions:
        strides = next(each.ints for each in node.attribute if each.name == "strides")
        assert max(strides) <= 7
    assert_same_numbers(model, given, feeds)


@pytest.mark.parametrize(
    ("columns", "pads", "strides"), [(3, [0, 1, 0, 1], [1, 1]), (20, None, [5, 2])]
)
def test_all_rows_become_channels(columns: int, pads: list[int] | None, strides: list[int]) -> None:
    net = Net()
    x = net.input(1, 3, 17, 20)
    more: dict[str, Any] = {} if pads is None else {"pads": pads}
    weight, bias = net.constant(net.normal(8, 3, 17, columns)), net.constant(net.normal(8))
    y = net.op("Conv", x, weight, bias, strides=strides, **more)
    feeds, given = net.given(net.op("Relu", y), count=2)
    model = lower_for_vendor(given)
    (node,) = (node for node in model.graph.node if node.op_type == "Conv")
    kernel = next(each.ints for each in node.attribute if each.name == "kernel_shape")
    assert list(kernel) == [1, columns]
    assert_same_numbers(model, given, feeds)


def test_small_and_grouped_strides_stay() -> None:
    net = Net()
    x = net.input(1, 4, 64)
    small = net.op("Conv", x, net.normal(4, 4, 9), strides=[7])
    grouped = net.op("Conv", x, net.normal(4, 1, 9), strides=[8], group=4)
    _, given = net.given(small, grouped, count=2)
    model = lower_for_vendor(given)
    assert {node.op_type for node in model.graph.node} == {
        "QuantizeLinear",
        "DequantizeLinear",
        "Conv",
    }


@pytest.mark.parametrize("way", ["half_pixel", "align_corners", "asymmetric"])
def test_a_linear_resize_keeps_the_scale_of_its_input(way: str) -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 8, 8), 3, 4))
    sizes = net.constant([1.0, 1.0, 2.0, 2.0])
    large = net.op("Resize", x, "", sizes, mode="linear", coordinate_transformation_mode=way)
    graph = net.graph(net.conv(large, 4, 4), net.conv(x, 4, 4))
    assert plan(graph).sources[large] == x
    feeds = net.feeds(3)
    done = quantize_net(graph, feeds)
    assert done.table[large].scale == done.table[x].scale
    model = lower_for_vendor(done.graph)
    kinds = [node.op_type for node in model.graph.node]
    assert "Max" not in kinds  # what guards against ONNX Runtime's kernel would be a CPU layer
    for feed in feeds:
        ours = list(Session(done.graph).run(feed).values())
        for found, wanted in zip(ours, as_it_stands(model, feed), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "cubic"},
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
    ],
)
def test_a_resize_that_may_leave_the_range_has_its_own_scale(attributes: dict[str, Any]) -> None:
    net = Net()
    x = net.conv(net.input(1, 3, 8, 8), 3, 4)
    roi = net.constant([0.0] * 4 + [1.0] * 4)
    sizes = net.constant([1.0, 1.0, 2.0, 2.0])
    large = net.op("Resize", x, roi, sizes, **attributes)
    assert large not in plan(net.graph(net.conv(large, 4, 4))).sources


def product(*bias: int) -> tuple[Net, Graph]:
    """A product of matrices of three axes and what is added to it."""
    net = Net()
    x = net.input(1, 6, 5)
    y = net.op("MatMul", x, net.normal(5, 8))
    return net, net.graph(net.op("Add", y, net.normal(*bias)))


def biases(model: onnx.ModelProto) -> list[int | None]:
    """The axis of the scales with which the Add reads its constant."""
    (add,) = (node for node in model.graph.node if node.op_type == "Add")
    stored = {each.name for each in model.graph.initializer}
    return [
        next((each.i for each in node.attribute if each.name == "axis"), None)
        for node in model.graph.node
        if node.output[0] in add.input and node.input[0] in stored
    ]


@pytest.mark.parametrize("shape", [(8,), (1, 8), (1, 1, 8)])
def test_a_bias_behind_a_product_has_a_scale_for_each_number(shape: tuple[int, ...]) -> None:
    net, graph = product(*shape)
    feeds = net.feeds(3)
    given = quantize_net(graph, feeds).graph
    model = lower_for_vendor(given)
    assert biases(model) == [len(shape) - 1]
    assert biases(lower_for_vendor(given, level=2)) == [None]
    assert_same_numbers(model, given, feeds)
    # what it hands to the sum is not rounded as compiled
    rounded = [node for node in given.nodes if node.op_type == "QuantizeLinear"]
    fused = [node for node in as_compiled(given).nodes if node.op_type == "QuantizeLinear"]
    assert len(fused) == len(rounded) - 1


def test_one_number_for_all_is_no_bias() -> None:
    net, graph = product(1)
    given = quantize_net(graph, net.feeds(2)).graph
    assert biases(lower_for_vendor(given)) == [None]
    assert as_compiled(given) is given


def test_readers_in_float_have_a_dequantization_of_their_own() -> None:
    net = Net()
    x = net.conv(net.input(1, 3, 6, 6), 3, 4)
    squared = net.op("Mul", x, x)
    root = net.op("Sqrt", net.op("ReduceMean", squared, np.array([1]), keepdims=1))
    feeds, given = net.given(net.conv(x, 4, 4), root)
    model = lower_for_vendor(given)
    (mul,) = (node for node in model.graph.node if node.op_type == "Mul")
    assert mul.input[0] == mul.input[1]
    others = {name for node in model.graph.node if node is not mul for name in node.input}
    assert mul.input[0] not in others
    assert_same_numbers(model, given, feeds)


@pytest.mark.parametrize("read", [False, True])
def test_states_that_are_outputs_stand_behind_a_reshape(read: bool) -> None:
    net = Net()
    x = net.input(4, 1, 12)
    weights = [net.constant(net.normal(1, 64, size)) for size in (12, 16)]
    names = ["s", "hn", "cn"]
    net.nodes.append(onnx.helper.make_node("LSTM", [x, *weights], names, "lstm", hidden_size=16))
    last = net.op("Sigmoid", "hn" if read else "s")
    graph = net.graph(last, "hn", "cn")
    (feed,) = net.feeds(1)
    given = quantize_net(graph, [feed]).graph
    model = lower_for_vendor(given)
    writers = {name: node.op_type for node in model.graph.node for name in node.output}
    assert [value.name for value in model.graph.output] == [last, "hn", "cn"]
    assert [writers[name] for name in ("hn", "cn")] == ["Reshape", "Reshape"]
    assert_same_numbers(model, given, [feed])


@pytest.mark.parametrize(
    ("below", "axes", "written"),
    [(True, False, "Conv"), (False, False, "Pad"), (True, True, "Pad")],
)
def test_zeros_around_a_pool_are_pads_of_a_convolution(
    below: bool, axes: bool, written: str
) -> None:
    """The toolkit takes them for less than any value, which changes nothing behind a Relu only."""
    net = Net()
    x = net.input(1, 3, 16, 16)
    y = net.op("Conv", x, net.normal(8, 3, 3, 3), pads=[1] * 4)
    if not below:
        y = net.op("Relu", y)
    sides = net.constant(np.array([1, 2, 1, 0] if axes else [0, 0, 1, 2, 0, 0, 1, 0]))
    named = [net.constant(np.array([2, 3]))] if axes else []
    padded = net.op("Pad", y, sides, np.array(0, np.float32), *named)
    pooled = net.op("MaxPool", padded, kernel_shape=[3, 3], strides=[2, 2])
    feeds, given = net.given(net.op("Conv", pooled, net.normal(4, 8, 1, 1)), count=2)
    model = lower_for_vendor(given)
    before = [node for node in model.graph.node if node.op_type in ("Pad", "Conv")][1]
    assert before.op_type == written
    assert_same_numbers(model, given, feeds)


def test_scales_are_no_farther_apart_than_a_chip_has_them() -> None:
    net = Net()
    weight = net.normal(4, 3, 3, 3)
    weight /= np.abs(weight).max((1, 2, 3), keepdims=True)
    weight *= np.float32([1024, 2, 0.25, 1 / 64])[:, None, None, None]
    x = net.input(1, 3, 8, 8)
    y = net.op("Conv", x, net.constant(weight), net.normal(4))
    graph = net.graph(net.op("Clip", y, np.float32(-4), np.float32(4)))
    feed = net.feeds(1)[0]
    given = quantize_net(graph, [feed]).graph
    assert narrow_scales(given, 1 << 20) is given
    assert list(wide_layers(given, 1 << 10).values()) == [2]
    narrow = narrow_scales(given, 1 << 10)
    assert wide_layers(narrow, 1 << 10) == {}
    assert len([*narrow.nodes]) == len([*given.nodes])  # nothing of the old constants is left
    exact = Session(graph).run(feed)
    (before,), (after,) = (
        [out.astype(np.float64) for out in Session(each).run(feed).values()]
        for each in (given, narrow)
    )
    (wanted,) = exact.values()
    # channels within the span keep their integers; the others are at most half a coarse step off
    np.testing.assert_array_equal(before[:, :2], after[:, :2])
    coarse = np.abs(weight[0]).max() / 127 / 1024
    reach = 27 * max(np.abs(each).max() for each in feed.values()) * coarse / 2 + 2 * 8 / 255
    assert np.abs(after[:, 2:] - wanted[:, 2:]).max() <= reach
    assert (before[:, 2:] != after[:, 2:]).any()


def test_which_chip_has_how_much() -> None:
    assert {span_of(chip) for chip in ("rk3566", "rk3568")} == {1024}
    assert {span_of(chip) for chip in ("rk3562", "rk3576", "rk3588", "rv1106")} == {16384}


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("op", ["Sqrt", "Div", "Add"])
def test_a_float16_layer_alone_between_integers_has_a_tensor_without_parameters(
    op: str, half: bool
) -> None:
    net = Net()
    x = net.op("Relu", net.conv(net.input(1, 3, 6, 6), 3, 4))
    made = net.op(op, *([x] if op == "Sqrt" else [x, net.op("Sigmoid", x)]))
    graph = net.graph(net.conv(made, 4, 4))
    feeds = net.feeds(3)
    layers = {made: "float16"} if half else {}
    given = quantize_net(graph, feeds, layers=layers).graph
    model = lower_for_vendor(given)
    added = [node for node in model.graph.node if node.op_type == "LeakyRelu"]
    assert len(added) == half
    assert_same_numbers(model, given, feeds)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_a_gelu_is_written_in_parts_that_are_one_layer_of_8_bits(approximate: str) -> None:
    net = Net()
    x = net.input(1, 4, 6, 6)
    inner = net.op("Conv", x, net.normal(8, 4, 1, 1), net.normal(8))
    feeds, given = net.given(net.op("Gelu", inner, approximate=approximate), count=2)
    model = lower_for_vendor(given)
    kinds = [node.op_type for node in model.graph.node]
    assert "Gelu" not in kinds
    assert kinds.count("Erf") == 1
    file = Graph(ir.from_proto(model))
    ((end, parts),) = gelus(file).items()
    assert sorted(part.op_type for part in parts) == ["Add", "Div", "Erf", "Mul", "Mul"]
    assert not parts & set(half_precision(file))
    # as compiled the sum of the convolution is handed over: nothing rounds it
    assert [node.outputs[0] for node in fused_roundings(file)] == [end.inputs[0]]
    for feed in feeds:
        (found,), (wanted,) = as_it_stands(model, feed), as_it_stands(given.to_proto(), feed)
        if approximate == "none":
            np.testing.assert_array_equal(found, wanted)
        else:  # the compiler computes it by erf: a step here and there
            steps = np.abs(found - wanted) / np.diff(np.unique(wanted)).min()
            assert steps.max() <= 1.01
            assert np.mean(steps > 0) < 0.1
