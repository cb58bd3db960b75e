"""Opsets above the pinned one, and operators that ONNX Runtime does otherwise than ONNX says."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.frontends.load import find_source
from engine.frontends.onnx import inspect, load_onnx
from engine.frontends.source import LoadOptions
from engine.graph.execute import Session, ort
from engine.graph.ir import OPSET, verify
from engine.graph.ir.opsets import NEWEST_OPSET
from tests.frontends.onnx.backend_nodes import run, some_cases
from tests.frontends.onnx.conftest import Save
from tests.graph.models import finish, nodes_of, tensor


def _one(node: str, opset: int, *shape: int, **constants: np.ndarray) -> onnx.ModelProto:
    """A model of one node, or of several."""
    return finish(nodes_of(node), [tensor("x", *shape)], [tensor("y", "a")], constants, opset=opset)


def _same(proto: onnx.ModelProto, save: Save, *shape: int) -> tuple[int, ...]:
    """Load a model and compare it with ONNX Runtime on the original; the shape of its output."""
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    graph = load_onnx(save(proto)).graph
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


def test_sizes_that_the_graph_computes_reach_new_operators(save: Save) -> None:
    """Attention of three axes, whose number of heads comes from a division in the graph."""
    nodes = """s = Shape (x); width = Gather (s, last); half = Div (width, two);
        tail = Unsqueeze (half, zero); size = Concat <axis=0> (lead, tail); q = Reshape (x, size);
        y = Attention <q_num_heads=2, kv_num_heads=2> (q, q, q)"""
    constants = {"last": np.array(2), "two": np.array(2), "zero": np.array([0])}
    proto = _one(nodes, 23, 1, 3, 16, **constants, lead=np.array([1, -1]))
    assert _same(proto, save, 1, 3, 16) == (1, 6, 8)


@pytest.mark.parametrize("opset", range(22, 27))
def test_a_net_of_every_newer_opset_computes_the_same(opset: int, save: Save) -> None:
    nodes = """c = Conv <pads=[1, 1, 1, 1]> (x, w);
        p = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> (c); h = HardSwish (p);
        k = Cast <to=1> (h); s = Shape <end=1> (k); size = Concat <axis=0> (s, rest);
        y = Reshape (k, size)"""
    w = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    proto = _one(nodes, opset, 1, 3, 8, 8, w=w, rest=np.array([-1]))
    assert _same(proto, save, 1, 3, 8, 8) == (1, 64)


def _quantized(precision: int) -> onnx.ModelProto:
    nodes = f"q = QuantizeLinear <precision={precision}> (x, s, z); y = DequantizeLinear (q, s, z)"
    return _one(nodes, 23, 4, s=np.array(0.1, np.float32), z=np.array(3, np.int8))


def test_attributes_that_say_the_default_go(save: Save) -> None:
    graph = load_onnx(save(_quantized(TensorProto.FLOAT))).graph
    got = Session(graph).run({"x": np.float32([-99, 0.04, 0.06, 99])})["y"]
    np.testing.assert_allclose(got, [-13.1, 0, 0.1, 12.4], rtol=1e-6, atol=1e-5)
    made = _one('y = Cast <to=10, round_mode="nearest"> (x)', 24, 4)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    (kept,) = load_onnx(save(made)).graph.nodes
    assert list(kept.attributes) == ["to"]


def _cast(element: int, opset: int) -> onnx.ModelProto:
    return _one(f"c = Cast <to={element}> (x); y = Cast <to=1> (c)", opset, 4)


@pytest.mark.parametrize(
    ("proto", "what"),
    [
        (_quantized(TensorProto.FLOAT16), "divides in another type"),
        (_cast(TensorProto.FLOAT4E2M1, 23), "no such type"),
        (_one("y = BitCast <to=6> (x)", 26, 4), "came with 26"),
    ],
    ids=["precision", "type", "operator"],
)
def test_what_the_pinned_opset_cannot_say_is_refused(
    proto: onnx.ModelProto, what: str, save: Save
) -> None:
    path = save(proto)
    with pytest.raises(UnsupportedOperatorError) as error:
        load_onnx(path)
    assert what in error.value.what
    assert f"opset {OPSET}" in error.value.remedy


def test_opsets_that_nobody_read_are_refused(save: Save) -> None:
    with pytest.raises(SourceModelError, match=f"1 to {NEWEST_OPSET}"):
        load_onnx(save(_one("y = Relu (x)", NEWEST_OPSET + 1, 4)))


# -- other in ONNX Runtime than in ONNX ----------------------------------------------------------


@pytest.mark.parametrize("opset", [11, 21, 22])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads"),
    [
        ((5, 5), [2, 2], [2, 2], [0, 0, 0, 0]),
        ((2, 2), [1, 1], [2, 2], [0, 0, 0, 0]),
        ((2, 6), [1, 3], [2, 2], [0, 0, 0, 0]),
        ((4, 4), [2, 2], [3, 3], [0, 0, 1, 1]),
        ((7, 7), [3, 3], [2, 2], [1, 1, 1, 1]),
    ],
)
def test_pools_that_round_up_have_the_windows_that_run(
    op: str, size: Any, kernel: Any, stride: Any, pads: Any, opset: int, save: Save
) -> None:
    form = f"kernel_shape={kernel}, strides={stride}, pads={pads}, ceil_mode=1"
    _same(_one(f"y = {op} <{form}> (x)", opset, 1, 2, *size), save, 1, 2, *size)


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_with_the_batch_first(op: str, gates: int, save: Save) -> None:
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(size=(1, gates * 4, 3)).astype(np.float32),
        "r": rng.normal(size=(1, gates * 4, 4)).astype(np.float32),
    }
    start = rng.normal(size=(2, 1, 4)).astype(np.float32)

    def made(layout: int) -> onnx.ModelProto:
        batch_first = ", layout=1" if layout else ""
        nodes = f'y, end = {op} <hidden_size=4{batch_first}> (x, w, r, "", "", h)'
        shape = (2, 5, 3) if layout else (5, 2, 3)
        h = start if layout else start.transpose(1, 0, 2)
        ends = [helper.make_tensor_value_info(name, 1, None) for name in ("y", "end")]
        inputs = [tensor("x", *shape)]
        return finish(nodes_of(nodes), inputs, ends, {**constants, "h": h}, opset=14)

    x = rng.normal(size=(2, 5, 3)).astype(np.float32)
    got = Session(load_onnx(save(made(1))).graph).run({"x": x})
    session = ort.InferenceSession(made(0).SerializeToString())
    y, end = session.run(None, {"x": x.transpose(1, 0, 2)})
    np.testing.assert_allclose(got["y"], y.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["end"], end.transpose(1, 0, 2), rtol=1e-5, atol=1e-6)


def test_dropout_in_training_mode_is_refused_unless_it_drops_nothing(save: Save) -> None:
    made = '["drop"] y = Dropout (x, ratio, training)'
    constants = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    with pytest.raises(UnsupportedOperatorError, match=r"'drop'.*random"):
        load_onnx(save(_one(made, 13, 4, **constants)))
    constants["ratio"] = np.array(0, np.float32)
    assert len(load_onnx(save(_one(made, 13, 4, **constants))).graph) == 1


# -- the pre-flight ------------------------------------------------------------------------------


def test_a_look_tells_versions_layers_and_what_will_be_refused(save: Save) -> None:
    nodes = """["conv"] c = Conv <pads=[1, 1, 1, 1]> (x, w); ["odd"] m = my.own.Mystery (c);
        ["product"] y = CumProd (m, axis)"""
    constants = {"w": np.zeros((4, 3, 3, 3), np.float32), "axis": np.array(1)}
    inputs, outputs = [tensor("x", "n", 3, 8, "width")], [tensor("y", "n")]
    proto = finish(nodes_of(nodes), inputs, outputs, constants, opset=26)
    proto.opset_import.add(domain="my.own", version=1)
    summary = inspect(find_source(save(proto)))
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


def test_a_look_takes_the_sizes_of_the_options(save: Save) -> None:
    proto = _one("y = Relu (x)", 17, 1)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    path = save(proto)
    (finding,) = (f for f in inspect(find_source(path)).findings if f.severity == "error")
    assert finding.code == "dynamic-size"
    sized = inspect(find_source(path, options=LoadOptions(input_size_list=((7,),))))
    assert sized.inputs[0].shape == (7,)
    assert not [f for f in sized.findings if f.severity == "error"]


def test_a_constant_graph_needs_no_input(save: Save) -> None:
    proto = finish(nodes_of("y = Constant <value_floats=[1.0, 2.0]> ()"), [], [tensor("y", 2)])
    np.testing.assert_array_equal(Session(load_onnx(save(proto)).graph).run({})["y"], [1, 2])
