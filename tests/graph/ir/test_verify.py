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


def _node(model: ir.Model, name: str) -> ir.Node:
    return next(node for node in model.graph if node.name == name)


def _value(model: ir.Model, name: str) -> ir.Value:
    return Graph(model).value(name)


def _custom(model: ir.Model) -> None:
    _node(model, "/body/add").domain = "my.own"


def _unsorted(model: ir.Model) -> None:
    node = _node(model, "/body/conv1")
    model.graph.remove(node)
    model.graph.append(node)


def _dangling(model: ir.Model) -> None:
    _node(model, "/body/conv2").replace_input_with(0, ir.Value(name="ghost"))


def _duplicate_value(model: ir.Model) -> None:
    _value(model, "a").name = "h"


def _subgraph(model: ir.Model) -> None:
    body = ir.Graph([], [], nodes=[], name="body")
    _node(model, "/body/add").attributes["g"] = ir.AttrGraph("g", body)


def _function(model: ir.Model) -> None:
    body = ir.Graph([], [], nodes=[], opset_imports={"": 21})
    function = ir.Function("my", "F", graph=body, attributes=[])
    model.functions[function.identifier()] = function


def _no_tensor(model: ir.Model) -> None:
    model.graph.initializers["w1"].const_value = None


def _wrong_shape(model: ir.Model) -> None:
    model.graph.initializers["w1"].shape = ir.Shape([6, 3, 3, 4])


def _wrong_type(model: ir.Model) -> None:
    model.graph.initializers["w1"].type = ir.TensorType(ir.DataType.INT8)


def _listed(model: ir.Model) -> None:
    model.graph.inputs.append(model.graph.initializers["w1"])


def _foreign_output(model: ir.Model) -> None:
    model.graph.outputs.append(
        ir.Value(name="ghost", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))
    )


def _untyped(model: ir.Model) -> None:
    model.graph.inputs[0].type = None


def _attribute(model: ir.Model) -> None:
    _node(model, "/body/relu1").attributes["alpha"] = ir.AttrFloat32("alpha", 1.0)


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


def _same_node_names(model: ir.Model) -> None:
    _node(model, "/body/relu1").name = "/body/conv1"


def _no_node_name(model: ir.Model) -> None:
    _node(model, "/body/relu1").name = ""


RULES: list[tuple[Break, str]] = [
    (lambda m: setattr(m, "ir_version", 8), "IR version 8"),
    (lambda m: m.opset_imports.update({"": 17}), "opset 17"),
    (_function, "functions"),
    (_custom, "'/body/add' has the operator my.own:Add"),
    (_subgraph, "'/body/add' .* subgraph"),
    (_no_node_name, "Relu has no name"),
    (_same_node_names, "Two nodes are named '/body/conv1'"),
    (_unsorted, "'/body/relu1' reads 'c1' before '/body/conv1'"),
    (_dangling, "'/body/conv2' reads 'ghost', which nothing computes"),
    (_duplicate_value, "Two values are named 'h'"),
    (_no_tensor, "'w1' has no tensor"),
    (_wrong_shape, "'w1' says shape"),
    (_wrong_type, "'w1' says INT8"),
    (_listed, "'w1'"),
    (_foreign_output, "'ghost' is computed by nothing"),
    (lambda m: m.graph.outputs.clear(), "no outputs"),
    (lambda m: m.graph.outputs.append(m.graph.outputs[0]), "'y' is listed twice"),
    (_untyped, "'x' has no type"),
    (_attribute, "'/body/relu1' .*alpha"),
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
