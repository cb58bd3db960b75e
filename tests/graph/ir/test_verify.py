"""Every rule of the IR is caught when it is broken, and the message names the place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from engine.base.errors import GraphError
from engine.graph.ir import Graph, infer_shapes, verify
from tests.graph.models import float_net

Break = Callable[[ir.Model], object]
INT8, ONE = ir.TensorType(ir.DataType.INT8), ir.Shape([1])
ALPHA = ir.AttrFloat32("alpha", 1.0)


def _node(model: ir.Model, name: str) -> ir.Node:
    return next(node for node in model.graph if node.name == name)


def _unsorted(model: ir.Model) -> None:
    node = _node(model, "/body/conv1")
    model.graph.remove(node)
    model.graph.append(node)


def _subgraph(model: ir.Model) -> None:
    body = ir.Graph([], [], nodes=[], name="body")
    _node(model, "/body/add").attributes["g"] = ir.AttrGraph("g", body)


def _function(model: ir.Model) -> None:
    body = ir.Graph([], [], nodes=[], opset_imports={"": 21})
    function = ir.Function("my", "F", graph=body, attributes=[])
    model.functions[function.identifier()] = function


def _too_many_inputs(model: ir.Model) -> None:
    node = _node(model, "/body/relu1")
    node.resize_inputs(2)
    node.replace_input_with(1, model.graph.inputs[0])


def _mixed_types(model: ir.Model) -> None:
    value = model.graph.initializers["w2"]
    value.const_value = ir.tensor(np.ones((6, 6, 1, 1), np.float64), name="w2")
    value.type = ir.TensorType(ir.DataType.DOUBLE)


def _channels(model: ir.Model) -> None:
    value = model.graph.initializers["w2"]
    value.const_value = ir.tensor(np.ones((6, 5, 1, 1), np.float32), name="w2")
    value.shape = ir.Shape([6, 5, 1, 1])


RULES: list[tuple[Break, str]] = [
    (lambda m: setattr(m, "ir_version", 8), "IR version 8"),
    (lambda m: m.opset_imports.update({"": 17}), "opset 17"),
    (_function, "functions"),
    (
        lambda m: setattr(_node(m, "/body/add"), "domain", "my.own"),
        "'/body/add' has the operator my.own:Add",
    ),
    (_subgraph, "'/body/add' .* subgraph"),
    (lambda m: setattr(_node(m, "/body/relu1"), "name", ""), "Relu has no name"),
    (
        lambda m: setattr(_node(m, "/body/relu1"), "name", "/body/conv1"),
        "Two nodes are named '/body/conv1'",
    ),
    (_unsorted, "'/body/relu1' reads 'c1' before '/body/conv1'"),
    (
        lambda m: _node(m, "/body/conv2").replace_input_with(0, ir.Value(name="ghost")),
        "'/body/conv2' reads 'ghost', which nothing computes",
    ),
    (lambda m: setattr(Graph(m).value("a"), "name", "h"), "Two values are named 'h'"),
    (lambda m: setattr(m.graph.initializers["w1"], "const_value", None), "'w1' has no tensor"),
    (
        lambda m: setattr(m.graph.initializers["w1"], "shape", ir.Shape([6, 3, 3, 4])),
        "'w1' says shape",
    ),
    (lambda m: setattr(m.graph.initializers["w1"], "type", INT8), "'w1' says INT8"),
    (lambda m: m.graph.inputs.append(m.graph.initializers["w1"]), "'w1'"),
    (
        lambda m: m.graph.outputs.append(ir.Value(name="ghost", type=INT8, shape=ONE)),
        "'ghost' is computed by nothing",
    ),
    (lambda m: m.graph.outputs.clear(), "no outputs"),
    (lambda m: m.graph.outputs.append(m.graph.outputs[0]), "'y' is listed twice"),
    (lambda m: setattr(m.graph.inputs[0], "type", None), "'x' has no type"),
    (lambda m: _node(m, "/body/relu1").attributes.update(alpha=ALPHA), "'/body/relu1' .*alpha"),
    (_too_many_inputs, "'/body/relu1'"),
    (_mixed_types, "'/body/conv2'"),
    (_channels, "'/body/conv2' .* 6 channels; its weights are for 5"),
]


@pytest.mark.parametrize(("damage", "message"), RULES, ids=[text[:30] for _, text in RULES])
def test_a_broken_rule_is_caught_and_named(damage: Break, message: str) -> None:
    graph = infer_shapes(Graph.from_proto(float_net()))
    verify(graph)
    damage(graph.model)
    with pytest.raises(GraphError, match=message) as caught:
        verify(graph)
    assert caught.value.cause
    assert caught.value.remedy
