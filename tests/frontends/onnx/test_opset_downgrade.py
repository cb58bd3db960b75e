"""Opsets above the pinned one, and operators that ONNX Runtime does otherwise than ONNX says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.frontends.load import find_source
from engine.frontends.onnx import inspect, load_onnx
from engine.frontends.source import LoadOptions
from engine.graph.execute import Session, ort
from engine.graph.ir import OPSET, verify
from engine.graph.ir.opsets import NEWEST_OPSET
from tests.frontends.onnx.backend_nodes import run, save, some_cases
from tests.graph.models import finish, tensor


def _one(made: onnx.NodeProto, opset: int, *shape: int, **constants: np.ndarray) -> Any:
    return finish([made], [tensor("x", *shape)], [tensor("y", "a")], constants, opset=opset)


def _same(proto: onnx.ModelProto, folder: Path, *shape: int) -> tuple[int, ...]:
    """Load a model and compare it with ONNX Runtime on the original; the shape of its output."""
    graph = load_onnx(save(proto, folder)).graph
    verify(graph)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    want = ort.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    assert graph.outputs[0].shape == want.shape
    np.testing.assert_allclose(Session(graph).run({"x": x})["y"], want, rtol=1e-5, atol=1e-6)
    return tuple(want.shape)


# -- opsets 22 to 28 -----------------------------------------------------------------------------


def test_new_operators_are_written_out_by_their_functions() -> None:
    cases = some_cases(("Swish", "SwiGLU", "RMSNormalization", "RotaryEmbedding"))
    assert len(cases) >= 30
    assert [o for o in map(run, cases) if o.kind != "equal"] == []


@pytest.mark.long
def test_attention_is_written_out() -> None:
    cases = some_cases(("Attention", "LinearAttention", "CausalConvWithState"))
    assert len(cases) >= 80
    assert [o for o in map(run, cases) if o.kind != "equal"] == []


def test_sizes_that_the_graph_computes_reach_new_operators(tmp_path: Path) -> None:
    """Attention of three axes, whose number of heads comes from a division in the graph."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "last"], ["width"]),
        node("Div", ["width", "two"], ["half"]),
        node("Unsqueeze", ["half", "zero"], ["tail"]),
        node("Concat", ["lead", "tail"], ["size"], axis=0),
        node("Reshape", ["x", "size"], ["q"]),
        node("Attention", ["q", "q", "q"], ["y"], q_num_heads=2, kv_num_heads=2),
    ]
    constants = {
        "last": np.array(2),
        "two": np.array(2),
        "zero": np.array([0]),
        "lead": np.array([1, -1]),
    }
    proto = finish(nodes, [tensor("x", 1, 3, 16)], [tensor("y", 1, 6, 8)], constants, opset=23)
    assert _same(proto, tmp_path, 1, 3, 16) == (1, 6, 8)


@pytest.mark.parametrize("opset", range(22, 27))
def test_a_net_of_every_newer_opset_computes_the_same(opset: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("HardSwish", ["p"], ["h"]),
        node("Cast", ["h"], ["k"], to=TensorProto.FLOAT),
        node("Shape", ["k"], ["s"], end=1),
        node("Concat", ["s", "rest"], ["size"], axis=0),
        node("Reshape", ["k", "size"], ["y"]),
    ]
    constants = {"w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "rest": np.array([-1])}
    proto = finish(nodes, [tensor("x", 1, 3, 8, 8)], [tensor("y", 1, 64)], constants, opset=opset)
    assert _same(proto, tmp_path, 1, 3, 8, 8) == (1, 64)


def _quantized(**attributes: int) -> onnx.ModelProto:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantize", **attributes),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], "dequantize"),
    ]
    constants = {"s": np.array(0.1, np.float32), "z": np.array(3, np.int8)}
    return finish(nodes, [tensor("x", 4)], [tensor("y", 4)], constants, opset=23)


def test_attributes_that_say_the_default_go(tmp_path: Path) -> None:
    graph = load_onnx(save(_quantized(precision=TensorProto.FLOAT), tmp_path)).graph
    got = Session(graph).run({"x": np.float32([-99, 0.04, 0.06, 99])})["y"]
    np.testing.assert_allclose(got, [-13.1, 0, 0.1, 12.4], rtol=1e-6, atol=1e-5)
    cast = node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16, round_mode="nearest")
    made = finish([cast], [tensor("x", 4)], [tensor("y", 4, dtype=10)], opset=24)
    (kept,) = load_onnx(save(made, tmp_path)).graph.nodes
    assert list(kept.attributes) == ["to"]


def _cast(element: int, opset: int) -> onnx.ModelProto:
    nodes = [node("Cast", ["x"], ["c"], "cast", to=element), node("Cast", ["c"], ["y"], to=1)]
    return finish(nodes, [tensor("x", 4)], [tensor("y", 4)], opset=opset)


@pytest.mark.parametrize(
    ("proto", "what"),
    [
        (_quantized(precision=TensorProto.FLOAT16), "divides in another type"),
        (_cast(TensorProto.FLOAT4E2M1, 23), "no such type"),
        (_one(node("BitCast", ["x"], ["y"], "bits", to=TensorProto.INT32), 26, 4), "came with 26"),
    ],
    ids=["precision", "type", "operator"],
)
def test_what_the_pinned_opset_cannot_say_is_refused(
    proto: onnx.ModelProto, what: str, tmp_path: Path
) -> None:
    path = save(proto, tmp_path)
    with pytest.raises(UnsupportedOperatorError) as error:
        load_onnx(path)
    assert what in error.value.what
    assert f"opset {OPSET}" in error.value.remedy


def test_opsets_that_nobody_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match=f"1 to {NEWEST_OPSET}"):
        load_onnx(save(_one(node("Relu", ["x"], ["y"]), NEWEST_OPSET + 1, 4), tmp_path))


# -- other in ONNX Runtime than in ONNX ----------------------------------------------------------


@pytest.mark.parametrize("opset", [11, 21, 22])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads"),
    [
        ((5, 5), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((2, 2), (1, 1), (2, 2), (0, 0, 0, 0)),
        ((2, 6), (1, 3), (2, 2), (0, 0, 0, 0)),
        ((4, 4), (2, 2), (3, 3), (0, 0, 1, 1)),
        ((7, 7), (3, 3), (2, 2), (1, 1, 1, 1)),
    ],
)
def test_pools_that_round_up_have_the_windows_that_run(
    op: str, size: Any, kernel: Any, stride: Any, pads: Any, opset: int, tmp_path: Path
) -> None:
    made = node(op, ["x"], ["y"], kernel_shape=kernel, strides=stride, pads=pads, ceil_mode=1)
    proto = _one(made, opset, 1, 2, *size)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    _same(proto, tmp_path, 1, 2, *size)


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_with_the_batch_first(op: str, gates: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(size=(1, gates * 4, 3)).astype(np.float32),
        "r": rng.normal(size=(1, gates * 4, 4)).astype(np.float32),
    }
    start = rng.normal(size=(2, 1, 4)).astype(np.float32)

    def made(layout: int) -> onnx.ModelProto:
        attributes = {"hidden_size": 4, **({"layout": 1} if layout else {})}
        made_node = node(op, ["x", "w", "r", "", "", "h"], ["y", "end"], **attributes)
        shape = (2, 5, 3) if layout else (5, 2, 3)
        h = start if layout else start.transpose(1, 0, 2)
        ends = [helper.make_tensor_value_info(name, 1, None) for name in ("y", "end")]
        return finish([made_node], [tensor("x", *shape)], ends, {**constants, "h": h}, opset=14)

    x = rng.normal(size=(2, 5, 3)).astype(np.float32)
    got = Session(load_onnx(save(made(1), tmp_path)).graph).run({"x": x})
    session = ort.InferenceSession(made(0).SerializeToString())
    y, end = session.run(None, {"x": x.transpose(1, 0, 2)})
    np.testing.assert_allclose(got["y"], y.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["end"], end.transpose(1, 0, 2), rtol=1e-5, atol=1e-6)


def test_dropout_in_training_mode_is_refused_unless_it_drops_nothing(tmp_path: Path) -> None:
    made = node("Dropout", ["x", "ratio", "training"], ["y"], "drop")
    constants = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    with pytest.raises(UnsupportedOperatorError, match=r"'drop'.*random"):
        load_onnx(save(_one(made, 13, 4, **constants), tmp_path))
    constants["ratio"] = np.array(0, np.float32)
    assert len(load_onnx(save(_one(made, 13, 4, **constants), tmp_path)).graph) == 1


# -- the pre-flight ------------------------------------------------------------------------------


def test_a_look_tells_versions_layers_and_what_will_be_refused(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("Mystery", ["c"], ["m"], "odd", domain="my.own"),
        node("CumProd", ["m", "axis"], ["y"], "product"),
    ]
    constants = {"w": np.zeros((4, 3, 3, 3), np.float32), "axis": np.array(1)}
    proto = finish(
        nodes, [tensor("x", "n", 3, 8, "width")], [tensor("y", "n")], constants, opset=26
    )
    proto.opset_import.add(domain="my.own", version=1)
    summary = inspect(find_source(save(proto, tmp_path)))
    versions = {name: (found, read) for name, found, read in summary.version}
    assert versions["opset"] == ("26", f"1 to {NEWEST_OPSET}")
    assert versions["opset, for RKNN-Toolkit2 2.3"] == ("26", "up to 22")
    assert summary.inputs[0].shape == (-1, 3, 8, -1)
    assert [layer.op for layer in summary.layers] == ["Conv", "my.own:Mystery", "CumProd"]
    assert summary.layers[0].attributes == (("pads", "[1, 1, 1, 1]"),)
    assert [(op, name) for op, name, _ in summary.refused] == [
        ("my.own:Mystery", "odd"),
        ("CumProd", "product"),
    ]
    codes = [f.code for f in summary.findings if f.severity == "error"]
    assert codes == ["unsupported-operator", "unsupported-operator", "dynamic-size"]
    assert summary.parameters == 109


def test_a_look_takes_the_sizes_of_the_options(tmp_path: Path) -> None:
    proto = _one(node("Relu", ["x"], ["y"]), 17, 1)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    path = save(proto, tmp_path)
    (finding,) = (f for f in inspect(find_source(path)).findings if f.severity == "error")
    assert finding.code == "dynamic-size"
    sized = inspect(find_source(path, options=LoadOptions(input_size_list=((7,),))))
    assert sized.inputs[0].shape == (7,)
    assert not [f for f in sized.findings if f.severity == "error"]


def test_a_constant_graph_needs_no_input(tmp_path: Path) -> None:
    value = numpy_helper.from_array(np.float32([1, 2]), "v")
    proto = finish([node("Constant", [], ["y"], value=value)], [], [tensor("y", 2)])
    np.testing.assert_array_equal(
        Session(load_onnx(save(proto, tmp_path)).graph).run({})["y"], [1, 2]
    )
