"""Every operator that is written, in TFLite's own interpreter against our simulator."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from engine.graph.ir import Graph
from tests.export.tflite.cases import CASES, quantized, steps_apart, written
from tests.export.tflite.more_cases import MORE
from tests.quantize.models import Net

_ALL = {**CASES, **MORE}


@pytest.mark.parametrize("name", _ALL)
def test_the_interpreter_gives_what_the_simulator_gives(name: str) -> None:
    make, allowed = _ALL[name]
    net, graph = quantized(make)
    model = written(graph)
    worst = max(steps_apart(graph, model, feed) for feed in net.feeds(3))
    assert worst <= allowed + 1e-3


def test_groups_of_channels_are_normalized() -> None:
    net = Net(3)
    x = net.input(1, 6, 5, 4)
    given = [x, net.constant(net.normal(6)), net.constant(net.normal(6))]
    y = net.op("GroupNormalization", *given, num_groups=3)
    shaped = helper.make_tensor_value_info
    made = helper.make_graph(
        net.nodes,
        "groups",
        [shaped(x, TensorProto.FLOAT, (1, 6, 5, 4))],
        [shaped(y, TensorProto.FLOAT, (1, 6, 5, 4))],
        net.constants,
    )
    opsets = [helper.make_opsetid("", 21)]
    graph = Graph.from_proto(helper.make_model(made, opset_imports=opsets, ir_version=10))
    assert steps_apart(graph, written(graph), net.feeds(1)[0]) <= 0.01
