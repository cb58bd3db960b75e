"""What is handed to the vendor's compiler: outputs that it keeps, and a plan for the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

from engine.base.errors import UsageError
from engine.cost.estimate import CostSettings, estimate_chip
from engine.graph.ir import Graph
from engine.pipeline.compile_sources import HandedModel, without_idle_outputs
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.source import RecipeSource
from engine.pipeline.stages import STAGES
from engine.recipe import Recipe
from tests.safety import printed


def value(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def saved(path: Path, nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto]) -> Path:
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(8, 3, 3, 3)).astype(np.float32)
    tensors = [
        numpy_helper.from_array(kernel, "w"),
        numpy_helper.from_array(np.ones(4, np.float32), "k"),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", 1, 3, 16, 16)], outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def pipeline_of(path: Path, **more: object) -> Pipeline:
    recipe = Recipe.from_values({"model": str(path), "do_quantization": False, **more})
    return Pipeline(recipe, STAGES, source=RecipeSource(recipe))


def test_outputs_that_the_compiler_drops_are_left_out_and_told(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        node("Neg", ["k"], ["fixed"]),
        node("Shape", ["x"], ["sizes"]),
        node("Cast", ["sizes"], ["size"], to=TensorProto.FLOAT),
        node("Identity", ["x"], ["same"]),
    ]
    outputs = [value("fixed", 4), value("y", 1, 8, 16, 16), value("size", 4)]
    outputs += [value("x", 1, 3, 16, 16), value("same", 1, 3, 16, 16)]
    pipeline = pipeline_of(saved(tmp_path / "m.onnx", nodes, outputs))
    left, told = without_idle_outputs(pipeline)
    names = [spec.name for spec in HandedModel(left, "nobody").graph.outputs]
    assert names == ["y", "same"]
    assert {each.where for each in told} == {"fixed", "size", "x"}
    assert without_idle_outputs(left) == (left, ())
    # nothing is left where no output moves
    alone = pipeline_of(saved(tmp_path / "n.onnx", nodes[1:2], outputs[:1]))
    with pytest.raises(UsageError, match="depends on its inputs"):
        without_idle_outputs(alone)


def test_a_picture_with_channels_last_has_a_plan(tmp_path: Path) -> None:
    """As tf2onnx writes nets: the handed file loses the shapes behind the turned input."""
    model = onnx.load(
        saved(
            tmp_path / "m.onnx",
            [
                node("Transpose", ["x"], ["first"], perm=[0, 3, 1, 2]),
                node("Conv", ["first", "w"], ["y"], pads=[1, 1, 1, 1]),
            ],
            [value("y", 1, 8, 16, 16)],
        )
    )
    sizes = (1, 16, 16, 3)
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, sizes, strict=True):
        dim.dim_value = size
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones(sizes, np.float32))
    (tmp_path / "list.txt").write_text("x.npy")
    pipeline = pipeline_of(
        tmp_path / "m.onnx", do_quantization=True, dataset=str(tmp_path / "list.txt")
    )
    handed = HandedModel(pipeline, "ours")
    assert handed.nhwc == {"x"}
    found = estimate_chip(Graph.from_bytes(handed.onnx), "rk3588", CostSettings())
    assert not found.problem
    assert any(row.op.startswith("Conv") for row in found.layers)


def test_a_number_stays_one_in_a_feed(tmp_path: Path) -> None:
    """A rate as an input: one row of a number was refused, and the model not compared."""
    model = helper.make_model(
        helper.make_graph(
            [node("Mul", ["x", "rate"], ["y"], "y")],
            "g",
            [value("x", 1, 4), value("rate")],
            [value("y", 1, 4)],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
    )
    onnx.save(model, tmp_path / "m.onnx")
    handed = HandedModel(pipeline_of(tmp_path / "m.onnx"), "nobody")
    feed = {"x": np.ones((1, 4), np.float32), "rate": np.array(2, np.float32)}
    found = handed.feed_of(handed.graph, feed)
    assert [array.shape for array in found.values()] == [(1, 4), ()]


def test_a_worker_that_compiles_imports_nothing_large_that_it_does_not_use() -> None:
    """Each of them takes as long as numpy, in each process."""
    code = (
        "import sys\n"
        "import engine.services.compile, engine.pipeline.compiled, engine.simulate\n"
        "import engine.pipeline.stages, engine.pipeline.first_apart\n"
        "large = 'sympy onnx.reference engine.hybrid engine.accuracy torch tensorflow'.split()\n"
        "print(*[name for name in large if name in sys.modules])\n"
    )
    assert printed(code) == []
