"""The words in which rewrites ask the graph and change it."""

from __future__ import annotations

import numpy as np
import pytest

from engine.cost.lowered import Node, Tensor
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on
from tests.cost.support import npu_of


def constant(name: str, *numbers: int) -> Tensor:
    array = np.array(numbers)
    return Tensor(name, array.shape, "int64", lambda: array)


@pytest.fixture
def graph() -> LoweringGraph:
    """Relu a of x, Mul m by a constant that stands first, ReduceMean r over two axes."""
    tensors = {name: Tensor(name, (1, 8, 4, 4), "float32") for name in ("x", "a", "m")}
    tensors |= {"r": Tensor("r", (1, 8, 1, 1), "float32"), "two": constant("two", 2)}
    tensors["axes"] = constant("axes", -1, 2)
    nodes = [
        Node("Relu", "relu", "Relu", ["x"], ["a"], sources=("relu",)),
        Node("Mul", "mul", "Mul", ["two", "a"], ["m"]),
        Node("ReduceMean", "mean", "ReduceMean", ["m", "axes"], ["r"]),
    ]
    return LoweringGraph(nodes, tensors, ["x"], ["r"])


def test_what_stands_beside_a_tensor(graph: LoweringGraph) -> None:
    relu, mul, mean = graph.nodes
    assert graph.maker("a") is graph.maker("a", "Relu", "Clip", alone=True) is relu
    assert graph.maker("a", "Clip") is graph.maker("x") is graph.maker("r", alone=True) is None
    assert graph.reader("a", "Mul") is mul
    assert graph.reader("a", "Add") is graph.reader("r", "Add") is None
    assert not graph.unread("a")
    assert not graph.unread("r")
    graph.remove(mean)
    assert graph.unread("m")


def test_numbers_of_constants(graph: LoweringGraph) -> None:
    relu, mul, mean = graph.nodes
    assert graph.operands(mul) == ("a", "two")
    assert graph.operands(relu) == ("", "")
    assert (graph.number("two"), graph.number("axes"), graph.number("a")) == (2.0, None, None)
    assert (graph.whole("axes"), graph.whole("a"), graph.whole("")) == ([-1, 2], None, None)
    assert graph.axes(mean) == (3, 2)
    mean.attributes["axes"] = [1]
    assert graph.axes(mean) == (1,)
    assert graph.axes(relu) == ()


def test_nodes_that_are_put_and_changed(graph: LoweringGraph) -> None:
    relu, mul, mean = graph.nodes
    flat = graph.reshape("a", (1, 8, 16), before=mul)
    assert (flat, graph.shape(flat)) == ("a_rs", (1, 8, 16))
    assert graph.whole("a_rs_i1") == [1, 8, 16]
    turned = graph.transpose(flat, (0, 2, 1), "turn", "a_turned", before=mul)
    assert (turned, graph.shape(turned)) == ("a_turned", (1, 16, 8))
    assert graph.reshape("a", (8, 16), before=mul) == "a_rs#1"
    assert graph.put("Abs", "abs", ["a"], ["b"], after=relu).sources == ("relu",)
    graph.work_in(relu, (1, 8, 16), ["x"])
    assert graph.shape(relu.outputs[0]) == (1, 8, 16)
    assert graph.maker("a", "Reshape") is graph.following(relu)
    graph.become(mean, "GlobalAveragePool", inputs=["m"], attributes={})
    assert (mean.op, mean.kind, mean.name) == ("GlobalAveragePool", "GlobalAveragePool", "mean")
    assert not graph.has_readers("axes")


def test_a_rule_visits_neither_what_it_makes_nor_what_it_took_out(graph: LoweringGraph) -> None:
    visited = []

    @on("Relu", "Mul")
    def rule(graph: LoweringGraph, node: Node, context: Context) -> None:
        visited.append(node.name)
        graph.put("Mul", "new", ["x"], ["y"])
        if node.op == "Relu":
            graph.remove(graph.readers("a")[0])

    rule(graph, Context(npu_of("rk3588"), "int8", {}, {}))
    assert visited == ["relu"]
