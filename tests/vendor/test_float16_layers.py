"""Float layers of a quantized graph in half precision, held to numpy and the vendor's simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.graph.execute import Session, as_compiled, float16_layers
from engine.graph.execute.float16_layers import gelus, half_precision
from engine.graph.ir import Graph
from engine.toolkit.compile.compiler import CompilerRequest, CompilerRun
from engine.toolkit.environments import find
from engine.toolkit.toolkit import Toolkit
from tests.vendor.models import onnx_model

SHAPE = (1, 8, 16, 32)
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=SHAPE).astype(np.float32)
MASK = _RNG.normal(0, 0.5, (1, 1, 16, 32)).astype(np.float32)
GAIN, SHIFT = (_RNG.normal(1, 0.2, (2, 32))).astype(np.float32)
KERNEL = _RNG.normal(0, 0.2, (16, 8, 3, 3)).astype(np.float32)
BIAS = _RNG.normal(0, 0.2, 16).astype(np.float32)
STEP = 0.03


class Net:
    """A graph of x and a mask, whose x is rounded to 8 bits."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, np.ndarray] = {}

    def constant(self, array: np.ndarray | float) -> str:
        name = f"c{len(self.stored)}"
        self.stored[name] = np.asarray(array, None if isinstance(array, np.ndarray) else np.float32)
        return name

    def op(self, op: str, *inputs: str | np.ndarray | float, **attributes: object) -> str:
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [out], f"n{out}", **attributes))
        return out

    def pair(self, value: str, scale: float = STEP, zero: int = 0) -> str:
        for op in ("QuantizeLinear", "DequantizeLinear"):
            value = self.op(op, value, scale, np.array(zero, np.int8))
        return value

    def model(self, out: str) -> onnx.ModelProto:
        self.nodes[-1].output[0] = "y"
        assert out == f"t{len(self.nodes) - 1}"
        read = {name for node in self.nodes for name in node.input}
        shapes = {"x": SHAPE, "m": MASK.shape}
        inputs = {name: shape for name, shape in shapes.items() if name in read}
        return onnx_model(self.nodes, inputs, {"y": None}, self.stored, 19)


def softmax_of_a_sum(net: Net) -> str:
    added = net.op("Add", net.pair("x"), "m")
    return net.pair(net.op("Softmax", added, axis=-1), 1 / 255, -128)


def root_of_a_sum(net: Net) -> str:
    added = net.op("Add", net.op("Abs", net.pair("x")), 1e-5)
    return net.pair(net.op("Sqrt", added), 0.01, -128)


def gelu(net: Net) -> str:
    x = net.pair("x")
    gate = net.op("Add", net.op("Erf", net.op("Div", x, 1.41421)), 1.0)
    return net.pair(net.op("Mul", net.op("Mul", x, gate), 0.5), 0.02, -50)


def swish(net: Net) -> str:
    x = net.pair("x")
    return net.op("Mul", x, net.op("Sigmoid", x))


def normalization(net: Net) -> str:
    x, axes = net.pair("x"), net.constant(np.array([-1], np.int64))
    away = net.op("Sub", x, net.op("ReduceMean", x, axes, keepdims=1))
    spread = net.op("ReduceMean", net.op("Pow", away, 2.0), axes, keepdims=1)
    made = net.op("Div", away, net.op("Sqrt", net.op("Add", spread, 1e-5)))
    return net.op("Add", net.op("Mul", made, GAIN), SHIFT)


def quotient(net: Net) -> str:
    return net.op("Div", net.pair("x"), 0.37)


def convolution(net: Net) -> str:
    return net.pair(net.op("Conv", net.pair("x"), KERNEL, BIAS, pads=[1, 1, 1, 1]))


def product(net: Net) -> str:
    return net.pair(net.op("MatMul", net.pair("x"), KERNEL.reshape(32, -1)))


CASES = (
    softmax_of_a_sum,
    root_of_a_sum,
    gelu,
    swish,
    quotient,
    normalization,
    convolution,
    product,
)


def half(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16).astype(np.float32)


def rounded(array: np.ndarray, scale: float, zero: int) -> np.ndarray:
    whole = np.clip(np.rint(array / np.float32(scale)) + zero, -128, 127) - zero
    return (whole.astype(np.float32) * np.float32(scale)).astype(np.float32)


def expected(case: Callable[[Net], str]) -> np.ndarray | None:
    """In numpy, each rounding written out; None for those that sum in another order."""
    x = half(rounded(X, STEP, 0))
    if case is softmax_of_a_sum:
        added = half(x + MASK)
        powers = np.exp(added - added.max(axis=-1, keepdims=True))
        return rounded(half(powers / powers.sum(axis=-1, keepdims=True)), 1 / 255, -128)
    if case is root_of_a_sum:
        return rounded(half(np.sqrt(half(np.abs(x) + half(np.float32(1e-5))))), 0.01, -128)
    if case is quotient:
        return half(x * half(1 / np.float32(0.37)))
    if case is swish:
        return half(x / (1 + np.exp(-x)))
    if case is normalization:
        away = x - x.mean(axis=-1, keepdims=True)
        made = away / np.sqrt((away * away).mean(axis=-1, keepdims=True) + np.float32(1e-5))
        return half(made * half(GAIN) + half(SHIFT))
    return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.__name__))
def test_a_float_layer_reads_and_gives_numbers_of_float16(case: Callable[[Net], str]) -> None:
    net = Net()
    graph = Graph.from_bytes(net.model(case(net)).SerializeToString())
    halves = float16_layers(graph)
    feed = {"x": X, "m": MASK}
    feed = {spec.name: feed[spec.name] for spec in graph.inputs}
    (plain,), (found,) = (
        Session(each, reference=True).run(feed).values() for each in (graph, halves)
    )
    assert not np.array_equal(plain, found)
    wanted = expected(case)
    if wanted is not None:
        # exp and means of numpy differ from ONNX Runtime's in last bits
        assert np.mean(found != wanted) < 5e-3
        assert np.mean(plain != wanted) > np.mean(found != wanted)
    assert [spec.name for spec in halves.outputs] == ["y"]


def whole_gelu(net: Net) -> str:
    x = net.pair("x")
    gate = net.op("Add", net.op("Erf", net.op("Div", x, float(np.float32(2**0.5)))), 1.0)
    return net.pair(net.op("Mul", net.op("Mul", x, gate), 0.5), 0.02, -50)


def test_a_normalization_whose_parts_are_rounded_runs_in_optimised_sessions() -> None:
    """ONNX Runtime 1.31 made one node of two types of it, and refused that."""
    net = Net()
    halves = float16_layers(Graph.from_bytes(net.model(normalization(net)).SerializeToString()))
    fast, exact = (Session(halves, reference=one).run({"x": X})["y"] for one in (False, True))
    np.testing.assert_allclose(fast, exact, atol=2e-3)  # a step of float16 at 4


@pytest.mark.parametrize("size", [24, 96, 512])
def test_means_of_a_normalization_are_added_from_the_first_value_on(size: int) -> None:
    """As the toolkit adds them; lanes give another float16 once in 1,000 to 4,000 values."""
    x = np.random.default_rng(size).normal(size=(64, size)).astype(np.float32)

    def mean(array: np.ndarray) -> np.ndarray:
        added = np.zeros((len(array), 1), np.float32)
        for column in array.T:
            added += column[:, None]
        return added / np.float32(size)

    read = half(rounded(x, STEP, 0))
    away = read - mean(read)
    wanted = half(away / np.sqrt(mean(away * away) + np.float32(1e-5)))
    net = Net()
    value, axes = net.pair("x"), net.constant(np.array([-1], np.int64))
    apart = net.op("Sub", value, net.op("ReduceMean", value, axes, keepdims=1))
    spread = net.op("ReduceMean", net.op("Pow", apart, 2.0), axes, keepdims=1)
    model = net.model(net.op("Div", apart, net.op("Sqrt", net.op("Add", spread, 1e-5))))
    model.graph.input[0].CopyFrom(
        helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))
    )
    del model.graph.value_info[:], model.graph.output[0].type.tensor_type.shape.dim[:]
    model = onnx.shape_inference.infer_shapes(model)
    graph = float16_layers(Graph.from_bytes(model.SerializeToString()))
    found = Session(graph, reference=True).run({"x": x})["y"]
    np.testing.assert_array_equal(found, wanted)


def test_a_gelu_by_the_root_of_2_is_a_layer_of_8_bits() -> None:
    """By 1.41421 it is four of float16, as the case above: so the compiler takes them."""
    net = Net()
    graph = Graph.from_bytes(net.model(whole_gelu(net)).SerializeToString())
    assert half_precision(graph) == []
    assert len(gelus(graph)) == 1


def test_a_layer_of_8_bits_is_none_of_half_precision() -> None:
    net = Net()
    summed = net.op("Relu", net.op("Add", net.pair("x"), 0.37))
    model = net.model(net.pair(net.op("Transpose", net.pair(summed), perm=[0, 2, 3, 1])))
    graph = Graph.from_bytes(model.SerializeToString())
    assert half_precision(graph) == []
    assert float16_layers(graph) is graph
    plain = Net()
    without = Graph.from_bytes(plain.model(plain.op("Sqrt", "x")).SerializeToString())
    assert float16_layers(without) is without


@pytest.mark.long
@pytest.mark.vendor
@pytest.mark.parametrize("level", [2, 3])
@pytest.mark.parametrize("chip", ["rk3566", "rk3588"])
def test_the_vendors_simulator_gives_the_same_bits(
    vendor_python: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chip: str, level: int
) -> None:
    monkeypatch.setenv("RKNNTUI_VENDOR", str(vendor_python.parents[1]))
    with Toolkit(find(2), tmp_path) as toolkit:
        for case in (*CASES, whole_gelu):
            net = Net()
            model = net.model(case(net))
            request = CompilerRequest(
                chip=chip,
                model=model.SerializeToString(),
                by="ours",
                config={"target_platform": chip, "optimization_level": level},
                build={"do_quantization": False},
            )
            run = CompilerRun(toolkit, request)
            run.compile()
            graph = float16_layers(Graph.from_bytes(request.model))
            graph = as_compiled(graph) if level == 3 else graph
            given = {"x": X, "m": MASK}
            feed = {spec.name: given[spec.name] for spec in graph.inputs}
            (theirs,) = run.simulate(list(feed.values()))
            (ours,) = Session(graph, reference=True).run(feed).values()
            run.release()
            # exp of another version of the runtime differs in a last bit now and then
            assert np.mean(theirs.ravel() != ours.ravel()) < 1e-3, case.__name__
