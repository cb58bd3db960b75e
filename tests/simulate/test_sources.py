"""Models with quantization of their own (QAT): their parameters stay, and run as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from engine.frontends.onnx import load_onnx
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.passes import optimise
from engine.quantize import calibrate, quantize
from engine.simulate import Simulator, integer_coverage
from tests.graph.models import nodes_of
from tests.simulate.sources import qat_cnn

FORMS: dict[str, dict[str, Any]] = {
    "int8 per channel": {},
    "int8 per channel, fake-quantized in the graph": {"in_graph": True},
    "int8 per tensor": {"per_channel": False},
    "int8 per channel, asymmetric": {"symmetric": False},
    "uint8 per channel": {"weight": "uint8", "activation": "uint8"},
    "uint8 per tensor": {"weight": "uint8", "activation": "uint8", "per_channel": False},
    "int8 weights, int16 activations": {"activation": "int16"},
    "uint8 weights, uint16 activations": {"activation": "uint16", "weight": "uint8"},
    "int4 weights": {"weight": "int4"},
    "int4 weights, fake-quantized, int16 activations": {
        "weight": "int4",
        "activation": "int16",
        "in_graph": True,
    },
    "int16": {"weight": "int16", "activation": "int16"},
}


def loaded(folder: Path, model: onnx.ModelProto) -> Graph:
    path = folder / "qat.onnx"
    onnx.save(model, path)
    return optimise(load_onnx(path).graph).graph


@pytest.mark.parametrize("form", sorted(FORMS))
def test_parameters_stay_and_are_simulated(tmp_path: Path, form: str) -> None:
    options = FORMS[form]
    model = qat_cnn(**options)
    graph = loaded(tmp_path, model)
    rng = np.random.default_rng(1)
    feeds = {"x": (rng.normal(size=(1, 4, 8, 8)) * 2).astype(np.float32)}
    done = quantize(graph, calibrate(graph, [feeds]))
    assert done.graph is graph
    assert [finding.code for finding in done.findings] == ["source-quantization-kept"]

    sources = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer
    }
    pairs = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    assert len(done.table) == len(pairs)
    for node in pairs:
        params = done.table[node.output[0]]
        np.testing.assert_array_equal(
            np.float32(params.scale), sources[node.input[1]].reshape(-1).astype(np.float32)
        )
        np.testing.assert_array_equal(
            params.zero_point, sources[node.input[2]].reshape(-1).astype(np.int64)
        )
        assert params.dtype == sources[node.input[2]].dtype.name

    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    (found,) = Simulator(graph).run(feeds).values()
    (last,) = [pair for pair in pairs if pair.output[0] == model.graph.output[0].name]
    # the reference computes in float32: a value on the edge of a step may fall to the next
    assert np.abs(found - expected).max() <= 1.01 * done.table[last.output[0]].scale[0]
    assert np.abs(expected).max() > 0


@pytest.mark.parametrize("form", sorted(form for form in FORMS if "16" not in form))
def test_8_bit_sources_run_in_integers(tmp_path: Path, form: str) -> None:
    covered = integer_coverage(loaded(tmp_path, qat_cnn(**FORMS[form])))
    kernels = {layer.op: layer.kernel for layer in covered}
    assert kernels["Conv"] == "QLinearConv"
    assert kernels["Gemm"] == "QGemm"
    assert all(layer.integer for layer in covered)


def test_16_bit_sources_are_not_rounded_further(tmp_path: Path) -> None:
    """ONNX Runtime would quantize weights that are float beside Q/DQ pairs to int8."""
    covered = integer_coverage(loaded(tmp_path, qat_cnn("int16", "int16")))
    assert {layer.kernel for layer in covered if layer.op == "Conv"} <= {"Conv", "FusedConv"}
    assert not any(layer.integer for layer in covered)


def test_the_model_can_be_built_without_quantization(tmp_path: Path) -> None:
    graph = loaded(tmp_path, qat_cnn())
    simulator = Simulator(graph, float_dtype="float16")
    assert [f.code for f in simulator.findings] == ["source-quantization-simulated"]
    feeds = {"x": np.ones((1, 4, 8, 8), np.float32)}
    for name, array in Session(graph).run(feeds).items():
        np.testing.assert_array_equal(simulator.run(feeds)[name], array)


@pytest.mark.long
def test_a_model_trained_with_fake_quantization_in_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    aq = torch.ao.quantization

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(4, 8, 3, padding=1)
            self.second = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.quiet = aq.FakeQuantize(aq.MovingAverageMinMaxObserver, 0, 255)
            for name in ("first", "second"):
                quiet = aq.default_per_channel_weight_fake_quant()
                setattr(self, f"{name}_weight", quiet)

        def forward(self, x: Any) -> Any:
            x = self.quiet(x)
            for name in ("first", "second"):
                layer = getattr(self, name)
                weight = getattr(self, f"{name}_weight")(layer.weight)
                x = torch.nn.functional.conv2d(
                    x, weight, layer.bias, padding=1, groups=layer.groups
                )
                x = self.quiet(torch.relu(x))
            return x

    net = Net()
    sample = torch.randn(1, 4, 8, 8)
    net(sample)
    net.eval().apply(aq.disable_observer)
    path = tmp_path / "qat.onnx"
    torch.onnx.export(net, (sample,), path, opset_version=17, dynamo=False)
    graph = optimise(load_onnx(path).graph).graph
    (spec,) = graph.inputs
    feeds = {spec.name: sample.numpy()}
    simulator = Simulator(graph)
    (found,) = simulator.run(feeds).values()
    expected = net(sample).detach().numpy()
    step = float(net.quiet.scale)
    assert np.abs(found - expected).max() <= 1.01 * step
    table = quantize(graph, calibrate(graph, [feeds])).table
    scales = np.float32([s for p in table.values() if p.axis == 0 for s in p.scale])
    wanted = torch.cat([net.first_weight.scale, net.second_weight.scale]).numpy()
    np.testing.assert_array_equal(np.sort(scales), np.sort(wanted))


def test_blocked_weights_of_4_bits_are_not_rounded_further(tmp_path: Path) -> None:
    """ONNX Runtime's MatMulNBits would round the activations to 8 bits."""
    helper, kinds = onnx.helper, onnx.TensorProto
    rng = np.random.default_rng(0)
    integers, zero = rng.integers(-8, 8, (40, 6)), rng.integers(-2, 3, (3, 6))
    scale = rng.uniform(0.01, 0.1, (3, 6)).astype(np.float32)
    graph = helper.make_graph(
        nodes_of(
            "w = DequantizeLinear <axis=0, block_size=16> (q, s, z); [product] y = MatMul (x, w)"
        ),
        "blocks",
        [helper.make_tensor_value_info("x", kinds.FLOAT, [2, 40])],
        [helper.make_tensor_value_info("y", kinds.FLOAT, [2, 6])],
        [
            helper.make_tensor("q", kinds.INT4, (40, 6), integers.flatten()),
            helper.make_tensor("z", kinds.INT4, (3, 6), zero.flatten()),
            onnx.numpy_helper.from_array(scale, "s"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = {"x": rng.normal(size=(2, 40)).astype(np.float32)}
    weight = (integers - np.repeat(zero, 16, 0)[:40]) * np.repeat(scale, 16, 0)[:40]
    (found,) = Simulator(loaded(tmp_path, model)).run(feeds).values()
    np.testing.assert_allclose(found, feeds["x"] @ weight, rtol=1e-5, atol=1e-5)
