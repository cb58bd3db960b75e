"""Operators on integers and ONNX Runtime's own: rewritten, they give what ONNX Runtime gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.onnx import inspect_file, load_onnx
from engine.graph.execute import Session, ort
from engine.graph.ir import verify
from engine.graph.passes import optimise

Arrays = dict[str, np.ndarray]
_MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Case:
    """One node: what is fed, what is constant (in the order of ``inputs``), what it gives."""

    op: str
    inputs: tuple[str, ...]
    fed: Arrays
    constants: Arrays
    domain: str = _MICROSOFT
    outputs: tuple[str, ...] = ("y",)
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 13
    tolerance: float = 0.0
    label: str = ""

    def save(self, folder: Path) -> Path:
        path = folder / "m.onnx"
        path.write_bytes(self.model().SerializeToString())
        return path

    def model(self) -> onnx.ModelProto:
        node = helper.make_node(
            self.op, self.inputs, self.outputs, "the_node", domain=self.domain, **self.attributes
        )
        given = onnx.TensorProto.FLOAT
        if "yz" in self.constants:
            given = helper.np_dtype_to_tensor_dtype(self.constants["yz"].dtype)
        graph = helper.make_graph(
            [node],
            "g",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in self.fed.items()
            ],
            [helper.make_tensor_value_info(n, given, None) for n in self.outputs if n],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _quantized(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    return _random(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def _parameters(prefix: str, scale: Any, zero: Any, dtype: Any) -> Arrays:
    return {f"{prefix}s": np.asarray(scale, np.float32), f"{prefix}z": np.asarray(zero, dtype)}


def _conv(dtype: Any, weights: Any, *, channels: bool, bias: bool, opset: int) -> Case:
    scale = _random(3).uniform(0.001, 0.01, 4) if channels else 0.004
    zero = np.zeros(4) if channels else 0
    constants = {
        **_parameters("x", 0.02, 3, dtype),
        "w": _quantized((4, 3, 3, 3), weights, 1),
        **_parameters("w", scale, zero, weights),
        **_parameters("y", 0.5, 5, dtype),
    }
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    if bias:
        constants["b"] = _random(5).integers(-9000, 9000, 4).astype(np.int32)
        inputs.append("b")
    return Case(
        "QLinearConv",
        tuple(inputs),
        {"x": _quantized((1, 3, 9, 9), dtype)},
        constants,
        domain="",
        attributes={"pads": [1, 1, 1, 1], "strides": [2, 2]},
        opset=opset,
        label=f"QLinearConv {np.dtype(dtype)} {np.dtype(weights)} {channels=} {bias=} {opset=}",
    )


def _binary(op: str, dtype: Any) -> Case:
    return Case(
        op,
        ("a", "as", "az", "b", "bs", "bz", "ys", "yz"),
        {"a": _quantized((1, 4, 5, 5), dtype), "b": _quantized((1, 4, 5, 5), dtype, 1)},
        {
            **_parameters("a", 0.02, 7, dtype),
            **_parameters("b", 0.03, 2, dtype),
            **_parameters("y", 0.04, 9, dtype),
        },
        opset=12,
        label=f"{op} {np.dtype(dtype)}",
    )


def _unary(op: str, tolerance: float = 0.0, **attributes: Any) -> Case:
    return Case(
        op,
        ("x", "xs", "xz", "ys", "yz"),
        {"x": _quantized((1, 4, 6, 6), np.uint8)},
        {**_parameters("x", 0.02, 120, np.uint8), **_parameters("y", 0.011, 90, np.uint8)},
        attributes=attributes,
        tolerance=tolerance,
    )


_GEMM = Case(
    "QGemm",
    ("a", "as", "az", "b", "bs", "bz", "c", "ys", "yz"),
    {"a": _quantized((3, 16), np.uint8)},
    {
        **_parameters("a", 0.02, 120, np.uint8),
        "b": _quantized((8, 16), np.int8, 1),
        **_parameters("b", _random(2).uniform(0.001, 0.01, 8), np.zeros(8), np.int8),
        "c": _random(3).integers(-5000, 5000, 8).astype(np.int32),
        **_parameters("y", 0.3, 100, np.uint8),
    },
    attributes={"transB": 1},
)

_MATMUL = Case(
    "QLinearMatMul",
    ("a", "as", "az", "b", "bs", "bz", "ys", "yz"),
    {"a": _quantized((2, 3, 16), np.uint8)},
    {
        **_parameters("a", [0.02], [120], np.uint8),
        "b": _quantized((16, 8), np.int8, 1),
        **_parameters("b", [0.01], [0], np.int8),
        **_parameters("y", [0.3], [100], np.uint8),
    },
    domain="",
    opset=10,
)

_THREE = {
    **_parameters("a", 0.02, 120, np.uint8),
    **_parameters("b", 0.03, 90, np.uint8),
    **_parameters("y", 0.03, 100, np.uint8),
}

INTEGERS = [
    _conv(np.uint8, np.uint8, channels=False, bias=False, opset=10),
    _conv(np.uint8, np.int8, channels=True, bias=True, opset=10),
    _conv(np.int8, np.int8, channels=True, bias=True, opset=13),
    _MATMUL,
    _binary("QLinearAdd", np.uint8),
    _binary("QLinearAdd", np.int8),
    _binary("QLinearMul", np.uint8),
    _unary("QLinearAveragePool", kernel_shape=[2, 2], strides=[2, 2]),
    _unary("QLinearGlobalAveragePool", channels_last=0),
    _unary("QLinearLeakyRelu", alpha=0.1),
    _unary("QLinearSigmoid"),
    _unary("QLinearSoftmax", axis=1, opset=13),
    Case(
        "QLinearConcat",
        ("ys", "yz", "a", "as", "az", "b", "bs", "bz"),
        {"a": _quantized((1, 2, 4), np.uint8), "b": _quantized((1, 3, 4), np.uint8, 1)},
        _THREE,
        attributes={"axis": 1},
    ),
    Case(
        "QLinearWhere",
        ("c", "a", "as", "az", "b", "bs", "bz", "ys", "yz"),
        {
            "c": _random(9).integers(0, 2, (4, 5)).astype(bool),
            "a": _quantized((4, 5), np.uint8),
            "b": _quantized((4, 5), np.uint8, 1),
        },
        _THREE,
    ),
    _GEMM,
]


def _floats(*shape: int, seed: int = 0) -> np.ndarray:
    return _random(seed).normal(size=shape).astype(np.float32)


_NORM = {"gamma": _floats(8, seed=3), "beta": _floats(8, seed=4), "bias": _floats(8, seed=5)}

FLOATS = [
    Case("Gelu", ("x",), {"x": _floats(2, 8)}, {}),
    Case("QuickGelu", ("x",), {"x": _floats(2, 8)}, {}, attributes={"alpha": 1.5}),
    Case("FastGelu", ("x", "b"), {"x": _floats(2, 8)}, {"b": _floats(8, seed=1)}),
    Case("BiasGelu", ("x", "b"), {"x": _floats(2, 8)}, {"b": _floats(8, seed=1)}),
    *(
        Case(
            "FusedConv",
            ("x", "w", "b"),
            {"x": _floats(1, 3, 8, 8)},
            {"w": _floats(4, 3, 3, 3, seed=1), "b": _floats(4, seed=2)},
            attributes={"activation": kind, "activation_params": params, "pads": [1, 1, 1, 1]},
            opset=opset,
            label=f"FusedConv {kind} {opset}",
        )
        for kind, params, opset in (
            *(
                ("LeakyRelu", [0.2], 13),
                ("Clip", [0.0, 6.0], 11),
                ("Clip", [0.0, 6.0], 10),
                ("Clip", [-0.5, 0.5], 13),
            ),
            ("HardSigmoid", [0.3, 0.4], 13),
        )
    ),
    Case(
        "FusedGemm",
        ("a", "b", "c"),
        {"a": _floats(2, 5)},
        {"b": _floats(4, 5, seed=1), "c": _floats(4, seed=2)},
        attributes={"activation": "Relu", "transB": 1},
    ),
    Case(
        "FusedMatMul",
        ("a", "b"),
        {"a": _floats(2, 5, 3), "b": _floats(2, 5, 4, seed=1)},
        {},
        attributes={"alpha": 0.5, "transA": 1},
    ),
    Case(
        "SkipLayerNormalization",
        ("x", "s", "gamma", "beta", "bias"),
        {"x": _floats(1, 3, 8), "s": _floats(1, 3, 8, seed=1)},
        _NORM,
        outputs=("y", "", "", "sum"),
        attributes={"epsilon": 1e-4},
    ),
    Case(
        "SkipSimplifiedLayerNormalization",
        ("x", "s", "gamma", "bias"),
        {"x": _floats(1, 3, 8), "s": _floats(1, 3, 8, seed=1)},
        {name: _NORM[name] for name in ("gamma", "bias")},
        opset=18,
    ),
]


def _reference(case: Case) -> list[np.ndarray]:
    options = ort.SessionOptions()
    if any(array.dtype == np.uint8 for array in case.fed.values()):
        # sums of uint8 times int8 in full: without it CPUs without VNNI saturate at 16 bits
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(case.model().SerializeToString(), options)
    results: list[np.ndarray] = session.run(None, case.fed)
    return results


def _name(case: Case) -> str:
    return case.label or case.op


@pytest.mark.parametrize("case", INTEGERS, ids=_name)
def test_integers_come_out_the_same_to_the_last_bit(case: Case, tmp_path: Path) -> None:
    graph = load_onnx(case.save(tmp_path)).graph
    verify(graph)
    assert not any(node.op_type.startswith("QLinear") for node in graph.nodes)
    (want,) = _reference(case)
    for made in (graph, optimise(graph).graph):
        got = Session(made).run(case.fed)["y"]
        assert got.dtype == want.dtype
        difference = np.abs(got.astype(int) - want.astype(int)).max()
        assert difference <= case.tolerance


@pytest.mark.parametrize("case", FLOATS, ids=_name)
def test_fused_operators_are_written_out(case: Case, tmp_path: Path) -> None:
    graph = load_onnx(case.save(tmp_path)).graph
    verify(graph)
    got = Session(graph).run(case.fed)
    for a, b in zip(got.values(), _reference(case), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


def _dynamic() -> onnx.ModelProto:
    """What ONNX Runtime's dynamic quantization makes of a MatMul and a Conv."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        helper.make_node("MatMulInteger", ["q", "w", "qz", "wz"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["real"], to=1),
        helper.make_node("Mul", ["qs", "ws"], ["scale"]),
        helper.make_node("Mul", ["real", "scale"], ["y"]),
        helper.make_node("DynamicQuantizeLinear", ["i"], ["p", "ps", "pz"]),
        helper.make_node("ConvInteger", ["p", "k", "pz", "wz"], ["csum"], pads=[1] * 4),
        helper.make_node("Cast", ["csum"], ["creal"], to=1),
        helper.make_node("Mul", ["creal", "ps"], ["z"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", 1, [3, 16]), value("i", 1, [1, 2, 6, 6])],
        [value("y", 1, [3, 8]), value("z", 1, None)],
        [
            numpy_helper.from_array(_quantized((16, 8), np.uint8), "w"),
            numpy_helper.from_array(np.array(117, np.uint8), "wz"),
            numpy_helper.from_array(np.array(0.013, np.float32), "ws"),
            numpy_helper.from_array(_quantized((4, 2, 3, 3), np.uint8, 1), "k"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)


def test_dynamic_quantization_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(_dynamic().SerializeToString())
    graph = load_onnx(path).graph
    feeds = {"x": _floats(3, 16), "i": _floats(1, 2, 6, 6, seed=1)}
    want = ort.InferenceSession(str(path)).run(None, feeds)
    for made in (graph, optimise(graph).graph):
        for a, b in zip(Session(made).run(feeds).values(), want, strict=True):
            np.testing.assert_array_equal(a, b)


_REFUSED = [
    ("Attention", {}, "not an operator of ONNX's own"),
    ("QLinearAveragePool", {"channels_last": 1, "kernel_shape": [2, 2]}, "channels come last"),
    ("QLinearSoftmax", {"opset": 11, "axis": 1}, "Softmax of opset 11"),
    ("FusedGemm", {"activation": "Elu", "activation_alpha": 2.0}, "parameters"),
    ("FusedConv", {"activation": "Elu"}, "'Elu'"),
    ("FusedMatMul", {"transBatchA": 1}, "transposes batches"),
]


@pytest.mark.parametrize(("op", "attributes", "why"), _REFUSED, ids=[r[0] for r in _REFUSED])
def test_what_has_no_equal_is_refused_by_name(
    op: str, attributes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    case = _unary("x")
    fused = op.startswith("Fused")
    inputs = ("a", "b") if fused else case.inputs
    fed = {"a": _floats(2, 3, 4, 4), "b": _floats(2, 3, 1, 1)} if fused else case.fed
    constants = {} if fused else case.constants
    path = Case(op, inputs, fed, constants, attributes=attributes).save(tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="the_node") as error:
        load_onnx(path)
    assert why in error.value.what


def test_a_look_knows_what_is_written_out(tmp_path: Path) -> None:
    path = FLOATS[0].save(tmp_path)
    assert not [f for f in inspect_file(path).model.findings if f.severity == "error"]


def test_scales_that_are_computed_are_refused(tmp_path: Path) -> None:
    case = _binary("QLinearAdd", np.uint8)
    fed = {**case.fed, "ys": case.constants["ys"]}
    constants = {k: v for k, v in case.constants.items() if k != "ys"}
    path = Case(case.op, case.inputs, fed, constants).save(tmp_path)
    with pytest.raises(UnsupportedOperatorError, match=r"the_node.*'ys' is computed"):
        load_onnx(path)
