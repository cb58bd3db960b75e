"""The typed functions beside the vendor's class, and the example of docs/python.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine import (
    CallbackReporter,
    EngineError,
    JobCancelledError,
    LogLine,
    Recipe,
    RecipeError,
    StageFinished,
    UsageError,
    analyse_model,
    build_model,
    quantize_model,
    simulate_model,
)
from rknntui.demo import copy_demo
from tests.api.conftest import built

VALUES: dict[str, Any] = {
    "model": "arcface.onnx",
    "dataset": "dataset.txt",
    "mean_values": [127],
    "std_values": [64],
}


def test_the_example_of_the_docs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    copy_demo(tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    photos = sorted(str(path) for path in Path("photos").iterdir())
    Path("dataset.txt").write_text("\n".join(photos), encoding="utf-8")
    text = (repository / "docs/python.md").read_text(encoding="utf-8")
    code = (
        text.partition("<!-- typed example -->")[2].partition("```python\n")[2].partition("```")[0]
    )
    found: dict[str, Any] = {}
    exec(compile(code, "docs/python.md", "exec"), found)  # noqa: S102  # our own page
    kinds = {node.op_type for node in onnx.load("model_qdq.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
    (name,) = found["outputs"]
    assert found["outputs"][name].shape == (1, 10)
    again = simulate_model(Path("model.rknn"), found["image"])
    assert np.array_equal(again[name], found["outputs"][name])
    assert found["worst"].sqnr > 10
    assert [output.name for output in found["built"].summary.outputs] == [name]


def test_it_builds_what_the_class_builds(place: Path, dog: np.ndarray) -> None:
    model = build_model(Recipe.from_values(VALUES))
    rknn = built(mean_values=[[127]], std_values=[[64]])
    assert rknn.export_rknn("class.rknn") == 0
    assert Path("class.rknn").read_bytes() == model.container
    assert rknn.init_runtime() == 0
    (wanted,) = rknn.inference([dog])
    found = simulate_model(model, dog)
    assert np.array_equal(found["scores"], wanted)
    turned = simulate_model(model, [dog.transpose(2, 0, 1)], layout="NCHW")
    assert np.array_equal(turned["scores"], wanted)


def test_warnings_go_to_the_reporter(place: Path, dog: np.ndarray) -> None:
    told: list[Any] = []
    model = build_model(Recipe.from_values(VALUES))
    simulate_model(model, dog, layout="NCHW", reporter=CallbackReporter(told.append))
    (line,) = told
    assert isinstance(line, LogLine)
    assert line.level == "warning"


def test_errors_are_raised(place: Path, dog: np.ndarray) -> None:
    with pytest.raises(RecipeError, match="no model"):
        build_model(Recipe.from_values({}))
    with pytest.raises(EngineError, match=r"nothing\.txt"):
        quantize_model(Recipe.from_values({**VALUES, "dataset": "nothing.txt"}))
    floating = build_model(Recipe.from_values({"model": "arcface.onnx", "do_quantization": False}))
    with pytest.raises(UsageError, match="not quantized"):
        analyse_model(floating)
    with pytest.raises(EngineError, match="3x5"):
        simulate_model(floating, dog[:3, :5])


def test_a_reporter_hears_of_stages_and_can_stop(place: Path) -> None:
    told: list[Any] = []
    recipe = Recipe.from_values(VALUES)
    quantize_model(recipe, reporter=CallbackReporter(told.append), use_cache=False)
    stages = [event.stage for event in told if isinstance(event, StageFinished)]
    assert stages == ["load", "optimise", "calibrate", "quantize"]
    assert not any(event.cached for event in told if isinstance(event, StageFinished))
    with pytest.raises(JobCancelledError):
        build_model(recipe, reporter=CallbackReporter(told.append, lambda: True))


def test_code_of_a_recipe_runs_only_where_it_is_allowed(place: Path) -> None:
    Path("ops.py").write_text(
        "from pathlib import Path\nPath('ran').touch()\n"
        "class cstNothing:\n    op_type = 'cstNothing'\n"
        "    def shape_infer(self, node, in_shapes, in_dtypes):\n"
        "        return in_shapes[:], in_dtypes[:]\n"
        "    def compute(self, node, inputs):\n        return inputs\n"
    )
    recipe = Recipe.from_values({**VALUES, "custom_ops": ["ops.py:cstNothing"]})
    with pytest.raises(RecipeError, match=r"ops\.py"):
        build_model(recipe)
    assert not Path("ran").exists()
    build_model(recipe, allow_code=[Path("ops.py")])
    assert Path("ran").exists()
