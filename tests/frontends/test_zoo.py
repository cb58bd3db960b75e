"""Every ONNX file of the zoo loads, and computes what the file computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.onnx import inspect_onnx, load_onnx
from engine.graph.execute import ort
from engine.graph.ir import verify

FLOAT = [
    "digits/digits.onnx",
    "onnx/concat_block.onnx",
    "onnx/multiple_input_test.onnx",
    "onnx/version-RFB-320.onnx",
    "onnx/version-RFB-320_simplified.onnx",
    "onnx/version-RFB-320_without_postprocessing.onnx",
]


def _session(data: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    # nothing is rewritten: what differs is what loading did
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _worst(source: bytes, converted: bytes) -> float:
    """Largest difference of any output, relative to the output's range."""
    rng = np.random.default_rng(7)
    a, b = _session(source), _session(converted)
    feeds = {
        arg.name: rng.normal(size=arg.shape).astype(np.float32)
        if arg.type == "tensor(float)"
        else rng.integers(0, 2, arg.shape)
        for arg in a.get_inputs()
    }
    assert [arg.name for arg in a.get_inputs()] == [arg.name for arg in b.get_inputs()]
    assert [arg.name for arg in a.get_outputs()] == [arg.name for arg in b.get_outputs()]
    worst = 0.0
    for x, y in zip(a.run(None, feeds), b.run(None, feeds), strict=True):
        assert x.shape == y.shape
        assert np.isfinite(x).all()
        difference = float(np.abs(x - y).max())
        # a constant output has no range: it must be the same
        worst = max(worst, difference / float(np.ptp(x)) if np.ptp(x) else difference)
    return worst


def _without_listed_initializers(model: onnx.ModelProto) -> bytes:
    names = {constant.name for constant in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    return model.SerializeToString()


@pytest.mark.parametrize("name", FLOAT)
def test_trained_models_compute_the_same(zoo: Path, name: str) -> None:
    loaded = load_onnx(zoo / name)
    verify(loaded.graph)
    assert all(
        value.shape is not None and value.shape.is_static()
        for value in loaded.graph.values.values()
    )
    source = _without_listed_initializers(onnx.load(zoo / name))
    assert _worst(source, loaded.graph.to_bytes()) <= 1e-6


def test_the_custom_operator_of_the_zoo_is_refused_by_name(zoo: Path) -> None:
    with pytest.raises(UnsupportedOperatorError, match="rknn_cst:cstDualResidual") as caught:
        load_onnx(zoo / "onnx" / "dual_residual.onnx")
    assert "no custom operator of its name is registered" in caught.value.what
    assert caught.value.remedy
    view, _ = inspect_onnx(zoo / "onnx" / "dual_residual.onnx")
    assert view.findings[0].severity == "error"


def test_every_net_without_weights_loads(zoo: Path) -> None:
    for path in sorted((zoo / "shapes").glob("*.onnx")) + sorted((zoo / "shapes/micro").glob("*")):
        loaded = load_onnx(path)
        assert all(spec.static for spec in loaded.graph.outputs), path


def _with_random_weights(path: Path) -> onnx.ModelProto:
    """The net with He-scaled random weights in place of its ConstantOfShape ones."""
    model = onnx.load(path)
    rng = np.random.default_rng(0)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            shapes[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
            continue
        size = tuple(int(n) for n in shapes[node.input[0]])
        fan = max(1, int(np.prod(size[1:])))
        weight = (
            rng.normal(size=size) * np.sqrt(2 / fan)
            if len(size) > 1
            else 1 + 0.1 * rng.normal(size=size)
        )
        tensor = numpy_helper.from_array(weight.astype(np.float32), node.output[0])
        model.graph.initializer.append(tensor)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


@pytest.mark.long
def test_every_net_with_random_weights_computes_the_same(zoo: Path, tmp_path: Path) -> None:
    for path in sorted((zoo / "shapes").rglob("*.onnx")):
        model = _with_random_weights(path)
        copy = tmp_path / "net.onnx"
        onnx.save(model, copy)
        loaded = load_onnx(copy)
        verify(loaded.graph)
        assert all(spec.static for spec in loaded.graph.outputs), path
        assert _worst(copy.read_bytes(), loaded.graph.to_bytes()) <= 2e-6, path
