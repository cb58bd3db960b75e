"""What a load tells of graphs that it takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from engine.frontends.onnx import load_onnx


def resize(path: Path, mode: str, scale: float) -> Path:
    scales = numpy_helper.from_array(np.array([1, 1, scale, scale], np.float32), "scales")
    node = helper.make_node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        "r",
        coordinate_transformation_mode=mode,
        mode="linear",
    )
    ends = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("x", [1, 1, 4, 4]), ("y", [1, 1, None, None]))
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("mode", "scale", "told"),
    [("align_corners", 0.6, True), ("align_corners", 1.5, False), ("half_pixel", 0.6, False)],
)
def test_a_scale_that_gives_no_whole_size_is_told(
    tmp_path: Path, mode: str, scale: float, told: bool
) -> None:
    loaded = load_onnx(resize(tmp_path / "m.onnx", mode, scale))
    assert ("resize-rounded" in [finding.code for finding in loaded.findings]) == told
