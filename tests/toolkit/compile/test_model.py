"""The file that a toolkit is given: channels first, and operators by their tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.frontends.onnx import load_onnx
from engine.graph.execute.runtime import ort
from engine.graph.ir import Graph
from engine.graph.layers import Layer, LayerMap, StoredTensor
from engine.toolkit.compile.model import generation_1_onnx, op_targets, toolkit_onnx
from tests.graph.models import nodes_of
from tests.vendor.models import onnx_model, save_model


def net(tmp_path: Path, *, padded: bool = False) -> Graph:
    """A picture (1, 6, 5, 3), which a Transpose makes NCHW for a convolution."""
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    constants = {"w": weights}
    text = "[turn] t = Transpose <perm=[0, 3, 1, 2]> (x)"
    if padded:
        constants["pads"] = np.array([0, 1, 1, 0] * 2, np.int64)
        text = "[pad] padded = Pad (x, pads);" + text.replace("(x)", "(padded)")
    nodes = nodes_of(f"{text}; [conv] c = Conv <kernel_shape=[3, 3]> (t, w); [relu] y = Relu (c)")
    path = save_model(tmp_path / "net.onnx", nodes, {"x": [1, 6, 5, 3]}, {"y": None}, constants, 13)
    return load_onnx(path).graph


@pytest.mark.parametrize("padded", [False, True])
def test_channels_become_the_first_axis_and_results_stay(tmp_path: Path, padded: bool) -> None:
    graph = net(tmp_path, padded=padded)
    picture = np.random.default_rng(1).random((1, 6, 5, 3)).astype(np.float32)
    plain, turned = toolkit_onnx(graph), toolkit_onnx(graph, frozenset({"x"}))
    (wanted,) = ort.InferenceSession(plain).run(None, {"x": picture})
    session = ort.InferenceSession(turned)
    assert session.get_inputs()[0].shape == [1, 3, 6, 5]
    (found,) = session.run(None, {"x": np.ascontiguousarray(picture.transpose(0, 3, 1, 2))})
    np.testing.assert_array_equal(found, wanted)
    model = onnx.load_from_string(turned)
    onnx.checker.check_model(model, full_check=True)
    turns = [node for node in model.graph.node if node.op_type == "Transpose"]
    assert len(turns) == (2 if padded else 0)
    assert [each.version for each in model.opset_import] == [19]


def test_an_operator_is_named_by_the_tensor_before_it_is_rounded(tmp_path: Path) -> None:
    data = toolkit_onnx(net(tmp_path))
    layer = Layer("conv", "Conv", "weighted", ("conv", "relu"), ("c",), ("z",), ())
    stored = {"z": StoredTensor("z", "y", "z/quantized", "z", "int8")}
    found = op_targets(data, {"conv": "cpu"}, LayerMap((layer,), stored))
    assert found == ({"c": "cpu", "y": "cpu"}, ())
    assert op_targets(data, {"t": "cpu", "nowhere": "npu"}) == ({"t": "cpu"}, ())


@pytest.mark.parametrize(("version", "opset"), [("1.3.2+standin", 9), ("1.7.5", 11)])
def test_generation_1_is_given_an_older_opset(tmp_path: Path, version: str, opset: int) -> None:
    data = toolkit_onnx(net(tmp_path))
    older = generation_1_onnx(data, version)
    model = onnx.load_from_string(older)
    assert [each.version for each in model.opset_import] == [opset]
    onnx.checker.check_model(model)
    picture = np.random.default_rng(1).random((1, 6, 5, 3)).astype(np.float32)
    found, wanted = (ort.InferenceSession(each).run(None, {"x": picture}) for each in (older, data))
    np.testing.assert_array_equal(found[0], wanted[0])


def test_a_recurrent_layer_has_no_states_of_zero_and_no_layout() -> None:
    rng = np.random.default_rng(0)
    weights = {"w": (2, 12, 4), "r": (2, 12, 3), "b": (2, 24)}
    stored = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in weights.items()}
    stored["zero"] = np.zeros((2, 1, 3), np.float32)
    nodes = nodes_of(
        '[lstm] y = LSTM <hidden_size=3, direction="bidirectional", layout=0> '
        '(x, w, r, b, "", zero, zero)'
    )
    model = onnx_model(nodes, {"x": [5, 1, 4]}, {"y": [5, 2, 1, 3]}, stored)
    data = toolkit_onnx(Graph.from_proto(model))
    (made,) = onnx.load_from_string(data).graph.node
    assert list(made.input) == ["x", "w", "r", "b"]
    assert {each.name for each in made.attribute} == {"hidden_size", "direction"}
    x = rng.standard_normal((5, 1, 4)).astype(np.float32)
    (found,), (wanted,) = (
        ort.InferenceSession(each).run(None, {"x": x}) for each in (data, model.SerializeToString())
    )
    np.testing.assert_array_equal(found, wanted)


def test_a_condition_without_axes_has_one() -> None:
    nodes = nodes_of(
        "[more] many = Greater (x, half); [scalar] if = Reshape (many, none); "
        "[choose] y = Where (if, a, b)"
    )
    inputs = {"x": [1, 1], "a": [1, 3], "b": [1, 3]}
    constants = {"half": np.float32(0.5), "none": np.array([], np.int64)}
    inferred = onnx_model(nodes, inputs, {"y": None}, constants)
    data = toolkit_onnx(Graph.from_proto(inferred))
    made = onnx.load_from_string(data)
    onnx.checker.check_model(made, full_check=True)
    shapes = {each.name: each.type.tensor_type.shape.dim for each in made.graph.value_info}
    assert [dim.dim_value for dim in shapes["if"]] == [1]
    rows = {name: np.arange(3, dtype=np.float32)[None] + at for at, name in enumerate("ab")}
    for x in (0.0, 1.0):
        feed = {"x": np.array([[x]], np.float32), **rows}
        (found,) = ort.InferenceSession(data).run(None, feed)
        np.testing.assert_array_equal(found, rows["a" if x else "b"])
