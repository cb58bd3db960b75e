"""Sessions that are given their large constants beside the message."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from engine.graph.execute import Session
from engine.graph.execute.session import open_model
from engine.graph.execute.shared_weights import constants_apart, message_and_weights
from engine.graph.ir import Graph
from tests.quantize.models import Net


def net() -> Graph:
    """A convolution, a product of matrices and a table; the weights have 4.5 KiB to 1 MiB."""
    draw = np.random.default_rng(3)
    made = Net()
    x = made.input(1, 8, 16, 16)
    y = made.op("Conv", x, made.constant(draw.normal(size=(16, 8, 3, 3)).astype(np.float32)))
    flat = made.op("Flatten", y)
    z = made.op("MatMul", flat, made.constant(draw.normal(size=(3136, 80)).astype(np.float32)))
    rows = made.constant(draw.integers(0, 80, 2000))
    return made.graph(made.op("Gather", z, rows, axis=1))


def test_the_message_holds_small_constants_alone() -> None:
    graph = net()
    proto, apart = constants_apart(graph)
    names = {name for name, value in graph.model.graph.initializers.items()}
    assert len(apart) == 3
    assert {each.name for each in proto.graph.initializer} == names - apart.keys()
    assert [each.name for each in proto.graph.input] == [spec.name for spec in graph.inputs]
    assert proto.ByteSize() < 4000
    data, weights = message_and_weights(graph)
    assert len(data) < 5000
    assert weights.keys() == apart.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(array, graph.value(name).const_value.numpy())


@pytest.mark.parametrize("level", ["disabled", "basic", "extended", "all"])
def test_the_numbers_are_those_of_the_whole_message(level: str) -> None:
    graph = net()
    feed = {
        spec.name: np.linspace(-2, 2, 2048, dtype=np.float32).reshape(1, 8, 16, 16)
        for spec in graph.inputs
    }
    whole = open_model(graph.to_bytes(), level=level).run(None, feed)
    found = Session(graph, level=level).run(feed)
    np.testing.assert_array_equal(next(iter(found.values())), whole[0])


def test_what_numpy_has_no_type_for_stays_in_the_message() -> None:
    made = Net()
    x = made.input(1, 6000)
    graph = made.graph(made.op("Add", x, made.constant(np.ones((1, 6000), np.float32))))
    proto = graph.to_proto()
    (one,) = [each for each in proto.graph.initializer if list(each.dims) == [1, 6000]]
    halves = onnx.helper.make_tensor(
        "halves", onnx.TensorProto.BFLOAT16, [1, 6000], np.ones(6000, np.float32)
    )
    proto.graph.initializer.append(halves)
    proto.graph.node.insert(
        0, onnx.helper.make_node("Cast", ["halves"], ["wide"], to=onnx.TensorProto.FLOAT)
    )
    (add,) = [node for node in proto.graph.node if node.op_type == "Add"]
    add.input[1] = "wide"
    proto.graph.initializer.remove(one)
    message, apart = constants_apart(Graph.from_proto(proto))
    assert not apart
    assert [each.name for each in message.graph.initializer] == ["halves"]


def test_a_constant_that_nothing_reads_is_left_out() -> None:
    made = Net()
    x = made.input(1, 6000)
    made.constant(np.ones((1, 7000), np.float32))
    graph = made.graph(made.op("Add", x, made.constant(np.ones((1, 6000), np.float32))))
    assert len(graph.model.graph.initializers) == 2
    _, apart = constants_apart(graph)
    assert len(apart) == 1
    feed = {x: np.zeros((1, 6000), np.float32)}
    assert Session(graph).run(feed)[graph.outputs[0].name].sum() == 6000


def test_a_constant_that_is_an_output_stays() -> None:
    made = Net()
    x = made.input(1, 6000)
    held = made.constant(np.ones((1, 6000), np.float32))
    graph = made.graph(made.op("Add", x, held)).copy()
    value = graph.value(held)
    value.type, value.shape = graph.value(x).type, graph.value(x).shape
    graph.model.graph.outputs.append(value)
    graph = Graph(graph.model)
    message, apart = constants_apart(graph)
    assert not apart
    assert [each.name for each in message.graph.initializer] == [held]
