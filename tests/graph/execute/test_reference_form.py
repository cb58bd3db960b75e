"""The reference form: what the unoptimized graph computes, bit by bit, in less time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.graph.execute import Session
from engine.graph.execute.reference_form import reference_form
from engine.graph.ir import Graph
from tests.graph.models import QdqBuilder, as_it_stands, finish, qdq_net, tensor


def feeds_of(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        spec.name: rng.normal(0, 1.5, spec.shape).astype(np.float32)
        for spec in Graph.from_proto(model).inputs
    }


def chain(op: str, dtype: str = "int8", *, zero: int = 0, **attributes: float) -> onnx.ModelProto:
    """Conv -> Q/DQ -> an activation -> Q/DQ, of x (1, 3, 16, 16)."""
    build = QdqBuilder(dtype)
    x = build.quantize("x", 0.03, 3)
    y = build.quantize(build.conv(x, "c", (3, 8)), 0.05, -10)
    build.nodes.append(helper.make_node(op, [y], ["a"], name="act", **attributes))
    build.quantize("a", 0.02, zero, output="out")
    shapes = [1, 3, 16, 16], [1, 8, 16, 16]
    return finish(
        build.nodes,
        [tensor("x", *shapes[0])],
        [tensor("out", *shapes[1])],
        build.constants,
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("seed", range(3))
def test_a_net_has_the_bits_of_the_unoptimized_graph(dtype: str, seed: int) -> None:
    model = qdq_net(dtype)
    feeds = feeds_of(model, seed)
    session = Session(Graph.from_proto(model), reference=True)
    names = [spec.name for spec in session.outputs]
    for name, expected in zip(names, as_it_stands(model, feeds, *names), strict=True):
        assert np.array_equal(session.run(feeds)[name], expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_inner_tensors_have_them_too(dtype: str) -> None:
    model = qdq_net(dtype)
    graph, feeds = Graph.from_proto(model), feeds_of(model)
    stored = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    session = Session(graph, reference=True)
    found = session.run(feeds, stored)
    for name, expected in zip(stored, as_it_stands(model, feeds, *stored), strict=True):
        assert found[name].dtype == expected.dtype
        assert np.array_equal(found[name], expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("alpha", "zero"), [(0.1, 0), (0.01, -100), (1.7, 90), (-0.3, 5)])
def test_a_leaky_relu_becomes_a_table_of_the_same_bits(dtype: str, alpha: float, zero: int) -> None:
    model = chain("LeakyRelu", dtype, zero=zero, alpha=alpha)
    form = reference_form(Graph.from_proto(model))
    operators = Counter(node.op_type for node in form.nodes)
    assert (operators["LeakyRelu"], operators["QLinearLeakyRelu"]) in ((0, 1), (1, 0))
    for seed in range(3):
        feeds = feeds_of(model, seed)
        (found,) = Session(Graph.from_proto(model), reference=True).run(feeds).values()
        (expected,) = as_it_stands(model, feeds)
        assert np.array_equal(found, expected)


def test_the_usual_leaky_relu_is_a_table() -> None:
    form = reference_form(Graph.from_proto(chain("LeakyRelu", alpha=0.1)))
    assert [n.op_type for n in form.nodes].count("QLinearLeakyRelu") == 1
    whole = reference_form(Graph.from_proto(chain("LeakyRelu", alpha=0.1)), names=True)
    assert "a" in whole.values


@pytest.mark.parametrize(("zero", "left"), [(-128, 0), (-127, 1), (0, 1)])
def test_a_relu_is_left_out_where_saturation_does_its_work(zero: int, left: int) -> None:
    model = chain("Relu", zero=zero)
    graph = Graph.from_proto(model)
    assert [n.op_type for n in reference_form(graph).nodes].count("Relu") == left
    feeds = feeds_of(model)
    (found,) = Session(graph, reference=True).run(feeds).values()
    assert np.array_equal(found, as_it_stands(model, feeds)[0])


def test_no_constant_is_dequantized_in_a_run() -> None:
    form = reference_form(Graph.from_proto(qdq_net("int8")))
    for node in form.nodes:
        if node.op_type == "DequantizeLinear":
            assert node.inputs[0] is not None
            assert node.inputs[0].const_value is None


def test_a_float_graph_is_computed_without_fusions() -> None:
    node = helper.make_node("Exp", ["x"], ["y"], name="exp")
    model = finish([node], [tensor("x", 4)], [tensor("y", 4, dtype=TensorProto.FLOAT)])
    graph = Graph.from_proto(model)
    assert reference_form(graph) is graph
