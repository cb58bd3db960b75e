"""Networks for tests of hybrid quantization: a chain with a weak spot, and detector heads."""

from __future__ import annotations

import numpy as np

from engine.graph.ir import Graph
from engine.hybrid import Layers
from engine.quantize import Quantized, calibrate, quantize
from tests.quantize.models import Net


def chain(seed: int = 0) -> tuple[Graph, list[dict[str, np.ndarray]]]:
    """Six convolutions; what the third writes has a channel that is 60 times as wide.

    Its 8-bit scale is coarse for all other channels, and the fourth convolution takes the wide one
    down again: lifting both layers keeps the tensor between them fine.
    """
    net = Net(seed)
    x = net.input(1, 3, 16, 16, name="image")
    wide, names = 2, []
    for index in range(6):
        channels = 3 if index == 0 else 8
        weight = net.normal(8, channels, 3, 3, scale=(2 / (channels * 9)) ** 0.5)
        if index == wide:
            weight[0] *= 60
        if index == wide + 1:
            weight[:, 0] /= 60
        bias = net.constant(net.normal(8, scale=0.1))
        x = net.op("Conv", x, net.constant(weight), bias, pads=[1, 1, 1, 1])
        if index < 5:
            x = net.op("Relu", x)
        names.append(x)
    graph = net.graph(x)
    rng = np.random.default_rng(seed)
    feeds = [{"image": rng.normal(size=(1, 3, 16, 16)).astype(np.float32)} for _ in range(6)]
    return graph, feeds


def built_chain() -> tuple[Layers, Quantized, list[dict[str, np.ndarray]]]:
    """The layers of :func:`chain`, its build, and its inputs."""
    graph, feeds = chain()
    return Layers(graph), quantize(graph, calibrate(graph, feeds)), feeds


def head(*, split: bool = False, score_sum: bool = False, seed: int = 1) -> Net:
    """A detector's end as ultralytics exports it: boxes in pixels and sigmoid scores in one Concat.

    Box distances (already decoded from their distribution) times the stride, scores through a
    Sigmoid, joined on the channels: ``[1, 4 + classes, anchors]``.

    Args:
        split: boxes and scores are two outputs.
        score_sum: a ReduceSum of the scores is an output too, as in the zoo's older exports.
        seed: of the weights.
    """
    net = Net(seed)
    x = net.input(1, 3, 32, 32, name="images")
    x = net.op("Relu", net.conv(x, 3, 8, strides=[4, 4]))
    boxes = net.op("Reshape", net.conv(x, 8, 4, 1), net.constant(np.array([1, 4, 64])))
    boxes = net.op("Relu", boxes)
    boxes = net.op("Mul", boxes, net.constant(np.full((1, 1, 64), 160.0), "stride"))
    logits = net.op("Reshape", net.conv(x, 8, 6, 1), net.constant(np.array([1, 6, 64])))
    scores = net.op("Sigmoid", logits)
    net.outputs = [boxes, scores] if split else [net.op("Concat", boxes, scores, axis=1)]
    if score_sum:
        axes = net.constant(np.array([1]), "axes")
        net.outputs.append(net.op("ReduceSum", scores, axes, keepdims=1))
    return net


def head_graph(**wish: bool) -> Graph:
    """The graph of :func:`head`."""
    net = head(**wish)
    return net.graph(*net.outputs)


def head_feeds(count: int = 4) -> list[dict[str, np.ndarray]]:
    """Inputs of :func:`head`."""
    rng = np.random.default_rng(5)
    return [{"images": rng.normal(size=(1, 3, 32, 32)).astype(np.float32)} for _ in range(count)]
