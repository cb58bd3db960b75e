"""The shipped demo model as a container of ours, and what the simulator makes of it."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.api.rknn import RKNN
from engine.api.simulated_model import SimulatedModel
from engine.container import ContainerContent, read_container, write_container
from engine.graph.ir import Graph
from rknntui.demo import demo_folder

LAYER = "/stage1/stage1.1/pointwise/Conv"
"""A layer in the middle of the model."""


def digits(count: int = 3) -> list[np.ndarray]:
    """Pictures of digits, uint8 NHWC."""
    pictures = np.load(demo_folder() / "test.npz")["samples"]
    return [picture.reshape(1, 8, 8, 1).astype(np.uint8) for picture in pictures[:count]]


def demo_container(
    path: Path, target: str, *, generation: int = 2, quantized: bool = True, **options: Any
) -> Path:
    """Build the demo model for a chip; ``options`` are those of ``config``."""
    rknn = RKNN(generation=generation)
    try:
        if generation == 2:
            options |= {"target_platform": target, "mean_values": [[0]], "std_values": [[16]]}
        else:
            options |= {"target_platform": [target], "channel_mean_value": "0 16"}
            options |= {"reorder_channel": "0"}
        rknn.config(**options)
        assert rknn.load_onnx(str(demo_folder() / "digits_demo.onnx")) == 0
        dataset = str(demo_folder() / "dataset.txt")
        assert rknn.build(do_quantization=quantized, dataset=dataset) == 0
        assert rknn.export_rknn(str(path)) == 0
    finally:
        rknn.release()
    return path


def with_all_layers(source: Path, path: Path) -> Path:
    """The container with the outputs of all its layers as outputs."""
    found = read_container(source)
    graph = found.graph.copy()
    assert found.layers is not None
    known = {spec.name for spec in graph.outputs}
    for layer in found.layers.layers:
        value: ir.Value = graph.value(layer.tensor)
        if layer.tensor not in known:
            graph.model.graph.outputs.append(value)
    content = ContainerContent(**{f.name: getattr(found, f.name) for f in fields(ContainerContent)})
    path.write_bytes(write_container(replace(content, graph=Graph(graph.model))))
    return path


def simulated(
    container: Path,
    array: np.ndarray,
    *,
    generation: int = 2,
    data_format: str | None = None,
    pass_through: list[int] | None = None,
) -> dict[str, Any]:
    """Output -> values, by the simulator that `inference` without a target uses."""
    model = SimulatedModel.of_container(container, generation)
    found, _ = model.run(
        [array], data_format=data_format, data_type=None, pass_through=pass_through
    )
    return found
