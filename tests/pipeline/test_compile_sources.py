"""What is handed to the vendor's compiler: outputs that it keeps, and a plan for the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.base.errors import UsageError
from engine.cost.estimate import CostSettings, estimate_chip
from engine.graph.ir import Graph
from engine.pipeline.compile_sources import HandedModel, without_idle_outputs
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.source import RecipeSource
from engine.pipeline.stages import STAGES
from engine.recipe import Recipe
from tests.graph.models import finish, nodes_of, tensor
from tests.safety import printed


def saved(
    path: Path,
    nodes: str,
    outputs: list[onnx.ValueInfoProto],
    inputs: Sequence[onnx.ValueInfoProto] = (tensor("x", 1, 3, 16, 16),),
) -> Path:
    kernel = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)
    constants = {"w": kernel, "k": np.ones(4, np.float32)}
    model = finish(nodes_of(nodes), list(inputs), outputs, constants, opset=17, ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def pipeline_of(path: Path, **more: object) -> Pipeline:
    recipe = Recipe.from_values({"model": str(path), "do_quantization": False, **more})
    return Pipeline(recipe, STAGES, source=RecipeSource(recipe))


def test_outputs_that_the_compiler_drops_are_left_out_and_told(tmp_path: Path) -> None:
    nodes = (
        "fixed = Neg (k); y = Conv <pads=[1, 1, 1, 1]> (x, w); sizes = Shape (x); "
        "size = Cast <to=1> (sizes); same = Identity (x)"
    )
    outputs = [tensor("fixed", 4), tensor("y", 1, 8, 16, 16), tensor("size", 4)]
    outputs += [tensor("x", 1, 3, 16, 16), tensor("same", 1, 3, 16, 16)]
    pipeline = pipeline_of(saved(tmp_path / "m.onnx", nodes, outputs))
    left, told = without_idle_outputs(pipeline)
    names = [spec.name for spec in HandedModel(left, "nobody").graph.outputs]
    assert names == ["y", "same"]
    assert {each.where for each in told} == {"fixed", "size", "x"}
    assert without_idle_outputs(left) == (left, ())
    # nothing is left where no output moves
    alone = pipeline_of(saved(tmp_path / "n.onnx", "fixed = Neg (k)", outputs[:1]))
    with pytest.raises(UsageError, match="depends on its inputs"):
        without_idle_outputs(alone)


def test_a_picture_with_channels_last_has_a_plan(tmp_path: Path) -> None:
    """As tf2onnx writes nets: the handed file loses the shapes behind the turned input."""
    sizes = (1, 16, 16, 3)
    nodes = "first = Transpose <perm=[0, 3, 1, 2]> (x); y = Conv <pads=[1, 1, 1, 1]> (first, w)"
    path = saved(tmp_path / "m.onnx", nodes, [tensor("y", 1, 8, 16, 16)], [tensor("x", *sizes)])
    np.save(tmp_path / "x.npy", np.ones(sizes, np.float32))
    (tmp_path / "list.txt").write_text("x.npy")
    pipeline = pipeline_of(path, do_quantization=True, dataset=str(tmp_path / "list.txt"))
    handed = HandedModel(pipeline, "ours")
    assert handed.nhwc == {"x"}
    found = estimate_chip(Graph.from_bytes(handed.onnx), "rk3588", CostSettings())
    assert not found.problem
    assert any(row.op.startswith("Conv") for row in found.layers)


def test_a_number_stays_one_in_a_feed(tmp_path: Path) -> None:
    """A rate as an input: one row of a number was refused, and the model not compared."""
    inputs = [tensor("x", 1, 4), tensor("rate")]
    path = saved(tmp_path / "m.onnx", "[y] y = Mul (x, rate)", [tensor("y", 1, 4)], inputs)
    handed = HandedModel(pipeline_of(path), "nobody")
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
