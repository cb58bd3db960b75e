"""Models whose sizes the user gives: what follows from them is worked out, and what is advised
works.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

from engine.base.errors import SourceModelError, UsageError
from engine.cost.estimate import CostSettings, estimate
from engine.frontends.onnx import inspect_file, load_onnx
from engine.graph.execute import Session

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: dict[str, np.ndarray] | None = None,
) -> Path:
    tensors = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def value(name: str, *shape: int | str | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def grid(path: Path) -> Path:
    """A convolution, and the grid of its cells as YOLOv8 makes it of the size of its input."""
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", ["x", "w"], ["f"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Shape", ["f"], ["s"]),
        node("Gather", ["s", "three"], ["width"]),
        node("Cast", ["width"], ["float_width"], to=FLOAT),
        node("Range", ["zero", "float_width", "one"], ["columns"]),
        node("Add", ["columns", "half"], ["centres"]),
        node("Add", ["f", "centres"], ["y"], "add"),
    ]
    constants = {
        "w": rng.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "three": np.array(3),
        "zero": np.array(0, np.float32),
        "one": np.array(1, np.float32),
        "half": np.array(0.5, np.float32),
    }
    outputs = [value("y", "n", 8, None, None)]
    return save(path, nodes, [value("x", "n", 3, "h", "w")], outputs, constants)


def test_sizes_that_follow_from_given_ones_are_estimated(tmp_path: Path) -> None:
    loaded = load_onnx(grid(tmp_path / "m.onnx"), input_size_list=[[1, 3, 64, 48]])
    assert [finding.code for finding in loaded.findings] == ["opset-converted"]
    for one in estimate(loaded.graph, CostSettings(chips=("rk3588", "rv1126"))):
        assert not one.problem
        names = [row.name for row in one.layers]
        assert any("conv" in name for name in names)
        assert not any("Range" in row.op for row in one.layers)


def test_a_size_that_depends_on_data_says_so(tmp_path: Path) -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["y"], to=FLOAT)]
    path = save(tmp_path / "m.onnx", nodes, [value("x", 4, 4)], [value("y", 2, None)])
    loaded = load_onnx(path)
    assert "output-size-unknown" in [finding.code for finding in loaded.findings]
    with pytest.raises(UsageError, match="not fixed") as error:
        estimate(loaded.graph, CostSettings(chips=("rk3588",)))
    assert "'outputs'" in error.value.remedy


def test_an_output_that_no_input_decides_is_refused_by_name(tmp_path: Path) -> None:
    nodes = [node("Neg", ["k"], ["fixed"]), node("Add", ["x", "fixed"], ["y"])]
    constants = {"k": np.ones(4, np.float32)}
    path = save(tmp_path / "m.onnx", nodes, [value("x", 4)], [value("y", 4)], constants)
    with pytest.raises(SourceModelError, match="constant of the model") as error:
        load_onnx(path, outputs=["y", "fixed"])
    assert "computed" in error.value.remedy
    assert load_onnx(path, outputs=["y"]).graph.outputs[0].name == "y"
    # the model's own outputs stay, and what is cut off may be an input
    assert load_onnx(path, inputs=["fixed", "x"], outputs=["y"]).graph.inputs[0].name == "fixed"


def _states(path: Path, *sound: int | str | None) -> Path:
    """Sound in frames of 32 and a state of the same batch, as voice detectors have them."""
    nodes = [
        node("Reshape", ["sound", "frames"], ["framed"]),
        node("MatMul", ["framed", "w"], ["features"]),
        node("ReduceMean", ["features"], ["mean"], axes=[0], keepdims=1),
        node("Squeeze", ["state", "first"], ["flat"]),
        node("Concat", ["mean", "flat"], ["y"], axis=1),
    ]
    constants = {
        "frames": np.array([-1, 32]),
        "w": np.ones((32, 8), np.float32),
        "first": np.array([0]),
    }
    inputs = [value("sound", *sound), value("state", 1, None, 16)]
    return save(path, nodes, inputs, [value("y", 1, 24)], constants)


@pytest.mark.parametrize("sound", [(None, None), ("n", "samples")])
def test_sizes_that_are_offered_load_and_run(tmp_path: Path, sound: tuple[str | None, ...]) -> None:
    path = _states(tmp_path / "m.onnx", *sound)
    with pytest.raises(SourceModelError, match="dynamic") as error:
        load_onnx(path)
    found = re.search(r"input_size_list: (\[.*\]), which the model runs with", error.value.remedy)
    assert found
    sizes = json.loads(found[1])
    graph = load_onnx(path, input_size_list=sizes).graph
    feeds = {spec.name: np.zeros(spec.shape, np.float32) for spec in graph.inputs}
    assert Session(graph).run(feeds)["y"].shape == (1, 24)
    (told,) = [f for f in inspect_file(path).model.findings if f.code == "dynamic-size"]
    assert found[0] in told.remedy


def test_sizes_that_were_not_found_are_not_made_up(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "s"], ["y"])]
    constants = {"s": np.array([1, 7919])}
    path = save(tmp_path / "m.onnx", nodes, [value("x", 1, "t")], [value("y", 1, 7919)], constants)
    with pytest.raises(SourceModelError) as error:
        load_onnx(path)
    assert "a number for each ?, as input_size_list: [[1, ?]]" in error.value.remedy
