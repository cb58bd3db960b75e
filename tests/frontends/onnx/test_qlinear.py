"""Operators on integers and ONNX Runtime's own: rewritten, they give what ONNX Runtime gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.onnx import inspect_file, load_onnx
from engine.graph.execute import Session, ort
from engine.graph.ir import verify
from engine.graph.passes import optimise
from tests.frontends.onnx.conftest import Save
from tests.graph.models import finish, nodes_of, tensor

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

    def model(self) -> onnx.ModelProto:
        node = helper.make_node(
            self.op, self.inputs, self.outputs, "the_node", domain=self.domain, **self.attributes
        )
        kind = helper.np_dtype_to_tensor_dtype
        given = kind(self.constants["yz"].dtype) if "yz" in self.constants else TensorProto.FLOAT
        inputs = [tensor(n, *a.shape, dtype=kind(a.dtype)) for n, a in self.fed.items()]
        outputs = [helper.make_tensor_value_info(n, given, None) for n in self.outputs if n]
        proto = finish([node], inputs, outputs, self.constants, opset=self.opset, ir_version=8)
        proto.opset_import.add(domain=_MICROSOFT, version=1)
        return proto


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
    )


def _unary(op: str, **attributes: Any) -> Case:
    return Case(
        op,
        ("x", "xs", "xz", "ys", "yz"),
        {"x": _quantized((1, 4, 6, 6), np.uint8)},
        {**_parameters("x", 0.02, 120, np.uint8), **_parameters("y", 0.011, 90, np.uint8)},
        attributes=attributes,
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


def _float(
    op: str,
    fed: dict[str, tuple[int, ...]],
    constants: dict[str, tuple[int, ...]] | None = None,
    *,
    outputs: tuple[str, ...] = ("y",),
    opset: int = 13,
    **attributes: Any,
) -> Case:
    """A case of random numbers of these shapes."""
    shapes = {**fed, **(constants or {})}
    arrays = {n: _floats(*shape, seed=at) for at, (n, shape) in enumerate(shapes.items())}
    given = {name: arrays.pop(name) for name in fed}
    return Case(op, tuple(shapes), given, arrays, _MICROSOFT, outputs, attributes, opset)


def _fused_conv(kind: str, parameters: list[float], opset: int) -> Case:
    activated = {"activation": kind, "activation_params": parameters}
    weights: dict[str, tuple[int, ...]] = {"w": (4, 3, 3, 3), "b": (4,)}
    return _float(
        "FusedConv", {"x": (1, 3, 8, 8)}, weights, opset=opset, pads=[1, 1, 1, 1], **activated
    )


_SKIPPED: dict[str, tuple[int, ...]] = {"x": (1, 3, 8), "s": (1, 3, 8)}
_NORM: dict[str, tuple[int, ...]] = {"gamma": (8,), "beta": (8,), "bias": (8,)}

FLOATS = [
    _float("Gelu", {"x": (2, 8)}),
    _float("QuickGelu", {"x": (2, 8)}, alpha=1.5),
    _float("FastGelu", {"x": (2, 8)}, {"b": (8,)}),
    _float("BiasGelu", {"x": (2, 8)}, {"b": (8,)}),
    _fused_conv("LeakyRelu", [0.2], 13),
    *(_fused_conv("Clip", [0.0, 6.0], opset) for opset in (10, 11)),
    _fused_conv("Clip", [-0.5, 0.5], 13),
    _fused_conv("HardSigmoid", [0.3, 0.4], 13),
    _float("FusedGemm", {"a": (2, 5)}, {"b": (4, 5), "c": (4,)}, activation="Relu", transB=1),
    _float("FusedMatMul", {"a": (2, 5, 3), "b": (2, 5, 4)}, alpha=0.5, transA=1),
    _float("SkipLayerNormalization", _SKIPPED, _NORM, outputs=("y", "", "", "sum"), epsilon=1e-4),
    _float("SkipSimplifiedLayerNormalization", _SKIPPED, {"gamma": (8,), "bias": (8,)}, opset=18),
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
    return f"{case.op} of opset {case.opset}"


@pytest.mark.parametrize("case", INTEGERS, ids=_name)
def test_integers_come_out_the_same_to_the_last_bit(case: Case, save: Save) -> None:
    graph = load_onnx(save(case.model())).graph
    verify(graph)
    assert not any(node.op_type.startswith("QLinear") for node in graph.nodes)
    (want,) = _reference(case)
    for made in (graph, optimise(graph).graph):
        got = Session(made).run(case.fed)["y"]
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("case", FLOATS, ids=_name)
def test_fused_operators_are_written_out(case: Case, save: Save) -> None:
    graph = load_onnx(save(case.model())).graph
    verify(graph)
    got = Session(graph).run(case.fed)
    for a, b in zip(got.values(), _reference(case), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


def test_dynamic_quantization_stays_as_it_is(save: Save) -> None:
    """What ONNX Runtime's dynamic quantization makes of a MatMul and a Conv."""
    nodes = """q, qs, qz = DynamicQuantizeLinear (x); sum = MatMulInteger (q, w, qz, wz);
        real = Cast <to=1> (sum); scale = Mul (qs, ws); y = Mul (real, scale);
        p, ps, pz = DynamicQuantizeLinear (i);
        csum = ConvInteger <pads=[1, 1, 1, 1]> (p, k, pz, wz); creal = Cast <to=1> (csum);
        z = Mul (creal, ps)"""
    constants = {
        "w": _quantized((16, 8), np.uint8),
        "wz": np.array(117, np.uint8),
        "ws": np.array(0.013, np.float32),
        "k": _quantized((4, 2, 3, 3), np.uint8, 1),
    }
    inputs, outputs = [tensor("x", 3, 16), tensor("i", 1, 2, 6, 6)], [tensor("y", 3, 8)]
    outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    path = save(finish(nodes_of(nodes), inputs, outputs, constants, opset=11, ir_version=6))
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
    op: str, attributes: dict[str, Any], why: str, save: Save
) -> None:
    case = _unary(op, **attributes)
    if op.startswith("Fused"):
        fed = {"a": _floats(2, 3, 4, 4), "b": _floats(2, 3, 1, 1)}
        case = Case(op, ("a", "b"), fed, {}, attributes=attributes)
    with pytest.raises(UnsupportedOperatorError, match="the_node") as error:
        load_onnx(save(case.model()))
    assert why in error.value.what


def test_a_look_knows_what_is_written_out(save: Save) -> None:
    path = save(FLOATS[0].model())
    assert not [f for f in inspect_file(path).model.findings if f.severity == "error"]


def test_scales_that_are_computed_are_refused(save: Save) -> None:
    case = _binary("QLinearAdd", np.uint8)
    case.fed["ys"] = case.constants.pop("ys")
    path = save(case.model())
    with pytest.raises(UnsupportedOperatorError, match=r"the_node.*'ys' is computed"):
        load_onnx(path)
