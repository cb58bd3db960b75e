"""A small network with what makes error analysis hard: fused clamps, branches, float layers."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest

from engine.accuracy import AccuracyReport
from engine.graph.ir import Graph, infer_shapes
from engine.quantize import Quantized, QuantizeSettings, calibrate, quantize
from tests.graph.models import finish, nodes_of, tensor

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
    nodes = nodes_of(
        "[conv1] c1 = Conv <pads=[1, 1, 1, 1]> (x, w1, b1); [relu1] r1 = Relu (c1); "
        "[conv2] c2 = Conv (r1, w2); [clip2] k2 = Clip (c2, low, six); "
        '[add] "a/sum" = Add (r1, k2); '
        '[pool] m = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> ("a/sum"); '
        "[reshape] f = Reshape (m, flat); [gemm] g = Gemm <transB=1> (f, w3, b3); "
        "[softmax] prob = Softmax <axis=1> (g); [argmax] best = ArgMax <axis=1> (g)"
    )
    outputs = [tensor("prob", 1, 10), tensor("best", 1, 1, dtype=onnx.TensorProto.INT64)]
    proto = finish(nodes, [tensor("x", 1, 3, 8, 8)], outputs, constants, name="small")
    return infer_shapes(Graph.from_proto(proto))


def feeds(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


def made(samples: int, settings: QuantizeSettings) -> tuple[Graph, Quantized]:
    """The float graph, and what it becomes on so many samples."""
    graph = float_graph()
    return graph, quantize(graph, calibrate(graph, feeds(samples)), settings)


@cache
def built() -> tuple[Graph, Quantized]:
    return made(8, QuantizeSettings())


def assert_near(whole: AccuracyReport, parts: AccuracyReport) -> None:
    """The same figures: float kernels differ in last bits with what they are fused with."""
    for a, b in zip(whole.layers, parts.layers, strict=True):
        for one, other in ((a.cumulative, b.cumulative), (a.isolated, b.isolated)):
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert one.euclidean == pytest.approx(other.euclidean, rel=1e-4, abs=1e-5)
                assert one.cosine == pytest.approx(other.cosine, abs=1e-5)
