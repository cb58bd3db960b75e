"""Every dtype simulated: against the numpy reference, and in kernels that compute what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.quantize import QuantizeSettings, calibrate, layers_of, quantize, to_float16
from engine.quantize.dtypes.formats import SCHEMES
from engine.simulate import Simulator, integer_coverage, quantized_layers
from tests.quantize.models import Net, small_cnn
from tests.simulate.forms import FORMS
from tests.simulate.test_reference import worst_layer, worst_of_network

OTHERS = sorted(set(SCHEMES) - {"w8a8", "asymmetric_quantized-16", "w16a16i_dfp"})
"""The dtypes that compute anew; the other two are a second name of one of these."""


def quantized(dtype: str, **options: Any) -> tuple[Net, Graph, Graph]:
    net, graph = small_cnn()
    chosen = QuantizeSettings(dtype=dtype, **options)
    return net, graph, quantize(graph, calibrate(graph, net.feeds(3)), chosen).graph


@pytest.mark.parametrize("dtype", OTHERS)
def test_layers_are_within_what_is_stated(dtype: str) -> None:
    net, graph = small_cnn(1)
    worst, layers = worst_layer(
        graph, net.feeds(3), net.feeds(2, 2.0), QuantizeSettings(dtype=dtype)
    )
    assert layers > 10
    assert worst <= SCHEMES[dtype].difference


@pytest.mark.long
@pytest.mark.parametrize("dtype", OTHERS)
@given(
    form=st.sampled_from(sorted(FORMS)),
    data=st.data(),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_single_operators(dtype: str, form: str, data: Any, seed: int, scale: float) -> None:
    net = Net(seed)
    graph = net.graph(FORMS[form](net, data.draw))
    # samples of twice the calibrated range make values saturate
    worst, _ = worst_layer(
        graph, net.feeds(2, scale), net.feeds(1, 2 * scale), QuantizeSettings(dtype=dtype)
    )
    assert worst <= SCHEMES[dtype].difference


@pytest.mark.long
@pytest.mark.parametrize("dtype", OTHERS)
@pytest.mark.parametrize("model", ["resnet8", "vww96"])
def test_networks_layer_by_layer(shared: Path, model: str, dtype: str) -> None:
    path = shared / "bench" / "models" / f"{model}.onnx"
    worst, layers = worst_of_network(path, 2, 1, 0.0, dtype)
    assert layers > 10
    assert worst <= SCHEMES[dtype].difference


@pytest.mark.parametrize("dtype", sorted(SCHEMES))
def test_what_runs_is_what_the_graph_says(dtype: str) -> None:
    """ONNX Runtime's rewrites and ours change no number by more than float32 rounds."""
    net, _, qdq = quantized(dtype)
    feeds = net.feeds(1)[0]
    ran = Session(qdq).run(feeds)
    plain = Session(qdq, level="disabled", lower=False).run(feeds)
    for name, expected in plain.items():
        limit = 1e-2 if SCHEMES[dtype].integer else 2e-3
        np.testing.assert_allclose(ran[name], expected, atol=limit * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [s.name for s in SCHEMES.values() if s.integer])
def test_8_bit_activations_run_in_integers(dtype: str) -> None:
    _, _, qdq = quantized(dtype)
    in_float = [layer.op for layer in integer_coverage(qdq) if not layer.integer]
    assert in_float == ["Softmax"]


@pytest.mark.parametrize("dtype", [s.name for s in SCHEMES.values() if not s.integer])
def test_other_dtypes_say_that_they_run_in_float(dtype: str) -> None:
    net, graph, qdq = quantized(dtype)
    covered = integer_coverage(qdq)
    names = [node.name for node in graph.nodes if node.op_type not in ("Relu", "Clip")]
    assert {layer.layer for layer in covered} <= set(names)
    assert not any(layer.integer for layer in covered)
    assert sum(dtype in layer.reason for layer in covered) > 10
    simulator = Simulator(graph, qdq)
    notes = [f for f in simulator.findings if f.code == "simulated-not-bit-exact"]
    assert len(notes) == 1
    assert "not bit-exact" in notes[0].what
    # resolving a name that is a tensor of the float graph still works
    assert simulator.run(net.feeds(1)[0], ["Conv_5_0"])["Conv_5_0"].shape == (1, 8, 12, 12)


def test_w8a8_has_no_note() -> None:
    _, graph, qdq = quantized("w8a8")
    assert Simulator(graph, qdq).findings == ()


def test_dynamic_fixed_point_never_stores_its_lowest_integer() -> None:
    net, _, qdq = quantized("dynamic_fixed_point-8")
    names = [
        node.inputs[0].name or ""
        for node in qdq.nodes
        if node.op_type == "DequantizeLinear" and node.inputs[0] is not None
    ]
    values = Session(qdq).run(net.feeds(1, 50.0)[0], names)
    lowest = {name: int(array.min()) for name, array in values.items() if array.dtype == np.int8}
    assert min(lowest.values()) == -127
    # Relu is held on the integers
    assert lowest["Relu_2_0/max"] == 0


def test_weights_of_4_bits_are_stored_in_4_bits_and_not_computed_otherwise(tmp_path: Path) -> None:
    net = Net()
    x = net.input(4, 64)
    graph = net.graph(net.op("MatMul", x, net.constant(net.normal(64, 32))))
    feeds = net.feeds(2)
    done = quantize(graph, calibrate(graph, feeds), QuantizeSettings(dtype="w4a16"))
    assert done.graph.constant("constant0/quantized").dtype.name == "int4"  # type: ignore[union-attr]
    path = tmp_path / "optimised.onnx"
    Session(done.graph, optimised_model=path)
    assert "MatMulNBits" not in {node.op_type for node in onnx.load(path).graph.node}


def test_rounding_to_half_precision_survives_the_runtime() -> None:
    net, _, qdq = quantized("float16")
    names = tuple(layers_of(qdq).stored)
    assert len(names) > 10
    for array in Session(qdq).run(net.feeds(1)[0], names).values():
        np.testing.assert_array_equal(array, array.astype(np.float16).astype(np.float32))


def test_a_build_without_quantization_rounds_to_float16() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(1)[0]
    simulator = Simulator(graph, float_dtype="float16")
    assert [finding.code for finding in simulator.findings] == ["simulated-in-float16"]
    found, golden = simulator.run(feeds), Session(graph).run(feeds)
    expected = Session(to_float16(graph).graph).run(feeds)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
        assert 0 < np.abs(found[name] - golden[name]).max() < 2e-3 * np.abs(golden[name]).max()
    assert not simulator.quantized


def test_an_overflow_of_half_precision_names_its_layer() -> None:
    net = Net()
    x = net.input(1, 8)
    big = net.op("Gemm", x, net.constant(net.normal(8, 4, scale=1e4)))
    out = net.op("Reciprocal", net.op("Mul", big, big))
    simulator = Simulator(net.graph(out), float_dtype="float16")
    simulator.run(net.feeds(1)[0])
    (found,) = [f for f in simulator.findings if f.code == "float16-overflow"]
    assert found.where == "Mul_2"
    assert "65504" in found.what
    harmless = Simulator(net.graph(out), float_dtype="float16")
    harmless.run({x: np.full((1, 8), 1e-4, np.float32)})
    assert [f.code for f in harmless.findings] == ["simulated-in-float16"]


def test_a_layer_lifted_to_16_bits_leaves_the_others_in_integers() -> None:
    net, graph = small_cnn()
    lifted = QuantizeSettings(layers={"Conv_5_0": "float16", "Conv_9_0": "int16"})
    done = quantize(graph, calibrate(graph, net.feeds(3)), lifted)
    qdq = done.graph
    in_float = {layer.layer for layer in integer_coverage(qdq) if not layer.integer}
    assert in_float == {"Conv_5", "Conv_9", "Softmax_23"}
    codes = [finding.code for finding in Simulator(graph, qdq).findings]
    assert codes == ["simulated-not-bit-exact"] * 2
    assert {
        layer.outputs[0][1].dtype
        for layer in quantized_layers(qdq, done.layers)
        if layer.outputs[0]
    } == {
        "int8",
        "int16",
        "float16",
    }


def test_mixed_layers_layer_by_layer() -> None:
    net, graph = small_cnn(2)
    names = [node.outputs[0].name or "" for node in graph.nodes if node.op_type != "Softmax"]
    kinds = ("float16", "int16", "int8", "dynamic_fixed_point-i8", "asymmetric_affine-u8")
    layers = {name: kinds[index % 5] for index, name in enumerate(names) if index % 2}
    # a layer that ends in Relu or Clip has one dtype
    for node in graph.nodes:
        if node.op_type in ("Relu", "Clip"):
            layers.pop(node.inputs[0].name or "", None)  # type: ignore[union-attr]
    worst, seen = worst_layer(
        graph, net.feeds(3), net.feeds(2, 2.0), QuantizeSettings(layers=layers)
    )
    assert seen > 15
    assert worst <= 1
