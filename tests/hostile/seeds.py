"""Valid small models of many operators, from which damage starts."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import onnx
from onnx import helper
from onnx.backend.test.loader import load_model_tests

from tests.graph.models import float_net
from tests.hostile.models import doubled_constants, doubled_functions, doubled_sizes

__all__ = ["seeds"]

_EVERY = 12
_LARGEST = 20_000


@cache
def seeds() -> tuple[onnx.ModelProto, ...]:
    """Networks of our own, and every twelfth small model of ONNX's tests of operators."""
    own = [
        *(float_net(opset=opset) for opset in (13, 17, 21)),
        *(float_net(batch="N") for _ in range(2)),
        doubled_functions(3),
        doubled_sizes(4),
        doubled_constants(4),
        quantized(),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    models = [case.model or onnx.load(Path(case.model_dir) / "model.onnx") for case in cases]
    small = [model for model in models if model.graph.node and model.ByteSize() < _LARGEST]
    return (*own, *small[::_EVERY])


def quantized() -> onnx.ModelProto:
    """QuantizeLinear and DequantizeLinear around a Conv with int8 weights."""
    node, tensor = helper.make_node, helper.make_tensor
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
        node("Conv", ["d", "dw"], ["c"], kernel_shape=[1, 1]),
        node("QuantizeLinear", ["c", "s", "z"], ["qc"]),
        node("DequantizeLinear", ["qc", "s", "z"], ["y"]),
    ]
    constants = [
        tensor("s", 1, [], [0.05]),
        tensor("z", 3, [], [3]),
        tensor("w", 3, [2, 3, 1, 1], [1, 2, 3, -4, 5, 6]),
        tensor("ws", 1, [2], [0.1, 0.2]),
        tensor("wz", 3, [2], [0, 0]),
    ]
    ends = [helper.make_tensor_value_info("x", 1, [1, 3, 4, 4])]
    outputs = [helper.make_tensor_value_info("y", 1, [1, 2, 4, 4])]
    graph = helper.make_graph(nodes, "q", ends, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
