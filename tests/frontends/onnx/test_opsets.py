"""Every opset is brought to the pinned one without changing a number, or refused by name."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.onnx import load_onnx
from engine.frontends.onnx.opset import needs_rewrite
from engine.graph.execute import ort
from engine.graph.ir import OPSET, verify
from tests.frontends.onnx.conftest import Save
from tests.frontends.onnx.opset_cases import CASES, Case


def run(data: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """All outputs, on ONNX Runtime without any rewriting of the graph."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, feeds)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_operator_computes_the_same_in_the_pinned_opset(case: Case, save: Save) -> None:
    path = save(case.model())
    rng = np.random.default_rng(3)
    feeds = {n: rng.normal(size=s).astype(np.float32) for n, s in case.inputs.items()}
    loaded = load_onnx(path)
    verify(loaded.graph)
    assert loaded.graph.model.opset_imports == {"": OPSET}
    assert [spec.name for spec in loaded.graph.inputs] == list(case.inputs)
    want = run(path.read_bytes(), feeds)
    got = run(loaded.graph.to_bytes(), feeds)
    for a, b in zip(want, got, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def _one(op: str, opset: int, *inputs: tuple[int, ...], **attributes: object) -> onnx.ModelProto:
    shapes = {f"x{index}": shape for index, shape in enumerate(inputs)}
    return Case(op, opset, shapes, attributes=attributes).model()


@pytest.mark.parametrize(("op", "opset"), [("CumProd", 26), ("TensorScatter", 24)])
def test_operators_that_came_later_are_refused_by_name(op: str, opset: int, save: Save) -> None:
    path = save(_one(op, opset, (1, 3, 4, 5), (1,)))
    with pytest.raises(UnsupportedOperatorError, match=f"{op} .*'node'.*came with {opset}") as e:
        load_onnx(path)
    assert str(OPSET) in e.value.remedy


def test_a_converter_that_gives_up_is_told_with_the_operator(save: Save) -> None:
    # Pad of opset 1 has no adapter in onnx 1.23
    model = _one("Pad", 1, (1, 1, 2, 2), paddings=[0, 0, 1, 1, 0, 0, 1, 1])
    path = save(model)
    with pytest.raises(UnsupportedOperatorError, match="Pad of opset 1 cannot") as caught:
        load_onnx(path)
    assert caught.value.exit_code == 5
    assert "newer opset" in caught.value.remedy


@pytest.mark.parametrize(
    ("op", "sizes", "attributes"),
    [
        ("Upsample", ((1, 1, 2, 2),), {"width_scale": 2.0, "height_scale": 2.0}),
        ("PRelu", ((1, 3, 4, 3), (3,)), {}),
        ("BatchNormalization", ((1, 3, 2, 2), (3,), (3,), (3,), (3,)), {"is_test": 0}),
    ],
)
def test_old_operators_that_would_come_out_wrong_are_refused(
    op: str, sizes: tuple[tuple[int, ...], ...], attributes: dict[str, object], save: Save
) -> None:
    path = save(_one(op, 1 if op == "Upsample" else 6, *sizes, **attributes))
    with pytest.raises(UnsupportedOperatorError, match=f"{op} of opset"):
        load_onnx(path)


@pytest.mark.parametrize("scales", [(2.0, 0.5), None])
def test_nearest_resize_of_opset_10_without_an_equal_is_refused(
    scales: tuple[float, float] | None, save: Save
) -> None:
    model = _one("Resize", 10, (1, 1, 4, 4), (4,))
    if scales is not None:
        value = np.array([1, 1, *scales], np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, "x1"))
    path = save(model)
    with pytest.raises(UnsupportedOperatorError, match="Resize of opset 10"):
        load_onnx(path)


def test_an_unchanged_model_only_gets_the_version(save: Save) -> None:
    model = _one("Relu", 18, (1, 3))
    assert not needs_rewrite(model.graph, 18)
    path = save(model)
    loaded = load_onnx(path)
    assert [node.op_type for node in loaded.graph.nodes] == ["Relu"]
    assert loaded.findings[0].code == "opset-converted"
    assert "opset 18," in loaded.source.format
