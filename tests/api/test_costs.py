"""``engine.estimate`` and ``engine.check``: what a model costs on chips, from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import engine
from engine.api import RKNN
from engine.api.estimated import cores_of
from engine.base.errors import SourceModelError, UsageError
from engine.devices.measure.perf_text import parse_perf_text
from engine.facts import chips
from tests.api.conftest import built, ready
from tests.graph.models import finish, nodes_of, tensor


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


def test_the_batch_is_the_recipe_s_where_none_is_asked_for(model: Path) -> None:
    recipe = engine.Recipe.from_values({"model": str(model), "rknn_batch_size": 4})
    memory = {}
    for asked in (None, 4, 1):
        chip = engine.estimate(recipe, ["rk3588"], batch=asked, use_cache=False).chips[0]
        assert chip.batch == (asked or 4)
        assert chip.memory is not None
        memory[asked] = chip.memory.total
    assert memory[None] == memory[4] > memory[1]


def test_check_counts_every_layer(model: Path) -> None:
    one = engine.check(model, ["rk3588"], use_cache=False).chips[0]
    assert one.npu_layers > 0
    assert len(one.rows) == one.cpu_layers + one.refused_layers


@pytest.mark.parametrize(
    ("kind", "said", "arguments"),
    [
        (UsageError, "no chip", {"chips": ["rk9999"]}),
        (ValueError, "batch", {"batch": 0}),
        (ValueError, "npu_mhz", {"npu_mhz": float("nan")}),
        (UsageError, "no input", {"input_sizes": ["nobody=1,3,8,8"]}),
    ],
)
def test_arguments_that_do_not_fit_raise(
    kind: type[Exception], said: str, arguments: dict[str, Any], model: Path
) -> None:
    with pytest.raises(kind, match=said):
        engine.estimate(model, use_cache=False, **arguments)


def test_sizes_of_a_dynamic_model_are_given_by_name(tmp_path: Path) -> None:
    a, b, y = (tensor(name, 1, 8, "h", "w") for name in "aby")
    file = tmp_path / "dynamic.onnx"
    onnx.save(finish(nodes_of("y = Add (a, b)"), [a, b], [y], opset=17, ir_version=9), file)
    with pytest.raises(SourceModelError, match="input_size_list"):
        engine.estimate(file, ["rk3588"], use_cache=False)
    sizes = ["b=1,8,16,16", "a=1,8,16,16"]
    found = engine.estimate(file, ["rk3588"], input_sizes=sizes, use_cache=False).chips[0]
    assert found.time_ms is not None
    assert "(1,8,16,16)" in found.layers[0].shape_out


@pytest.mark.usefixtures("place")
def test_generation_2_without_a_target_is_estimated(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = ready(target_platform="rk3588")
    capsys.readouterr()
    text = rknn.eval_perf()
    assert text in capsys.readouterr().err
    assert "Performance (estimated)" in text
    report = parse_perf_text(text)  # the form is the runtime's: its reader takes it
    assert report.dialect == "generation 2, from 1.6"
    assert report.rows
    # what says that nothing was measured is no line of a board's
    assert any("(estimated)" in each.text for each in report.unread)
    assert {row.target for row in report.rows} <= {"NPU", "CPU"}
    assert sum(row.total_cycles or 0 for row in report.rows) > 0
    assert report.microseconds
    memory = rknn.eval_memory(is_print=False)
    assert set(memory) == {"weight_memory", "internal_memory", "other_memory", "total_memory"}
    assert memory["total_memory"] == memory["weight_memory"] + memory["internal_memory"] > 0
    assert "estimated" not in capsys.readouterr().err
    rknn.eval_memory()
    assert "(estimated for rk3588)" in capsys.readouterr().err


@pytest.mark.usefixtures("place")
def test_more_cores_are_a_core_mask(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = built(target_platform="rk3588")
    assert rknn.init_runtime(core_mask=RKNN.NPU_CORE_0_1_2) == 0
    assert "several cores" in rknn.eval_perf(is_print=False)
    masks = (RKNN.NPU_CORE_AUTO, RKNN.NPU_CORE_1, RKNN.NPU_CORE_0_1, RKNN.NPU_CORE_ALL, None)
    assert [cores_of(mask) for mask in masks] == [1, 1, 2, 8, 1]


@pytest.mark.usefixtures("place")
def test_generation_1_without_a_target_is_the_dictionary_of_its_manual(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rknn = ready(generation=1, target_platform=["rv1126"])
    capsys.readouterr()
    found = rknn.eval_perf(is_print=True)
    told = capsys.readouterr().err
    assert set(found) == {"total_time", "layers"}
    assert set(found["layers"]["0"]) == {"name", "time"}
    assert parse_perf_text(told).dialect == "generation 1"
    assert "FPS(934MHz)" in told
    memory = rknn.eval_memory()
    assert set(memory) == {"system_memory", "npu_memory", "total_memory"}
    assert memory["npu_memory"]["maximum_allocation"] > 0


@pytest.mark.usefixtures("place")
def test_without_a_chip_the_reason_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert ready().eval_perf() == -1
    assert "Name target_platform" in capsys.readouterr().err


@pytest.mark.usefixtures("place")
def test_chips_that_a_model_runs_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = built(target_platform="rk3566")
    file = tmp_path / "net.rknn"
    assert rknn.export_rknn(str(file)) == 0
    capsys.readouterr()
    found = rknn.list_support_target_platform(rknn_model=str(file))
    assert found == {
        "support_target_platform": ["RK3566", "RK3568"],
        "filled_target_platform": ["RK3566"],
    }
    assert "Target platforms supported by this RKNN model" in capsys.readouterr().err
    assert rknn.list_support_target_platform() is None
    told = capsys.readouterr().err
    assert all(one.name.upper() in told for one in chips())
    (tmp_path / "text.rknn").write_text("no model")
    assert rknn.list_support_target_platform(str(tmp_path / "text.rknn")) == -1


def test_a_layer_that_the_user_put_on_the_cpu_is_there(model: Path) -> None:
    plain = engine.estimate(model, ["rk3588"], use_cache=False).chips[0]
    layer = next(row for row in plain.layers if row.target == "NPU" and "Add" in row.op)
    recipe = engine.Recipe.from_values({"model": str(model), "op_target": {layer.id: "cpu"}})
    found = engine.estimate(recipe, ["rk3588"], use_cache=False).chips[0]
    assert found.cpu_layers > plain.cpu_layers
    assert "CPU" in {row.target for row in found.layers if layer.id in row.layers}
