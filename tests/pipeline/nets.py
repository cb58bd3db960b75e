"""Small networks and pictures that tests make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image


def small_net(seed: int = 0, size: int = 16) -> onnx.ModelProto:
    """A picture of 3 channels through two convolutions to 10 scores."""
    rng = np.random.default_rng(seed)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        return numpy_helper.from_array((rng.standard_normal(shape) * scale).astype("f4"), name)

    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", strides=[2, 2]),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["scores"], "fc", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [
            weight("w1", 8, 3, 3, 3),
            weight("b1", 8),
            weight("w2", 16, 8, 3, 3),
            weight("b2", 16),
            weight("w3", 10, 16),
            weight("b3", 10),
        ],
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def picture(path: Path, seed: int, size: int = 16) -> None:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (size // 4, size // 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC).save(path)
