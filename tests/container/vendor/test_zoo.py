"""The vendor's files of the zoo: what is read of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import ContainerError
from engine.container import read_container
from engine.container.vendor import VendorModel, inspect_op_package, inspect_vendor

NPUS = {"rk3562": "RKNPU t4", "rk3566": "RKNPU lite", "rk3576": "RKNPU f2", "rk3588": "RKNPU v2"}
EARLY = "1.6.1-source_code", "1.6.1b12 (2de89fcd7@2024-02-21T07:13:29)"
LATER = "1.6.2-source_code", "1.6.2b0 (6e4d1b714@2024-02-26T09:11:35)"
LATEST = "2.3.1-source_code", "2.3.2 (c978047055@2025-03-29T19:29:52)"

# file -> platform, (toolkit, compiler), (weights, internal, copies), number of tensors
MODELS: dict[str, tuple[str, tuple[str, str], tuple[int, int, int], int]] = {
    "dual_residual_RK3562": ("rk3562", EARLY, (128, 6720, 0), 11),
    "dual_residual_RK3566_RK3568": ("rk3566", EARLY, (128, 5536, 0), 11),
    "dual_residual_RK3576": (
        "rk3576",
        ("1.6.2-source_code", "1.6.2b0 (b1e4be9ca@2024-03-04T09:14:44)"),
        (128, 9920, 0),
        11,
    ),
    "dual_residual_RK3588": ("rk3588", EARLY, (2176, 9920, 0), 13),
    "multiple_input_RK3562": ("rk3562", LATER, (896, 720896, 0), 13),
    "multiple_input_RK3566_RK3568": ("rk3566", LATER, (1408, 1114112, 5120), 14),
    "multiple_input_RK3576": ("rk3576", LATER, (2176, 1114112, 0), 13),
    "multiple_input_RK3588": ("rk3588", LATER, (4864, 1114112, 0), 13),
    "pp_human_segv2_RK3562": ("rk3562", LATEST, (1560000, 1769472, 52480), 766),
    "pp_human_segv2_RK3566_RK3568": ("rk3566", LATEST, (1562304, 1806336, 44544), 766),
    "pp_human_segv2_RK3576": ("rk3576", LATEST, (1652416, 3022848, 101440), 1321),
    "pp_human_segv2_RK3588": ("rk3588", LATEST, (1572288, 3022848, 66048), 768),
}


def opened(zoo: Path, name: str) -> VendorModel:
    return inspect_vendor(zoo / "rknn_vendor" / name)


def test_every_file_is_listed_here(zoo: Path) -> None:
    listed = {f"{name}.rknn" for name in MODELS} | {"resize_area_toolkit1.rknn"} | set(PACKAGES)
    assert {path.name for path in (zoo / "rknn_vendor").iterdir()} == listed


@pytest.mark.parametrize("name", MODELS)
def test_models_of_generation_2(zoo: Path, name: str) -> None:
    platform, (toolkit, compiler), sizes, tensors = MODELS[name]
    model = opened(zoo, f"{name}.rknn")
    assert (model.kind, model.container_version, model.generation) == ("npu", 6, 2)
    assert (model.platforms, model.chips, model.npu) == ((platform,), (platform,), NPUS[platform])
    assert (model.toolkit, model.compiler) == (toolkit, compiler)
    assert (model.framework, model.custom_string, model.dynamic) == ("ONNX", "", False)
    assert (model.memory.weights, model.memory.internal, model.memory.copies) == sizes
    assert model.size == model.memory.sections[0][1] + model.memory.sections[1][1] + 72
    assert [len(graph.tensors) for graph in model.graphs] == [tensors]
    assert model.findings == ()
    check = {"dual": dual_residual, "multiple": multiple_input, "pp": human_segmentation}
    check[name.split("_")[0]](model)


def dual_residual(model: VendorModel) -> None:
    ports = [(p.tensor.name, p.tensor.shape, p.tensor.dtype) for p in model.inputs + model.outputs]
    assert ports == [(name, (1, 3, 10, 10), "float16") for name in "0123"]
    ops = [layer.op for layer in model.graphs[0].layers]
    assert ops == [
        *["InputOperator"] * 2,
        *["Conv"] * 2,
        "cstDualResidual",
        *["OutputOperator"] * 2,
    ]
    custom = model.graphs[0].layers[4]
    assert (custom.name, custom.source_name) == (
        "cstDualResidual:cstDualResidual_0",
        "cstDualResidual_0",
    )
    assert custom.source_attributes == (("alpha", 0.5),)
    assert all(tensor.quant is None for tensor in model.graphs[0].tensors)


def multiple_input(model: VendorModel) -> None:
    one, three = model.inputs
    (out,) = model.outputs
    assert [(p.tensor.name, p.tensor.shape) for p in (one, three, out)] == [
        ("input.1", (1, 1, 128, 128)),
        ("input", (1, 3, 128, 128)),
        ("8", (1, 8, 128, 128)),
    ]
    assert (one.mean, one.std, three.mean, three.std) == ((0.0,), (1.0,), (0.0,) * 3, (1.0,) * 3)
    assert (three.runtime_dtype, three.runtime_layout, three.rgb2bgr) == ("int8", "NHWC", False)
    quant = out.tensor.quant
    assert quant is not None
    assert (quant.dtype, quant.method, quant.zero_point) == ("int8", "layer", (20,))
    assert quant.scale == pytest.approx((4.142374515533447,), abs=0)
    assert quant.observed == (-612.123291015625, 444.1822204589844)
    last = model.graphs[0].layers[3]
    assert (last.op, last.name) == ("ConvAdd", "Conv:Conv_0")
    assert dict(last.attributes)["pads"] == (1, 1, 1, 1)


def human_segmentation(model: VendorModel) -> None:
    (x,), (y,) = model.inputs, model.outputs
    assert (x.mean, x.std) == ((127.5,) * 3, (127.5,) * 3)
    assert x.tensor.quant is not None
    assert (x.tensor.quant.scale, x.tensor.quant.zero_point) == ((0.007843137718737125,), (0,))
    assert (y.tensor.name, y.tensor.shape, y.tensor.dtype) == (
        "argmax_0.tmp_0",
        (1, 192, 192),
        "int64",
    )
    graph = model.graphs[0]
    assert len(graph.layers) == 102
    first = next(layer for layer in graph.layers if layer.op == "ConvRelu")
    attributes = dict(first.attributes)
    assert (attributes["pads"], attributes["strides"]) == ((0, 0, 1, 1), (2, 2))
    resize = next(layer for layer in graph.layers if layer.op == "Resize")
    assert dict(resize.attributes)["mode"] == "linear"
    assert sum(tensor.quant is not None for tensor in graph.tensors) == 113


def test_attributes_by_slot_are_those_that_the_compiler_noted_by_name(zoo: Path) -> None:
    """The tables of slots against the file's own names, wherever a layer has both."""
    compared: set[tuple[str, str]] = set()
    for name in MODELS:
        for layer in opened(zoo, f"{name}.rknn").graphs[0].layers:
            noted = dict(layer.source_attributes)
            for key, value in layer.attributes:
                if key in noted:
                    assert noted[key] == value, (name, layer.name)
                    compared.add((layer.op, key))
    assert compared >= {
        ("Conv", key) for key in ("auto_pad", "dilations", "kernel_shape", "pads", "strides")
    } | {("Concat", "axis"), ("ArgMax", "axis")}


def test_scales_are_those_of_their_ranges(zoo: Path) -> None:
    """Scale = (max - min) / 255 and zero point = round(-128 - min / scale), to float32."""
    for name in MODELS:
        for tensor in opened(zoo, f"{name}.rknn").graphs[0].tensors:
            if (quant := tensor.quant) is None:
                continue
            (low,), (high,) = quant.minimum, quant.maximum
            (scale,), (zero,) = quant.scale, quant.zero_point
            assert scale == pytest.approx((high - low) / 255, rel=1e-6), (name, tensor.name)
            assert abs(zero - (-128 - low / scale)) <= 0.5001, (name, tensor.name)


def test_the_model_of_generation_1(zoo: Path) -> None:
    model = opened(zoo, "resize_area_toolkit1.rknn")
    assert (model.kind, model.generation, model.container_version) == ("layers", 1, 2)
    assert (model.toolkit, model.framework, model.name) == ("1.3.0", "tensorflow", "ResizeAreaTest")
    assert model.platforms == ()
    (x,), (y,) = model.inputs, model.outputs
    assert (x.tensor.shape, y.tensor.shape) == ((1, 32, 32, 3), (64, 64, 3))
    assert (x.tensor.dtype, x.mean, x.std, x.rgb2bgr) == ("float16", (0.0,) * 3, (1.0,) * 3, False)
    (layer,) = model.graphs[0].layers
    assert (layer.op, layer.attributes) == (
        "RESIZEAREA",
        (("size", [64, 64]), ("align_corners", 0)),
    )
    (operator,) = model.custom_operators
    assert operator.params == (("size", "VX_TYPE_ARRAY"), ("align_corners", "VX_TYPE_BOOL"))
    assert operator.code == (
        ("kernel", 3609),
        ("host library x86", 13768),
        ("host library aarch64", 13216),
    )
    assert model.findings == ()


PACKAGES: dict[str, dict[str, Any]] = {
    "Exp.rknnop": {"name": "Exp", "inputs": ["input"], "params": [], "kernel": 787},
    "ResizeArea.rknnop": {
        "name": "ResizeArea",
        "inputs": ["input"],
        "params": [("size", "VX_TYPE_ARRAY"), ("align_corners", "VX_TYPE_BOOL")],
        "kernel": 3615,
    },
    "TruncateDiv.rknnop": {
        "name": "TruncateDiv",
        "inputs": ["input1", "input0"],
        "params": [],
        "kernel": 1061,
    },
}


@pytest.mark.parametrize("file", PACKAGES)
def test_packages(zoo: Path, file: str) -> None:
    expected = PACKAGES[file]
    package = inspect_op_package(zoo / "rknn_vendor" / file)
    assert (package.name, package.op_version) == (expected["name"], 2)
    assert (package.target_platform, package.framework) == ("rk1808", "tensorflow")
    assert [name for name, _ in package.inputs] == expected["inputs"]
    assert package.outputs == (("output", "VX_TYPE_TENSOR"),)
    assert list(package.params) == expected["params"]
    assert package.sections[0] == ("kernel", expected["kernel"])
    model = opened(zoo, file)
    assert (model.kind, model.chips) == ("op-package", ("rk1808",))


def test_the_error_of_loading_one_names_platform_and_toolkit(zoo: Path) -> None:
    with pytest.raises(ContainerError, match=r"for rk3576, by toolkit 2\.3\.1"):
        read_container(zoo / "rknn_vendor" / "pp_human_segv2_RK3576.rknn")
    with pytest.raises(ContainerError, match=r"by toolkit 1\.3\.0"):
        read_container(zoo / "rknn_vendor" / "resize_area_toolkit1.rknn")
