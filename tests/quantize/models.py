"""Float graphs for tests, made by code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engine.base.events import NullReporter
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import sqnr
from engine.quantize import (
    Observations,
    Quantized,
    QuantizeSettings,
    calibrate,
    plan,
    quantize,
)
from engine.quantize.algorithms.accurate.assemble import CalibrationStats
from engine.quantize.algorithms.accurate.collect import collect_statistics
from engine.quantize.calibration.histograms import Histogram
from engine.quantize.interface import CalibratedGraph, Feeds
from engine.report import sqnr_rank
from tests.graph.models import as_it_stands


class Net:
    """Builds a float graph operator by operator; every call returns the name of its output."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self._count = 0

    def input(self, *shape: int, name: str = "") -> str:
        """A float32 input."""
        name = name or f"input{len(self.inputs)}"
        self.inputs[name] = shape
        return name

    def constant(self, array: Any, name: str = "") -> str:
        """An initializer; floats become float32."""
        array = np.asarray(array)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = name or f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """Random float32 numbers."""
        return (self.rng.normal(size=shape) * scale).astype(np.float32)

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """A node that reads tensors by name and numbers; its output's name, or its outputs'."""
        self._count += 1
        names = [f"{kind}_{self._count}_{i}" for i in range(outputs)]
        read = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        node = helper.make_node(kind, read, names, f"{kind}_{self._count}", **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def conv(self, x: str, channels: int, out: int, kernel: int = 3, **attributes: Any) -> str:
        """A 2-d convolution with a bias and padding that keeps the size at stride 1."""
        group = attributes.get("group", 1)
        fan = channels // group * kernel * kernel
        weight = self.normal(out, channels // group, kernel, kernel, scale=(2 / fan) ** 0.5)
        attributes.setdefault("pads", [kernel // 2] * 4)
        bias = self.normal(out, scale=0.1)
        return self.op("Conv", x, self.constant(weight), self.constant(bias), **attributes)

    def proto(self, *outputs: str) -> onnx.ModelProto:
        """The model with the given outputs (float32, shapes by inference)."""
        graph = helper.make_graph(
            self.nodes,
            "test",
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
                for n, s in self.inputs.items()
            ],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(inferred)
        return inferred

    def graph(self, *outputs: str) -> Graph:
        """The graph with the given outputs, typed and shaped."""
        return Graph.from_proto(self.proto(*outputs))

    def feeds(self, count: int = 3, scale: float = 1.0) -> list[dict[str, np.ndarray]]:
        """Random samples for all inputs."""
        return [
            {name: self.normal(*shape, scale=scale) for name, shape in self.inputs.items()}
            for _ in range(count)
        ]

    def quantized(
        self, *outputs: str, count: int = 3, scale: float = 1.0, **settings: Any
    ) -> tuple[Graph, list[dict[str, np.ndarray]], Quantized]:
        """The graph with the given outputs, random samples, and it quantized on them."""
        graph = self.graph(*outputs)
        feeds = self.feeds(count, scale)
        return graph, feeds, quantize_net(graph, feeds, **settings)

    def given(
        self, *outputs: str, count: int = 3, scale: float = 1.0
    ) -> tuple[list[dict[str, np.ndarray]], Graph]:
        """Random samples, and the quantized graph with the given outputs."""
        _, feeds, done = self.quantized(*outputs, count=count, scale=scale)
        return feeds, done.graph


def small_cnn(seed: int = 0) -> tuple[Net, Graph]:
    """A net with every common form: depthwise, residual, branches, pooling, Gemm, Softmax."""
    net = Net(seed)
    x = net.input(1, 3, 24, 24, name="image")
    stem = net.op("Relu", net.conv(x, 3, 8, strides=[2, 2]))
    depthwise = net.op("Clip", net.conv(stem, 8, 8, group=8), 0.0, 6.0)
    point = net.conv(depthwise, 8, 8, kernel=1, pads=[0] * 4)
    residual = net.op("Relu", net.op("Add", point, stem))
    pooled = net.op("MaxPool", residual, kernel_shape=[2, 2], strides=[2, 2])
    left = net.op("LeakyRelu", net.conv(pooled, 8, 4), alpha=0.1)
    gate = net.conv(pooled, 8, 4, kernel=1, pads=[0] * 4)
    right = net.op("Mul", gate, net.op("Sigmoid", gate))
    both = net.op("Concat", left, right, axis=1)
    up = net.op("Resize", both, "", [1.0, 1.0, 2.0, 2.0], mode="nearest")
    cut = net.op("AveragePool", up, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    mean = net.op("GlobalAveragePool", cut)
    flat = net.op("Flatten", mean)
    logits = net.op("Gemm", flat, net.normal(10, 8), net.normal(10), transB=1)
    boxes = net.op(
        "Reshape",
        net.op("Transpose", net.conv(both, 8, 4), perm=[0, 2, 3, 1]),
        np.array([1, -1, 4]),
    )
    scores = net.op("Softmax", logits)
    return net, net.graph(scores, boxes)


def seen_cnn(count: int = 2) -> tuple[Graph, Observations]:
    """The small net and what calibration saw of it."""
    net, graph = small_cnn()
    return graph, calibrate(graph, net.feeds(count))


def quantize_net(
    graph: Graph, feeds: Sequence[dict[str, np.ndarray]], **settings: Any
) -> Quantized:
    """The graph calibrated on the samples and quantized; the algorithm may read them again."""
    seen = calibrate(graph, feeds)
    return quantize(graph, seen, QuantizeSettings(**settings), feeds=lambda: iter(feeds))


def results(graph: Graph, feeds: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Output -> what it is for every sample."""
    session = Session(graph)
    rows = [session.run(feed) for feed in feeds]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def least_sqnr(graph: Graph, other: Graph, feeds: Sequence[dict[str, np.ndarray]]) -> float:
    """In dB, of the output in which the other graph is farthest from this one."""
    one, two = results(graph, feeds), results(other, feeds)
    return min(sqnr_rank(sqnr(array, two[name])) for name, array in one.items())


def assert_same_numbers(
    model: onnx.ModelProto, graph: Graph, feeds: Sequence[dict[str, np.ndarray]]
) -> None:
    """The file computes what the graph does, to the last bit."""
    for feed in feeds:
        ours = as_it_stands(graph.to_proto(), feed)
        for written, own in zip(as_it_stands(model, feed), ours, strict=True):
            np.testing.assert_array_equal(written, own)


def stream(feeds: Sequence[dict[str, np.ndarray]]) -> Iterator[dict[str, np.ndarray]]:
    """The samples as something that can be read once."""
    yield from feeds


def quantile(histogram: Histogram, share: float) -> float:
    """A value that at most ``share`` (0..1) of the values are below; exact within its bin."""
    if histogram.codes.size == 0:
        return 0.0
    low, high = histogram.edges
    reached = np.searchsorted(np.cumsum(histogram.counts), share * histogram.total)
    index = min(int(reached), histogram.codes.size - 1)
    return float((low[index] + high[index]) / 2)


def statistics_of(
    graph: Graph, feeds: Feeds, samples: int, dtype: str = "w8a8"
) -> CalibrationStats:
    """What the algorithm ``accurate`` collects of so many samples."""
    settings = QuantizeSettings(dtype=dtype, algorithm="accurate")
    seen, decided = Observations(samples, {}), plan(graph, dtype)
    calibrated = CalibratedGraph(graph, decided, seen, settings, feeds, NullReporter())
    return collect_statistics(calibrated, feeds, samples)
