"""Options of ``config`` and ``build`` do in the simulator what the manuals say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.api import RKNN
from engine.container import read_container
from engine.pipeline.layers import quantize_settings
from tests.api.conftest import ready, run
from tests.graph.models import finish, nodes_of, tensor

pytestmark = pytest.mark.usefixtures("place")


def codes(rknn: RKNN) -> dict[str, str]:
    """Code -> text of the findings of the build."""
    assert rknn._build is not None
    return {finding.code: finding.what for finding in rknn._build.findings}


def convolutions(path: Path, *, dynamic: bool = False, zeros: bool = False) -> None:
    """Two convolutions and a mean over the picture."""
    rng = np.random.default_rng(6)
    w1 = rng.normal(size=(8, 3, 3, 3)).astype(np.float32) / 5
    if zeros:
        w1[[2, 5]] = 0
    size = ["height", "width"] if dynamic else [16, 16]
    nodes = nodes_of(
        "[conv1] c1 = Conv <pads = [1, 1, 1, 1]> (image, w1); r1 = Relu (c1);"
        "[conv2] c2 = Conv <pads = [1, 1, 1, 1]> (r1, w2); p = GlobalAveragePool (c2);"
        "scores = Flatten (p)"
    )
    constants = {"w1": w1, "w2": rng.normal(size=(4, 8, 3, 3)).astype(np.float32) / 8}
    image, scores = tensor("image", 1, 3, *size), tensor("scores", 1, 4)
    onnx.save(finish(nodes, [image], [scores], constants, opset=17, ir_version=9), path)


def pictures(count: int, size: int = 16) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, size, size, 3)).astype(np.uint8)


def build(name: str = "arcface.onnx", quantize: bool = True, **how: Any) -> RKNN:
    return ready(model=name, quantize=quantize, std_values=[[128] * 3], **how)


def test_rknn_batch_size_runs_several_pictures_at_once(place: Path) -> None:
    given = pictures(4)
    one, four = build(), build(batch=4)
    together = run(four, given)
    assert together.shape == (4, 10)
    np.testing.assert_array_equal(together, np.concatenate([run(one, p) for p in given]))
    assert one._build.quantized.table == four._build.quantized.table
    assert one._build.calibration.key == four._build.calibration.key
    assert "batch size 4" in codes(four)["batch-widened"]
    assert four.inference([given[0]]) is None  # it takes four
    assert four.export_rknn("four.rknn") == 0
    assert read_container(place / "four.rknn").graph.inputs[0].shape[0] == 4


def test_dynamic_input_builds_and_runs_each_shape(place: Path) -> None:
    convolutions(place / "dynamic.onnx", dynamic=True)
    sets = [[[1, 3, 16, 16]], [[1, 3, 24, 20]]]
    rknn = build("dynamic.onnx", dynamic_input=sets)
    fixed = RKNN(generation=2)
    fixed.config(std_values=[[128] * 3])
    assert fixed.load_onnx("dynamic.onnx", input_size_list=[[1, 3, 16, 16]]) == 0
    assert fixed.build(dataset="dataset.txt") == 0
    assert fixed.init_runtime() == 0
    small = pictures(1)[0]
    np.testing.assert_array_equal(run(rknn, small), run(fixed, small))
    large = np.random.default_rng(2).integers(0, 256, (24, 20, 3)).astype(np.uint8)
    plain = build("dynamic.onnx", False, float_dtype="float32", dynamic_input=sets)
    wanted = run(plain, large)
    assert np.abs(run(rknn, large) - wanted).max() < 0.1 * np.ptp(wanted)
    assert "SQNR" in codes(rknn)["dynamic-input-shape"]
    assert rknn.inference([pictures(1, 32)[0]]) is None
    assert rknn.export_rknn("dynamic.rknn") == 0
    recipe = read_container(place / "dynamic.rknn").recipe
    assert recipe["source"]["dynamic_input"] == sets


def test_dynamic_input_needs_a_model_that_takes_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = nodes_of("f = Flatten (image); [product] scores = Gemm (f, w)")
    image, scores = tensor("image", 1, 3, 16, 16), tensor("scores", 1, 4)
    weight = np.ones((768, 4), np.float32)
    fixed = finish(nodes, [image], [scores], {"w": weight}, opset=17, ir_version=9)
    onnx.save(fixed, place / "fixed.onnx")
    rknn = RKNN(generation=2)
    assert rknn.config(dynamic_input=[[[1, 3, 16, 16]], [[1, 3, 20, 20]]]) is None
    assert rknn.load_onnx("fixed.onnx") == 0
    assert rknn.build(dataset="dataset.txt") == -1
    assert "product" in capsys.readouterr().err


def test_model_pruning_keeps_results(place: Path) -> None:
    convolutions(place / "sparse.onnx", zeros=True)
    picture = pictures(1)[0]
    pruned = build("sparse.onnx", False, float_dtype="float32", model_pruning=True)
    plain = build("sparse.onnx", False, float_dtype="float32")
    np.testing.assert_allclose(run(pruned, picture), run(plain, picture), rtol=1e-5, atol=1e-5)
    assert "2 channels were removed" in codes(pruned)["model-pruned"]
    weight = pruned._build.optimised.graph.graph.constant("w1")
    assert weight is not None
    assert weight.shape == (6, 3, 3, 3)


def test_remove_reshape_changes_the_shape_of_the_output(place: Path) -> None:
    convolutions(place / "flat.onnx")
    picture = pictures(1)[0]
    rknn, plain = build("flat.onnx", remove_reshape=True), build("flat.onnx")
    assert run(rknn, picture).shape == (1, 4, 1, 1)
    np.testing.assert_array_equal(run(rknn, picture).reshape(1, 4), run(plain, picture))
    assert "1x4x1x1 now, not 1x4" in codes(rknn)["reshape-removed"]


def test_quantize_weight_stores_weights_in_8_bits(place: Path) -> None:
    convolutions(place / "net.onnx")
    picture = pictures(1)[0]
    small, plain = build("net.onnx", False, quantize_weight=True), build("net.onnx", False)
    wanted = run(build("net.onnx", False, float_dtype="float32"), picture)
    span = np.ptp(wanted)
    errors = [np.abs(run(one, picture) - wanted).max() / span for one in (plain, small)]
    assert errors[0] < 2e-3 < errors[1] < 0.05
    assert "2 weights are stored in 8 bits" in codes(small)["weights-quantized"]
    deployed = small._build.deployed.graph.model.graph.initializers.values()
    kinds = {value.const_value.dtype.name for value in deployed if len(value.shape) == 4}
    assert kinds == {"INT8"}


def test_op_target_computes_in_float_on_the_cpu(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    convolutions(place / "net.onnx")
    rknn = build("net.onnx", op_target={"c2": "cpu", "p": "npu"})
    assert rknn._build is not None
    assert quantize_settings(rknn._build).layers == {"conv2": "float16"}
    assert "c2" not in {n for n, p in rknn._build.quantized.table.items() if p.dtype == "int8"}
    assert {"op-target-cpu", "op-target-unseen"} <= set(codes(rknn))
    wrong = RKNN(generation=2)
    assert wrong.config(op_target={"c3": "cpu"}) is None
    assert wrong.load_onnx("net.onnx") == 0
    capsys.readouterr()
    assert wrong.build(dataset="dataset.txt") == -1
    told = capsys.readouterr().err
    assert "op_target names c3" in told
    assert "c2" in told or "c1" in told


def test_what_only_the_compiler_needs_is_carried(place: Path) -> None:
    set_ = {"compress_weight": True, "single_core_mode": True, "custom_string": "v1"}
    rknn = build("arcface.onnx", **set_)
    notes = [f.where for f in rknn._build.findings if f.code == "option-for-compiler"]
    assert sorted(notes) == sorted(set_)
    assert rknn.export_rknn("all.rknn") == 0
    recipe = read_container(place / "all.rknn").recipe
    assert recipe["compiler"]["compress_weight"] is True
    assert recipe["compiler"]["remove_weight"] is False
    assert recipe["target"]["custom_string"] == "v1"
    plain = build("arcface.onnx")
    np.testing.assert_array_equal(run(rknn, pictures(1)[0]), run(plain, pictures(1)[0]))


def test_auto_hybrid_lifts_layers_by_the_threshold(place: Path) -> None:
    rknn = RKNN(generation=2)
    assert rknn.config(std_values=[[128] * 3], auto_hybrid_cos_thresh=1.0) is None
    assert rknn.load_onnx("arcface.onnx") == 0
    assert rknn.build(dataset="dataset.txt", auto_hybrid=True) == 0
    lifted = {n for n, p in rknn._build.quantized.table.items() if p.dtype == "float16"}
    plain = build("arcface.onnx")
    assert lifted
    assert "float16" not in {p.dtype for p in plain._build.quantized.table.values()}


def test_batch_size_and_epochs_say_how_many_samples_calibrate(place: Path) -> None:
    for values, samples in (({}, 4), ({"batch_size": 2}, 4), ({"batch_size": 2, "epochs": 1}, 2)):
        assert build("arcface.onnx", **values)._build.calibration.samples == samples
