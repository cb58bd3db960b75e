"""Calibration, quantization, analysis, export and containers of graphs with custom operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.accuracy.analyse import analyse
from engine.api import RKNN
from engine.frontends.onnx import load_onnx
from engine.graph.execute import Session
from engine.graph.passes import optimise
from engine.quantize import calibrate, lower_for_vendor, quantize
from engine.simulate import Simulator, integer_coverage
from tests.custom.nets import OPERATORS, DualResidual, branching, cstSoftmax, graph, model, value


def feeds(count: int = 3) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    return [{"x": rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    onnx.save(branching(), tmp_path / "net.onnx")
    for number, feed in enumerate(feeds()):
        np.save(tmp_path / f"{number}.npy", feed["x"])
    (tmp_path / "dataset.txt").write_text("".join(f"{n}.npy\n" for n in range(3)))
    return tmp_path / "net.onnx"


def test_tensors_around_a_custom_operator_are_quantized_and_it_takes_and_gives_floats() -> None:
    found = optimise(graph(branching())).graph
    done = quantize(found, calibrate(found, feeds()))
    for name in ("s1", "s2"):
        node = done.graph.node(name)
        source = node.inputs[0]
        assert source is not None
        assert source.producer().op_type == "DequantizeLinear"  # type: ignore[union-attr]
        assert [n.op_type for n in node.outputs[0].consumers()] == ["QuantizeLinear"]
        assert done.table[name].dtype == "int8"
    layers = {layer.layer: layer for layer in integer_coverage(done.graph, done.layers)}
    assert {name for name, layer in layers.items() if not layer.integer} == {"s1", "s2"}
    assert layers["s1"].reason.startswith("a custom operator: its class computes in float")
    assert layers["sum"].kernel == "QLinearAdd"
    simulator = Simulator(found, done.graph)
    golden, simulated = Session(found).run(feeds()[0])["y"], simulator.run(feeds()[0])["y"]
    assert np.abs(golden - simulated).max() < 0.1 * np.abs(golden).max()


def test_a_custom_operator_among_float_operators_stays_in_float() -> None:
    make = helper.make_node
    weight = np.random.default_rng(0).normal(0, 1, (4, 3, 3, 3)).astype(np.float32)
    proto = model(
        [
            make("Conv", ["x", "w"], ["c"], name="c"),
            make("Softmax", ["c"], ["s"], name="s", axis=1),
            make("cstSoftmax", ["s"], ["y"], name="y", axis=1, domain="cst"),
        ],
        ["y"],
        {"w": weight},
    )
    found = graph(proto)
    done = quantize(found, calibrate(found, feeds()))
    assert "s" not in done.table
    assert "y" not in done.table
    reasons = {layer.layer: layer.reason for layer in integer_coverage(done.graph, done.layers)}
    assert "float operator's results (Softmax)" in reasons["y"]


def test_a_clamp_behind_a_custom_operator_is_no_part_of_it() -> None:
    make = helper.make_node
    weight = np.random.default_rng(0).normal(0, 1, (4, 3, 3, 3)).astype(np.float32)
    proto = model(
        [
            make("Conv", ["x", "w"], ["c"], name="c"),
            make("cstDualResidual", ["c", "c"], ["a", "b"], name="two", alpha=0.5, domain="cst"),
            make("Relu", ["a"], ["r"], name="r"),
            make("Add", ["r", "b"], ["y"], name="y"),
        ],
        ["y"],
        {"w": weight},
    )
    found = graph(proto)
    done = quantize(found, calibrate(found, feeds()))
    assert {"c", "a", "b", "r", "y"} <= set(done.table)
    report = analyse(done, feeds())
    errors = {layer.tensor: layer for layer in report.layers if layer.op != "Input"}
    assert all(layer.cumulative is not None for layer in errors.values())
    assert all(layer.cumulative.cosine > 0.99 for layer in errors.values())  # type: ignore[union-attr]


def test_the_file_for_the_vendor_keeps_node_and_domain() -> None:
    found = graph(branching())
    done = quantize(found, calibrate(found, feeds()))
    lowered = lower_for_vendor(done.graph)
    assert {e.domain: e.version for e in lowered.opset_import} == {"": 19, "cst": 1}
    assert [n.domain for n in lowered.graph.node if n.op_type == "cstSoftmax"] == ["cst", "cst"]


def test_a_model_of_an_older_opset_is_converted_around_it(tmp_path: Path) -> None:
    """Softmax of opset 12 is another one than that of opset 13."""
    path = tmp_path / "old.onnx"
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"], name="a", axis=1),
        helper.make_node("cstSoftmax", ["a"], ["b"], name="b", axis=1),
        helper.make_node("Softmax", ["b"], ["y"], name="y", axis=2),
    ]
    proto = model(nodes, ["y"], domains=())
    proto.opset_import[0].version = 12
    proto.ir_version = 7
    onnx.save(proto, path)
    loaded = load_onnx(path, operators=OPERATORS)
    x = feeds()[0]["x"]

    def softmax(a: np.ndarray, axis: int) -> np.ndarray:
        flat = np.exp(a.reshape(*a.shape[:axis], -1))
        return (flat / flat.sum(axis=-1, keepdims=True)).reshape(a.shape)

    middle = softmax(x, 1)
    middle = np.exp(middle) / np.exp(middle).sum(axis=1, keepdims=True)
    found = Session(loaded.graph).run({"x": x})["y"]
    assert np.abs(found - softmax(middle, 2)).max() < 1e-6


def test_rknn_builds_analyses_exports_and_loads_again(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(saved.parent)
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588") is None
    assert rknn.load_onnx(model=str(saved)) == -1
    assert "no custom operator of its name is registered" in capsys.readouterr().err
    assert rknn.reg_custom_op(cstSoftmax) == 0
    assert rknn.load_onnx(model=str(saved)) == 0
    assert rknn.build(do_quantization=True, dataset="dataset.txt") == 0
    assert rknn.init_runtime() == 0
    x = feeds()[0]["x"]
    outputs = rknn.inference(inputs=[x], data_format=["nchw"])
    assert rknn.accuracy_analysis(inputs=["0.npy"], output_dir="shot") == 0
    table = Path("shot/error_analysis.txt").read_text()
    assert "[cstSoftmax] s1" in table
    assert rknn.export_rknn("net.rknn") == 0
    # the container has no code: the class is given beside it
    other = RKNN()
    assert other.load_rknn("net.rknn") == 0
    assert other.init_runtime() == -1
    assert "no class is registered" in capsys.readouterr().err
    assert other.reg_custom_op(cstSoftmax) == 0
    assert other.init_runtime() == 0
    assert np.array_equal(other.inference(inputs=[x], data_format=["nchw"])[0], outputs[0])
    assert b"cstSoftmax" in Path("net.rknn").read_bytes()
    assert b"x_max" not in Path("net.rknn").read_bytes()


def test_a_changed_class_never_meets_results_of_the_old_one(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)

    def built(factor: float) -> np.ndarray:
        class Scaled(cstSoftmax):
            def compute(self, node: Any, inputs: Any) -> Any:
                return [super().compute(node, inputs)[0] * factor]

        rknn = RKNN()
        assert rknn.reg_custom_op(Scaled) == 0
        assert rknn.load_onnx(model=str(saved)) == 0
        assert rknn.build(do_quantization=True, dataset="dataset.txt") == 0
        assert rknn.init_runtime() == 0
        (found,) = rknn.inference(inputs=[feeds()[0]["x"]], data_format=["nchw"])
        return found

    assert np.abs(built(1.0) - built(3.0)).max() > 0.5


@pytest.mark.parametrize("quantized", [False, True])
def test_dual_residual_of_the_vendor(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quantized: bool
) -> None:
    """The vendor's own script (examples/functions/custom_op), with its stored outputs."""
    monkeypatch.chdir(tmp_path)
    files = [str(zoo / "onnx" / f"dual_residual_input_{i}.npy") for i in (0, 1)]
    inputs = [np.load(file).transpose(0, 2, 3, 1) for file in files]
    golden = [np.load(zoo / "onnx" / f"dual_residual_output_{i}.npy") for i in (0, 1)]
    Path("dataset.txt").write_text(" ".join(files) + "\n")
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588") is None
    assert rknn.reg_custom_op(DualResidual()) == 0
    assert rknn.load_onnx(model=str(zoo / "onnx" / "dual_residual.onnx")) == 0
    assert rknn.build(do_quantization=quantized, dataset="dataset.txt") == 0
    assert rknn.init_runtime() == 0
    outputs = rknn.inference(inputs=inputs)
    worst = max(np.abs(a - b).max() for a, b in zip(outputs, golden, strict=True))
    assert worst < (0.05 if quantized else 1e-6)
    if quantized:
        assert rknn.accuracy_analysis(inputs=files) == 0
        text = Path("snapshot/error_analysis.txt").read_text()
        assert "[cstDualResidual] 2" in text
        assert "[cstDualResidual] 3" in text


@pytest.mark.parametrize("name", ["ResizeArea", "TruncateDiv"])
def test_a_package_of_generation_1_makes_its_operator_opaque(
    zoo: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    proto = model([helper.make_node(name, ["x"], ["y"], name="mine")], ["y"], domains=())
    proto.graph.output[0].CopyFrom(value("y", [1, 3, 8, 8]))
    onnx.save(proto, path)
    rknn = RKNN(generation=1)
    assert rknn.load_onnx(str(path)) == -1
    assert rknn.register_op(str(zoo / "rknn_vendor" / f"{name}.rknnop")) is None
    assert "is opaque" in capsys.readouterr().err
    assert rknn.load_onnx(str(path)) == 0
    assert rknn.build(do_quantization=False) == 0
    assert rknn.init_runtime() == -1
    told = capsys.readouterr().err
    assert f"has the custom operator {name}, which does not run here" in told
    assert f"package {name}.rknnop" in told


def test_a_package_for_an_operator_of_onnx_leaves_its_meaning(
    zoo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rknn = RKNN(generation=1)
    assert rknn.register_op(str(zoo / "rknn_vendor" / "Exp.rknnop")) is None
    assert "simulated as ONNX says it" in capsys.readouterr().err
    assert rknn.register_op("missing.rknnop") is None
    assert "missing.rknnop" in capsys.readouterr().err


def test_a_class_that_fails_in_calibration_names_itself(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(cstSoftmax):
        def compute(self, node: Any, inputs: Any) -> Any:
            raise ZeroDivisionError("no rows")

    monkeypatch.chdir(saved.parent)
    rknn = RKNN()
    assert rknn.reg_custom_op(Failing) == 0
    assert rknn.load_onnx(str(saved)) == 0
    assert rknn.build(do_quantization=True, dataset="dataset.txt") == -1
    told = capsys.readouterr().err
    assert "compute failed at node 's1' (cstSoftmax): ZeroDivisionError: no rows" in told
    log = next(part for part in told.split() if part.endswith(".log."))
    assert "in compute" in Path(log.rstrip(".")).read_text()
