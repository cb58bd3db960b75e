"""Minus infinity in an attention mask: constant, computed, or an input; float and quantized."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.helper import make_node as node

from engine.base.errors import DatasetError
from engine.pipeline.analysis import analyse_build
from engine.pipeline.build import build
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.runner import Runnable
from engine.pipeline.stages import STAGES
from engine.recipe import Recipe
from engine.report import sqnr_rank
from tests.graph.models import finish, tensor

TOKENS, WIDTH = 6, 8
MASK = np.triu(np.full((TOKENS, TOKENS), -np.inf, np.float32), 1)
ADDED = [node("Add", ["s", "mask"], ["m"], "masked")]


def attention(
    masked: Sequence[onnx.NodeProto], constants: dict[str, np.ndarray], *inputs: str
) -> onnx.ModelProto:
    """One head; ``masked`` makes ``m`` of the scores ``s``."""
    rng = np.random.default_rng(0)
    weights = {n: rng.normal(0, 0.4, (WIDTH, WIDTH)).astype(np.float32) for n in ("wq", "wk", "wv")}
    constants = constants | weights | {"c": np.float32(0.35)}
    nodes = [
        *(node("MatMul", ["x", f"w{n}"], [n], n) for n in "qkv"),
        node("Transpose", ["k"], ["kt"], "kt", perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["s0"], "scores"),
        node("Mul", ["s0", "c"], ["s"], "scaled"),
        *masked,
        node("Softmax", ["m"], ["p"], "softmax", axis=-1),
        node("MatMul", ["p", "v"], ["y"], "out"),
    ]
    sizes = {"x": [1, TOKENS, WIDTH], "mask": [TOKENS, TOKENS]}
    ends = [tensor(name, *sizes[name]) for name in ("x", *inputs)]
    outputs = [tensor("y", *sizes["x"])]
    return finish(nodes, ends, outputs, constants, opset=17, ir_version=8)


FULL = numpy_helper.from_array(np.array([-np.inf], np.float32))
MODELS = {
    "constant": attention(ADDED, {"mask": MASK}),
    "where": attention(
        [node("Where", ["keep", "s", "low"], ["m"])],
        {"keep": MASK == 0, "low": np.float32(-np.inf)},
    ),
    "computed": attention(
        [
            node("ConstantOfShape", ["size"], ["full"], value=FULL),
            node("Trilu", ["full", "one"], ["mask"], upper=1),
            *ADDED,
        ],
        {"size": np.array([TOKENS, TOKENS]), "one": np.array(1)},
    ),
    "in a quantized operator": attention(
        [node("Add", ["s", "mask"], ["m0"]), node("Max", ["m0", "low"], ["m"])],
        {"mask": MASK, "low": np.float32(-1e9)},
    ),
    "input": attention(ADDED, {}, "mask"),
}


def dataset(folder: Path, *more: np.ndarray) -> Path:
    rng = np.random.default_rng(1)
    lines = []
    for number in range(4):
        np.save(folder / f"x{number}.npy", rng.normal(size=(1, TOKENS, WIDTH)).astype(np.float32))
        lines.append(f"x{number}.npy" + " mask.npy" * len(more))
    for array in more:
        np.save(folder / "mask.npy", array)
    (folder / "d.txt").write_text("\n".join(lines) + "\n")
    return folder / "d.txt"


def pipeline(folder: Path, name: str, **options: object) -> Pipeline:
    onnx.save(MODELS[name], folder / "m.onnx")
    values = {"model": str(folder / "m.onnx"), **options}
    return Pipeline(Recipe.from_values(values), STAGES)


@pytest.mark.parametrize("algorithm", ["normal", "kl_divergence", "mmse", "accurate"])
@pytest.mark.parametrize("name", MODELS)
def test_it_is_quantized_as_exactly_as_a_finite_one(
    name: str, algorithm: str, tmp_path: Path
) -> None:
    files = dataset(tmp_path, *([MASK] if name == "input" else []))
    made = pipeline(tmp_path, name, dataset=str(files), quantized_algorithm=algorithm)
    (output,) = build(made).summary.outputs
    assert sqnr_rank(output.sqnr_db) > 25


@pytest.mark.parametrize("quantized", [True, False])
def test_what_is_masked_has_no_influence(quantized: bool, tmp_path: Path) -> None:
    files = dataset(tmp_path)
    options = {"dataset": str(files)} if quantized else {"do_quantization": False}
    runnable = Runnable.of_build(pipeline(tmp_path, "constant", **options))
    one = np.random.default_rng(2).normal(size=(1, TOKENS, WIDTH)).astype(np.float32)
    other = one.copy()
    other[:, 3:] = -one[:, 3:]
    before, after = (runnable.run({"x": x})["y"] for x in (one, other))
    assert np.isfinite(before).all()
    assert np.array_equal(before[:, :3], after[:, :3])
    assert not np.allclose(before[:, 3:], after[:, 3:], atol=1e-2)


def test_masked_scores_are_equal_in_both_graphs(tmp_path: Path) -> None:
    files = dataset(tmp_path)
    made = pipeline(tmp_path, "constant", dataset=str(files))
    assert "-300" not in json.dumps([asdict(bad) for bad in build(made).summary.worst])
    rows = analyse_build(made, None, None).report.layers
    found = next(row for row in rows if row.id == "masked")
    assert found.sqnr is not None
    assert found.sqnr > 20
    assert found.cumulative is not None
    assert found.cumulative.cosine > 0.99


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_mask_holds_neither_infinity_nor_nan(value: float, tmp_path: Path) -> None:
    mask = MASK.copy()
    mask[0, 0] = value
    files = dataset(tmp_path, mask)
    with pytest.raises(DatasetError, match="not finite"):
        build(pipeline(tmp_path, "input", dataset=str(files)))


def test_minus_infinity_is_refused_where_it_is_no_mask(tmp_path: Path) -> None:
    files = dataset(tmp_path)
    np.save(tmp_path / "x2.npy", np.full((1, TOKENS, WIDTH), -np.inf, np.float32))
    with pytest.raises(DatasetError, match="line 3"):
        build(pipeline(tmp_path, "constant", dataset=str(files)))
