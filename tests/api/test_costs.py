"""``engine.estimate`` and ``engine.check``: what a model costs on chips, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.base.errors import UsageError


@pytest.fixture
def model(demo: Path) -> Path:
    return next(demo.glob("*.onnx"))


def test_a_file_and_a_recipe_cost_the_same(model: Path) -> None:
    recipe = engine.Recipe.from_values({"model": str(model)})
    first, second = (engine.estimate(each, ["rk3588"], use_cache=False) for each in (model, recipe))
    assert first.chips == second.chips
    assert first.chips[0].label == "estimated"
    assert first.chips[0].layers


def test_a_layer_that_is_lifted_costs_more(model: Path) -> None:
    plain = engine.estimate(model, ["rk3566"], use_cache=False).chips[0]
    layer = max(plain.layers, key=lambda row: row.macs).id
    recipe = engine.Recipe.from_values(
        {"model": str(model), "quantized_layers": {layer: "float16"}}
    )
    lifted = engine.estimate(recipe, ["rk3566"], use_cache=False).chips[0]
    dtypes = {row.dtype for row in lifted.layers if row.id == layer and row.macs}
    assert dtypes == {"float16"}
    assert lifted.total_cycles > plain.total_cycles


def test_a_build_without_quantization_is_float16(model: Path) -> None:
    recipe = engine.Recipe.from_values({"model": str(model), "do_quantization": False})
    found = engine.estimate(recipe, ["rk3588", "rv1106"], use_cache=False)
    assert found.chips[0].dtype == "float16"
    assert "no float16" in found.chips[1].problem


def test_check_counts_every_layer(model: Path) -> None:
    one = engine.check(model, ["rk3588"], use_cache=False).chips[0]
    assert one.npu_layers > 0
    assert len(one.rows) == one.cpu_layers + one.refused_layers


def test_arguments_that_do_not_fit_raise(model: Path) -> None:
    with pytest.raises(UsageError, match="no chip"):
        engine.estimate(model, ["rk9999"])
    with pytest.raises(ValueError, match="batch"):
        engine.estimate(model, batch=0)
    with pytest.raises(UsageError, match="no input"):
        engine.estimate(model, input_sizes=["nobody=1,3,8,8"], use_cache=False)
