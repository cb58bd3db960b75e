"""Small networks and pictures that tests make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from tests.graph.models import finish, nodes_of, tensor


def small_net(seed: int = 0, size: int = 16) -> onnx.ModelProto:
    """A picture of 3 channels through two convolutions to 10 scores."""
    rng = np.random.default_rng(seed)
    nodes = nodes_of(
        "[conv1] c1 = Conv <pads=[1, 1, 1, 1]> (image, w1, b1); [relu1] r1 = Relu (c1); "
        "[conv2] c2 = Conv <strides=[2, 2]> (r1, w2, b2); [relu2] r2 = Relu (c2); "
        "[pool] p = GlobalAveragePool (r2); [flatten] f = Flatten (p); "
        "[fc] scores = Gemm <transB=1> (f, w3, b3)"
    )
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (16, 8, 3, 3), "b2": (16,)}
    shapes |= {"w3": (10, 16), "b3": (10,)}
    weights = {
        name: (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype("f4")
        for name, shape in shapes.items()
    }
    ends = [tensor("image", 1, 3, size, size)], [tensor("scores", 1, 10)]
    return finish(nodes, *ends, weights, name="small")


def project(folder: Path, model: str = "small.onnx") -> Path:
    """The net, four pictures, and a dataset of them, in a folder."""
    onnx.save(small_net(), folder / model)
    for number in range(4):
        picture(folder / f"{number}.png", number)
    (folder / "dataset.txt").write_text("".join(f"{number}.png\n" for number in range(4)))
    return folder


def picture(path: Path, seed: int, size: int = 16) -> None:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (size // 4, size // 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC).save(path)
