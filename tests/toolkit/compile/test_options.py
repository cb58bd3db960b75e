"""What a recipe says to the vendor's compiler: passed on, or told."""

from __future__ import annotations

from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.dataset import InputPlan, Preprocess
from engine.facts import Chip, chip
from engine.graph.ir import TensorSpec
from engine.options import OPTIONS
from engine.recipe import Recipe
from engine.toolkit.compile.options import ToolkitOptions, choose_quantizer, toolkit_options
from engine.wire.compile import QuantizedBy

PICTURE = TensorSpec("x", (1, 3, 8, 8), "float32")


def recipe(**values: Any) -> Recipe:
    return Recipe.from_values({"model": "net.onnx", **values})


def chip_of(name: str) -> Chip:
    found = chip(name)
    assert found is not None
    return found


def plans(told: Recipe, *specs: TensorSpec) -> tuple[InputPlan, ...]:
    return Preprocess.from_recipe(told).plans(specs or (PICTURE,))


def options(
    told: Recipe, name: str = "rk3588", by: QuantizedBy = "ours", version: str = ""
) -> ToolkitOptions:
    return toolkit_options(told, chip_of(name), by, plans(told), version=version)


def test_nothing_is_said_that_the_recipe_does_not_say() -> None:
    found = options(recipe())
    assert found.config == {"target_platform": "rk3588", "optimization_level": 3}
    assert found.build == {"do_quantization": False}
    assert found.findings == ()


def test_mean_and_std_are_one_number_per_channel_of_every_input() -> None:
    told = recipe(
        mean_values=[[127], [0]], std_values=[[128], [1]], quant_img_RGB2BGR=[True, False]
    )
    inputs = plans(told, PICTURE, TensorSpec("ids", (1, 5), "float32"))
    found = toolkit_options(told, chip_of("rk3566"), "ours", inputs).config
    assert found["mean_values"] == [[127.0] * 3, [0.0] * 5]
    assert found["std_values"] == [[128.0] * 3, [1.0] * 5]
    assert found["quant_img_RGB2BGR"] == [True, False]


def test_generation_1_spelling_of_mean_and_scale_is_translated() -> None:
    told = recipe(channel_mean_value=[[103.94, 116.78, 123.68, 58.82]])
    found = options(told).config
    assert found["mean_values"] == [[103.94, 116.78, 123.68]]
    assert found["std_values"] == [[58.82] * 3]


def test_what_concerns_the_compiler_is_passed_on() -> None:
    passed = {
        "custom_string": "v7",
        "compress_weight": True,
        "single_core_mode": True,
        "remove_weight": True,
        "model_pruning": True,
        "enable_flash_attention": True,
        "sparse_infer": True,
        "optimization_level": 2,
        "dynamic_input": [[[1, 3, 8, 8]], [[1, 3, 16, 16]]],
    }
    found = options(recipe(**passed, rknn_batch_size=4), "rk3576")
    assert found.config == passed | {"target_platform": "rk3576"}
    assert found.build == {"do_quantization": False, "rknn_batch_size": 4}
    assert found.findings == ()


def test_what_a_chip_or_toolkit_does_not_take_is_told() -> None:
    told = recipe(sparse_infer=True, need_horizontal_merge=True, reorder_channel=[[2, 1, 0]])
    found = options(told, "rk3588")
    assert "sparse_infer" not in found.config
    assert {each.where for each in found.findings} == {
        "sparse_infer",
        "need_horizontal_merge",
        "reorder_channel",
    }


def test_every_option_of_the_compiler_is_passed_on_or_told() -> None:
    """A new option for the compiler alone cannot be forgotten here."""
    changes = {
        option.name: "text" if option.kind == "text" else True
        for option in OPTIONS
        if option.role == "compiler"
    }
    assert len(changes) >= 6
    for name, value in changes.items():
        for platform in ("rk3588", "rk1808"):
            found = options(recipe(**{name: value}), platform)
            told = {each.where for each in found.findings}
            assert name in found.config or name in told, (name, platform)


def test_ours_goes_through_pairs_where_the_toolkit_takes_them() -> None:
    assert choose_quantizer(recipe(), chip_of("rk3588")) == ("ours", ())
    assert choose_quantizer(recipe(do_quantization=False), chip_of("rk3588")) == ("nobody", ())


def test_other_dtypes_are_quantized_by_the_vendor_and_said_so() -> None:
    told = recipe(quantized_dtype="w16a16i")
    by, (finding,) = choose_quantizer(told, chip_of("rv1106"))
    assert (by, finding.code) == ("vendor", "quantized-by-vendor")
    found = options(told, "rv1106", by)
    assert found.config["quantized_dtype"] == "w16a16i"
    assert found.build == {"do_quantization": True}
    with pytest.raises(UsageError, match="cannot be compiled for rv1106") as caught:
        choose_quantizer(told, chip_of("rv1106"), "ours")
    assert "w16a16i" in caught.value.cause


def test_the_vendors_own_quantization_takes_its_own_algorithms() -> None:
    told = recipe(
        quantized_algorithm="accurate",
        quantized_layers={"conv": "float16"},
        auto_hybrid=True,
    )
    by, findings = choose_quantizer(told, chip_of("rk3588"), "vendor")
    assert {each.where for each in findings} == {"quantized_algorithm", "quantized_layers"}
    found = options(told, by=by)
    assert found.config["quantized_algorithm"] == "normal"
    assert found.build["auto_hybrid"] is True
    kept = options(recipe(quantized_algorithm="mmse"), by="vendor")
    assert kept.config["quantized_algorithm"] == "mmse"


def test_a_build_without_quantization_is_float16() -> None:
    told = recipe(do_quantization=False, quantize_weight=True, float_dtype="float32")
    found = options(told, "rk3562", "nobody")
    assert found.config["float_dtype"] == "float16"
    assert found.config["quantize_weight"] is True
    assert [each.where for each in found.findings] == ["float_dtype"]


def test_generation_1_has_its_own_names() -> None:
    told = recipe(
        quantized_dtype="asymmetric_quantized-u8",
        mean_values=[[127.5, 127.5, 127.5]],
        std_values=[[128, 128, 128]],
        reorder_channel=[[2, 1, 0]],
        compress_weight=True,
    )
    by, _ = choose_quantizer(told, chip_of("rk1808"))
    assert by == "vendor"
    old = options(told, "rk1808", by, "1.3.2")
    assert old.config["channel_mean_value"] == "127.5 127.5 127.5 128"
    assert old.config["quantized_dtype"] == "asymmetric_quantized-u8"
    assert old.config["target_platform"] == ["rk1808"]
    assert old.config["reorder_channel"] == "2 1 0"
    assert [each.where for each in old.findings] == ["compress_weight"]
    later = options(told, "rk1808", by, "1.7.5")
    assert later.config["quantized_dtype"] == "asymmetric_affine-u8"
    assert later.config["mean_values"] == [[127.5] * 3]
    assert options(told, "rk1808", by, "1.6.0") == later
    with pytest.raises(UsageError, match="one std"):
        options(
            recipe(std_values=[[1, 2, 3]], quantized_dtype="asymmetric_quantized-u8"),
            "rk1808",
            by,
            "1.3.2",
        )
