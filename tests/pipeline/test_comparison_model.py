"""Comparison models: their outputs, and which layer a tensor of a board is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.accuracy.three_way import board_rows
from engine.base.errors import ContainerError, UsageError
from engine.base.events import NullReporter
from engine.container import read_container
from engine.devices.board.tensors import BoardOutput, TensorAttributes
from engine.graph.execute import Session
from engine.graph.ir import TensorSpec
from engine.pipeline import comparison_model
from engine.pipeline.board import input_digest, match_inputs, match_outputs, values_of
from engine.pipeline.comparison_model import (
    comparison_container,
    comparison_onnx,
    output_groups,
)
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Pipeline
from engine.recipe import Recipe
from engine.services.build import export
from engine.services.state import get_pipeline
from rknntui.demo import demo_recipe
from tests.accuracy.build import built


@pytest.fixture
def build() -> Pipeline:
    return get_pipeline(Recipe.from_values(demo_recipe(), Path.cwd()))


def attributes(name: str, shape: tuple[int, ...], **changes: Any) -> TensorAttributes:
    elements = int(np.prod(shape))
    plain = TensorAttributes(
        0, name, shape, "NCHW", "INT8", "AFFINE", scale=1.0, elements=elements, size=elements
    )
    return replace(plain, **changes)


def test_outputs_have_a_reader_of_their_own_and_the_right_numbers(build: Pipeline) -> None:
    (content,) = comparison_onnx(build)
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    rows = board_rows(quantized_of(build))
    names = [value.name for value in model.graph.output]
    assert sorted(names) == sorted(row.golden for row in rows)
    assert names[0] == "logits"
    read = {name for node in model.graph.node for name in node.input}
    assert not read & set(names)
    sample = next(iter(build.feeds(build.dataset.first(1))))
    found = Session(content).run(sample, names)
    expected = Session(build.quantized.graph.graph).run(sample, names)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_container_takes_preprocessed_samples(build: Pipeline, tmp_path: Path) -> None:
    rows = board_rows(quantized_of(build))[2:4]
    path = tmp_path / "comparison.rknn"
    path.write_bytes(comparison_container(build, rows))
    found = read_container(path)
    assert [spec.name for spec in found.graph.outputs] == [row.golden for row in rows]
    recipe: Any = found.recipe
    assert recipe["preprocess"]["mean_values"] is None
    assert recipe["preprocess"]["std_values"] is None
    assert path.read_bytes() == comparison_container(build, rows)


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = board_rows(built()[1])
    assert output_groups(rows) == [list(rows)]
    assert output_groups(rows, 1) == [[row] for row in rows]
    room = rows[0].size + rows[1].size
    groups = output_groups(rows, room)
    assert [row for group in groups for row in group] == list(rows)
    assert all(sum(row.size for row in group) <= room for group in groups)
    monkeypatch.setattr(comparison_model, "GROUP_OUTPUTS", 3)
    assert [len(group) for group in output_groups(rows)] == [3, 3, 1]


def test_many_layers_are_several_files(
    build: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison_model, "GROUP_OUTPUTS", 10)
    path = tmp_path / "layers.onnx"
    asked = {"recipe": demo_recipe(), "path": str(path), "format": "onnx", "layers": True}
    told: Any = export(asked, NullReporter())
    assert told["more"] == (str(tmp_path / "layers-2.onnx"),)
    assert "--compiled" in told["note"]
    counts = [len(onnx.load(file).graph.output) for file in (path, *told["more"])]
    assert counts == [11, 4]  # the model's own output is in both
    with pytest.raises(UsageError, match="ONNX only"):
        export({**asked, "format": "rknn", "path": str(tmp_path / "x.rknn")}, NullReporter())
    recipe = {**demo_recipe(), "do_quantization": False}
    with pytest.raises(UsageError, match="not quantized"):
        export({**asked, "recipe": recipe, "force": True}, NullReporter())
    with pytest.raises(ContainerError):
        read_container(path)


def test_an_output_is_found_by_any_name_that_means_one_layer() -> None:
    rows = board_rows(built()[1])
    conv, clip, add = rows[:3]
    assert conv.result_of is not None
    names = ["relu1", "conv2", "nobody", "a/sum", "c1"]
    found = [attributes(name, (1, 2), index=place) for place, name in enumerate(names)]
    # the node of its activation, the id of the layer, its tensor; not the tensor inside a layer
    assert match_outputs(found, rows) == {conv.golden: 0, clip.golden: 1, add.golden: 3}
    both = [attributes("conv1", (1, 2)), attributes("r1", (1, 2), index=1)]
    assert match_outputs(both, rows) == {conv.golden: 1}
    long = replace(conv, golden="n" * 300, label="n" * 300, of=None)
    assert match_outputs([attributes("n" * 255, (1, 2))], [long]) == {long.golden: 0}


def test_inputs_are_matched_by_name_or_order() -> None:
    own = [TensorSpec("a", (1, 3, 4, 4), "float32"), TensorSpec("b", (1, 5), "float32")]
    a, b = attributes("a", (1, 4, 4, 3)), attributes("b", (1, 5))
    assert match_inputs([b, a], own) == ("b", "a")
    assert match_inputs([replace(a, name="x"), replace(b, name="y")], own) == ("a", "b")
    for other in ([a], [a, a], [a, attributes("b", (1, 6))], [a, b, b]):
        with pytest.raises(UsageError, match="its inputs differ"):
            match_inputs(other, own)


def test_values_are_in_the_layout_of_the_build() -> None:
    array = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    last = BoardOutput("x", "NHWC", "FLOAT32", array.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(values_of(last, (1, 2, 3, 4)), array)
    first = BoardOutput("x", "NCHW", "FLOAT32", array)
    np.testing.assert_array_equal(values_of(first, (1, 2, 3, 4)), array)
    flat = BoardOutput("x", "NCHW", "FLOAT32", array.reshape(1, 24, 1, 1))
    np.testing.assert_array_equal(values_of(flat, (1, 24)), array.reshape(1, 24))
    with pytest.raises(UsageError, match="has the shape"):
        values_of(first, (1, 2, 3, 5))


def test_the_digest_is_of_names_shapes_and_bytes() -> None:
    one = {"x": np.zeros((1, 4), np.float32)}
    assert input_digest(one) == input_digest({"x": np.zeros((1, 4), np.float32)})
    others = (
        {"y": one["x"]},
        {"x": one["x"].reshape(2, 2)},
        {"x": one["x"].astype(np.int32)},
        {"x": one["x"] + 1},
    )
    assert len({input_digest(one), *map(input_digest, others)}) == 5
