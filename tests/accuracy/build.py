"""A small network with what makes error analysis hard: fused clamps, branches, float layers."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.graph.ir import Graph, infer_shapes
from engine.quantize import Quantized, calibrate, quantize

FLOAT = onnx.TensorProto.FLOAT
INT64 = onnx.TensorProto.INT64


def float_graph() -> Graph:
    rng = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.5, shape).astype(np.float32)

    constants = {
        "w1": normal(8, 3, 3, 3),
        "b1": normal(8),
        "w2": normal(8, 8, 1, 1),
        "w3": normal(10, 8 * 16),
        "b3": normal(10),
        "flat": np.array([1, -1], np.int64),
        "six": np.float32(6),
        "low": np.float32(0),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("Conv", ["r1", "w2"], ["c2"], "conv2"),
        node("Clip", ["c2", "low", "six"], ["k2"], "clip2"),
        node("Add", ["r1", "k2"], ["a/sum"], "add"),
        node("MaxPool", ["a/sum"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", ["m", "flat"], ["f"], "reshape"),
        node("Gemm", ["f", "w3", "b3"], ["g"], "gemm", transB=1),
        node("Softmax", ["g"], ["prob"], "softmax", axis=1),
        node("ArgMax", ["g"], ["best"], "argmax", axis=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "small",
        [value("x", FLOAT, [1, 3, 8, 8])],
        [value("prob", FLOAT, [1, 10]), value("best", INT64, [1, 1])],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return infer_shapes(Graph.from_proto(proto))


def feeds(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


@cache
def built() -> tuple[Graph, Quantized]:
    graph = float_graph()
    return graph, quantize(graph, calibrate(graph, feeds(8)))
