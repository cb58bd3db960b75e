"""The second opinion with the real toolkit: what is wrong is found; one file has every shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from engine.container.vendor import inspect_vendor
from engine.toolkit.compile.compiler import CompilerRequest, CompilerRun
from engine.wire.compile import OWN_SAMPLES
from rknntui.demo import demo_recipe
from tests.vendor.models import dataset, save_model
from tests.vendor.test_compile import compiled, sound

pytestmark = [
    pytest.mark.long,
    pytest.mark.vendor,
    pytest.mark.usefixtures("vendor_home"),
]

SETS = [[[1, 3, 192, 192]], [[1, 3, 256, 256]], [[1, 3, 224, 224]]]
"""The three sizes of the vendor's example of dynamic_input."""


@pytest.fixture
def wrong_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toolkit that changes a layer behind our back: a weight is handed over turned round."""
    whole = CompilerRun.__init__

    def turned(self: CompilerRun, toolkit: Any, request: CompilerRequest, *more: Any) -> None:
        model = onnx.load_from_string(request.model)
        convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
        weight = convolutions[len(convolutions) // 2].input[1]
        source = next(node for node in model.graph.node if weight in node.output).input[0]
        stored = next(each for each in model.graph.initializer if each.name == source)
        array = numpy_helper.to_array(stored)[::-1]
        stored.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), source))
        changed = CompilerRequest(
            chip=request.chip,
            model=model.SerializeToString(),
            by=request.by,
            config=request.config,
            build=request.build,
        )
        whole(self, toolkit, changed, *more)

    monkeypatch.setattr(CompilerRun, "__init__", turned)


@pytest.mark.usefixtures("wrong_layer")
def test_a_model_that_computes_something_else_is_not_written(tmp_path: Path) -> None:
    out = tmp_path / "net.rknn"
    (one,) = compiled(out, demo_recipe(), chips=("rk3588",)).chips
    assert one.exit_code == 16
    assert "something else than the build" in one.problem
    assert list(tmp_path.iterdir()) == []
    # the figures are there all the same, and where it begins
    (row,) = one.outputs
    assert row.cosine < 0.99
    assert "They part at" in one.cause
    assert "(Conv" in one.cause or "(Relu" in one.cause or "(Add" in one.cause
    assert "--accept-difference" in one.remedy
    # it is kept: to accept it costs no compilation
    (kept,) = compiled(out, demo_recipe(), chips=("rk3588",), accept_difference=True).chips
    assert (kept.cached, kept.problem, kept.path) == (True, "", str(out))
    assert "difference-accepted" in {each.code for each in kept.findings}
    (silent,) = compiled(tmp_path / "b.rknn", demo_recipe(), chips=("rk3588",), samples=0).chips
    assert (silent.outputs, silent.opinion_seconds, silent.problem) == ((), None, "")


def test_by_default_one_calibration_sample_is_equal_bit_by_bit(tmp_path: Path) -> None:
    for level in (2, 3):
        recipe = {**demo_recipe(), "optimization_level": level}
        (one,) = compiled(tmp_path / f"{level}.rknn", recipe, chips=("rv1106",)).chips
        (row,) = one.outputs
        assert (row.samples, row.unequal, row.max_steps) == (1, 0, 0)
        assert one.samples_from == "calibration"
        assert one.opinion_seconds is not None
        # what it costs beside the compilation
        assert one.opinion_seconds < max(1.0, 0.5 * one.seconds)
    mine = Path(str(demo_recipe()["dataset"])).parent
    (given,) = compiled(tmp_path / "mine.rknn", recipe, chips=("rv1106",), samples=str(mine)).chips
    assert (given.samples_from, given.outputs[0].samples) == ("given", OWN_SAMPLES)
    assert given.outputs[0].unequal == 0


def test_attention_has_our_numbers_as_compiled(tmp_path: Path) -> None:
    """At level 3 an operand of each product is rounded once more; Softmax is in float16."""
    rng = np.random.default_rng(0)
    stored = {
        "w": rng.normal(0, 0.2, (128, 64, 1, 1)).astype(np.float32),
        "heads": np.array([1, 2, 64, 100], np.int64),
        "parts": np.array([16, 16, 32], np.int64),
        "quarter": np.array(0.25, np.float32),
        "picture": np.array([1, 64, 10, 10], np.int64),
    }
    turned = [0, 1, 3, 2]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "c"),
        helper.make_node("Reshape", ["c", "heads"], ["h"], "h"),
        helper.make_node("Split", ["h", "parts"], ["q", "k", "v"], "s", axis=2),
        helper.make_node("Transpose", ["q"], ["qt"], "qt", perm=turned),
        helper.make_node("MatMul", ["qt", "k"], ["a"], "a"),
        helper.make_node("Mul", ["a", "quarter"], ["m"], "m"),
        helper.make_node("Softmax", ["m"], ["p"], "p", axis=-1),
        helper.make_node("Transpose", ["p"], ["pt"], "pt", perm=turned),
        helper.make_node("MatMul", ["v", "pt"], ["o"], "o"),
        helper.make_node("Reshape", ["o", "picture"], ["y"], "y"),
    ]
    shape = [1, 64, 10, 10]
    recipe = {
        "model": str(save_model(tmp_path / "net.onnx", nodes, {"x": shape}, {"y": shape}, stored)),
        "dataset": str(dataset(tmp_path, [[rng.normal(size=shape)] for _ in range(4)])),
    }
    for level, share in ((2, 0.97), (3, 0.97)):
        out = tmp_path / f"{level}.rknn"
        asked = {**recipe, "optimization_level": level}
        (one,) = sound(out, asked, chips=("rk3588",), samples=4)
        (row,) = one.outputs
        assert row.equal > share  # without it 37 % at level 3
        assert row.cosine > 0.9999
        codes = {each.code for each in one.findings}
        assert ("operands-rounded" in codes) == (level == 3)


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
@pytest.mark.parametrize("writer", ["depthwise", "groups", "transposed", "product", "small"])
def test_an_activation_has_our_numbers_as_compiled(op: str, writer: str, tmp_path: Path) -> None:
    """At level 3 it is a table of a narrower range, but behind a convolution."""
    rng = np.random.default_rng(1)
    shape = [1, 8, 24, 24]
    group = {"depthwise": 8, "groups": 2}.get(writer, 1)
    kernel = (8, 8, 2, 2) if writer == "transposed" else (8, 8 // group, 3, 3)
    scale = 0.3 if writer == "small" else 1.0
    stored = {
        "w": rng.normal(size=kernel) * scale,
        "b": np.full(8, -8.0 if writer == "small" else 0.0),
    }
    if writer == "transposed":
        nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], "y", strides=[2, 2])]
    else:
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], "y", group=group)]
    if writer == "product":
        nodes.append(helper.make_node("Mul", ["y", "y"], ["m"], "m"))
    nodes.append(helper.make_node(op, [nodes[-1].output[0]], ["z"], "z"))
    constants = {name: array.astype(np.float32) for name, array in stored.items()}
    model = save_model(tmp_path / "net.onnx", nodes, {"x": shape}, {"z": None}, constants, 13)
    samples = dataset(tmp_path, [[rng.normal(size=shape)] for _ in range(4)])
    recipe = {"model": str(model), "dataset": str(samples)}
    (one,) = sound(tmp_path / "net.rknn", recipe, chips=("rk3588",), samples=2)
    (row,) = one.outputs
    assert row.unequal <= 2  # before: up to 63 % of the values


def mobile(path: Path, *, head: str) -> Path:
    """A MobileNet of five strides and its mean, for any size; or a detector's head."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    stored = {"lo": np.float32(0), "hi": np.float32(6)}

    def constant(name: str, array: np.ndarray) -> str:
        stored[name] = array
        return name

    def conv(source: str, cin: int, cout: int, kernel: int, stride: int, group: int) -> str:
        name = f"conv{len(nodes)}"
        spread = np.sqrt(2 / (cin // group * kernel * kernel))
        weight = rng.normal(0, spread, (cout, cin // group, kernel, kernel)).astype(np.float32)
        inputs = [source, constant(f"{name}_w", weight)]
        inputs.append(constant(f"{name}_b", rng.normal(0, 0.1, cout).astype(np.float32)))
        attributes = {"strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": group}
        nodes.append(helper.make_node("Conv", inputs, [name], name, **attributes))
        nodes.append(helper.make_node("Clip", [name, "lo", "hi"], [f"{name}_r"], f"{name}_r"))
        return f"{name}_r"

    value, channels = conv("x", 3, 8, 3, 2, 1), 8
    for wide in (16, 32, 48, 64):
        value = conv(value, channels, channels, 3, 2, channels)
        value, channels = conv(value, channels, wide, 1, 1, 1), wide
    if head == "mean":
        nodes.append(helper.make_node("GlobalAveragePool", [value], ["mean"], "mean"))
        nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], "flat"))
        weight = constant("fc_w", rng.normal(0, 0.2, (10, 64)).astype(np.float32))
        nodes.append(helper.make_node("Gemm", ["flat", weight], ["y"], "fc", transB=1))
        shape: list[int | str] = [1, 10]
    else:
        rows = constant("rows", np.array([1, 64, -1], np.int64))
        nodes.append(helper.make_node("Reshape", [value, rows], ["y"], "rows"))
        shape = [1, 64, "places"]
    return save_model(path, nodes, {"x": [1, 3, "high", "wide"]}, {"y": shape}, stored, 13)


def of_many_sizes(folder: Path, head: str) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    samples = dataset(folder, [[rng.normal(size=(1, 3, 192, 192))] for _ in range(4)])
    model = mobile(folder / "net.onnx", head=head)
    return {"model": str(model), "dataset": str(samples), "dynamic_input": SETS}


@pytest.mark.parametrize("level", [2, 3])
def test_one_file_is_right_for_every_set_of_shapes(level: int, tmp_path: Path) -> None:
    recipe = {**of_many_sizes(tmp_path, "mean"), "optimization_level": level}
    for one in sound(tmp_path / "out", recipe, chips=("rk3588", "rv1106")):
        assert [row.shapes for row in one.outputs] == ["1x3x192x192", "1x3x256x256", "1x3x224x224"]
        for row in one.outputs:
            assert row.unequal == 0
        # at level 3 the mean runs on the CPU: the toolkit's own kernels of it are up to 4 steps off
        means = [row.target for row in one.layers if "Mean" in row.op or "AveragePool" in row.op]
        assert means == ["NPU" if level == 2 else "CPU"]
        # the plan is of the largest set, as the compiler's table is
        assert one.total_cycles == sum(row.estimated_total_cycles or 0 for row in one.layers)
        assert not [each for each in one.findings if each.severity != "info"]
        assert inspect_vendor(Path(one.path)).inputs[0].tensor.shape == (1, 3, 256, 256)


def test_what_the_toolkit_takes_for_one_set_only_is_refused_with_a_way_out(tmp_path: Path) -> None:
    """It folds the Reshape of a head for the first set; the model used to be written."""
    recipe = of_many_sizes(tmp_path, "rows")
    (one,) = compiled(tmp_path / "out", recipe, chips=("rk3588",)).chips
    assert (one.path, one.exit_code) == ("", 16)
    assert "1x3x256x256" in one.problem
    assert "rows and columns" in one.cause
    assert "--outputs" in one.remedy
    assert list((tmp_path / "out").iterdir()) == []
    ended = {**recipe, "outputs": ["conv16_r"]}
    (made,) = sound(tmp_path / "out", ended, chips=("rk3588",))
    assert [row.unequal for row in made.outputs] == [0, 0, 0]


def test_the_vendors_example_of_several_shapes(tmp_path: Path, zoo: Path) -> None:
    """Its MobileNetV2 of Caffe, with its mean, std and order of channels."""
    recipe = {
        "model": str(zoo / "caffe" / "mobilenet_v2.prototxt"),
        "weights": str(zoo / "caffe" / "mobilenet_v2_random.caffemodel"),
        "dataset": str(zoo / "images" / "imagenet"),
        "mean_values": [[103.94, 116.78, 123.68]],
        "std_values": [[58.82] * 3],
        "quant_img_RGB2BGR": True,
        "dynamic_input": SETS,
    }
    (one,) = sound(tmp_path / "net.rknn", recipe, chips=("rk3588",))
    assert len(one.outputs) == len(SETS)
    # the output is a Softmax: float16 there and here
    assert min(row.cosine for row in one.outputs) > 0.99999
    assert not [each for each in one.findings if each.code.startswith("second-opinion")]


def _far_scales(path: Path, span: int) -> Path:
    """A convolution with channels up to 4 * ``span`` apart, whose large ones are cut off at 6."""
    rng = np.random.default_rng(0)
    apart = np.float32([1, 2, 8, 64, span / 2, span, span * 1.1, span * 1.5, span * 2, span * 4])
    weight = rng.uniform(-1, 1, (10, 16, 3, 3)).astype(np.float32)
    weight /= np.abs(weight).max((1, 2, 3), keepdims=True) * apart[:, None, None, None] / span
    stored = {"w": weight, "b": np.full(10, 3, np.float32)}
    stored |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["sum"], pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["sum", "low", "high"], ["y"]),
    ]
    ends = {"x": [1, 16, 16, 16]}, {"y": [1, 10, 16, 16]}
    return save_model(path, nodes, *ends, stored)


@pytest.mark.parametrize(("chip", "span"), [("rk3566", 1 << 10), ("rv1106", 1 << 14)])
def test_scales_farther_apart_than_the_chip_has_them_are_equal(
    chip: str, span: int, tmp_path: Path
) -> None:
    """The compiler rounds such weights anew without a word; so does the file."""
    rng = np.random.default_rng(1)
    recipe = {
        "model": str(_far_scales(tmp_path / "far.onnx", span)),
        "dataset": str(dataset(tmp_path, [[rng.random((1, 16, 16, 16))]])),
    }
    (one,) = compiled(tmp_path / "far.rknn", recipe, chips=(chip,)).chips
    (row,) = one.outputs
    assert row.unequal == 0
    (told,) = [each for each in one.findings if each.code == "coarse-channels"]
    assert "(4)" in told.what
    assert f"by a factor of {span} at most" in told.cause


@pytest.mark.parametrize("level", [2, 3])
def test_a_gelu_is_one_layer_of_the_npu_and_equal(level: int, tmp_path: Path) -> None:
    """Toolkit 2.3.2 loads no Gelu; of its parts it makes one, of 8 bits."""
    rng = np.random.default_rng(0)
    stored = {
        "w": rng.uniform(-0.3, 0.3, (16, 16, 3, 3)).astype(np.float32),
        "b": rng.normal(size=16).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Gelu", ["c"], ["g"]),
        helper.make_node("Conv", ["g", "w", "b"], ["y"], pads=[1, 1, 1, 1]),
    ]
    shape = (1, 16, 16, 16)
    path = tmp_path / "gelu.onnx"
    recipe = {
        "model": str(save_model(path, nodes, {"x": shape}, {"y": shape}, stored, 20)),
        "dataset": str(dataset(tmp_path, [[rng.random(shape)]])),
        "optimization_level": level,
    }
    (one,) = compiled(tmp_path / "gelu.rknn", recipe, chips=("rk3588",)).chips
    assert one.outputs[0].unequal == 0
    assert [(row.dtype, row.target) for row in one.layers if "Gelu" in row.op] == [("INT8", "NPU")]
