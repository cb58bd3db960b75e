"""The simulator: integer coverage, inner tensors, builds without quantization, the self check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import OutputExistsError
from engine.graph.execute import Session
from engine.graph.metrics import sqnr
from engine.quantize import calibrate, lower_for_vendor, quantize
from engine.simulate import Simulator, check_saturation, integer_coverage, selfcheck
from engine.simulate.outputs import output_files
from tests.quantize.models import Net, small_cnn
from tests.simulate.forms import built_cnn


def coverage_of(net: Net, *outputs: str) -> dict[str, tuple[bool, str, str]]:
    _, qdq = net.given(*outputs, count=2)
    return {c.op: (c.integer, c.kernel, c.reason) for c in integer_coverage(qdq)}


def test_every_common_layer_runs_in_integers() -> None:
    _, _, built = built_cnn()
    found = integer_coverage(built.graph)
    kernels = {layer.op: layer.kernel for layer in found if layer.integer}
    assert kernels == {
        "Conv": "QLinearConv",
        "Add": "QLinearAdd",
        "Mul": "QLinearMul",
        "Sigmoid": "QLinearSigmoid",
        "LeakyRelu": "QLinearLeakyRelu",
        "Concat": "QLinearConcat",
        "AveragePool": "QLinearAveragePool",
        "GlobalAveragePool": "QLinearGlobalAveragePool",
        "Gemm": "QGemm",
        "MaxPool": kernels["MaxPool"],
        "Resize": "Resize",
    }
    assert [(layer.op, layer.integer) for layer in found if not layer.integer] == [
        ("Softmax", False)
    ]
    assert "vendor" in next(layer.reason for layer in found if layer.op == "Softmax")
    assert all(bool(layer.reason) != layer.integer for layer in found)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("conv_transpose", "no integer ConvTranspose"),
        ("hard_swish", "no integer HardSwish"),
        ("pad", "only moves values"),
        ("linear", "Resize of this mode"),
        ("dynamic", "computed at run time"),
        ("clip", "narrower"),
        ("pool", "wrong with these windows"),
    ],
)
def test_a_layer_in_float_says_why(form: str, reason: str) -> None:
    net = Net()
    x = net.input(1, 4, 6, 6)
    y = {
        "conv_transpose": lambda: net.op("ConvTranspose", x, net.constant(net.normal(4, 3, 2, 2))),
        "hard_swish": lambda: net.op("HardSwish", x),
        "pad": lambda: net.op("Pad", x, net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))),
        "linear": lambda: net.op(
            "Resize", x, "", net.constant([1.0, 1.0, 2.0, 2.0]), mode="linear"
        ),
        "dynamic": lambda: net.op("Conv", x, net.input(3, 4, 2, 2)),
        "clip": lambda: net.op("Clip", net.conv(x, 4, 4), net.constant(1.0), net.constant(2.0)),
        "pool": lambda: net.op("AveragePool", x, kernel_shape=[2, 2], dilations=[2, 2]),
    }[form]()
    found = coverage_of(net, net.op("Sigmoid", y))
    assert found.pop("Sigmoid")[0]
    ((integer, kernel, why),) = found.values()
    assert not integer
    assert not kernel.startswith("QLinear")
    assert reason in why


def test_the_coverage_of_a_placement_that_fails_is_not_hidden() -> None:
    """A graph whose Q/DQ pairs do not meet the runtime's patterns is reported as float."""
    net = Net()
    graph = net.graph(net.op("Relu", net.conv(net.input(1, 3, 8, 8), 3, 4)))
    proto = quantize(graph, calibrate(graph, net.feeds(1))).graph.to_proto()
    # a second reader of the float tensor between Conv and QuantizeLinear
    conv = next(node for node in proto.graph.node if node.op_type == "Conv")
    relu = next(node for node in proto.graph.node if node.op_type == "Relu")
    proto.graph.output.add().CopyFrom(proto.graph.output[0])
    proto.graph.output[1].name = relu.output[0]
    (layer,) = integer_coverage(type(graph).from_proto(proto))
    assert (layer.layer, layer.integer) == (conv.name, False)
    assert layer.reason


def test_inner_tensors_do_not_change_results() -> None:
    graph, feeds, built = built_cnn()
    plain = Simulator(graph, built.graph).run(feeds[0])
    inner = [v.name or "" for node in graph.nodes for v in node.outputs]
    everything = Simulator(graph, built.graph, outputs=inner).run(feeds[0], inner)
    for name, array in plain.items():
        np.testing.assert_array_equal(everything[name], array)
        assert array.dtype == np.float32
    golden = Session(graph, outputs=inner).run(feeds[0], inner)
    for name in inner:
        assert sqnr(golden[name], everything[name]) > 15


def test_simulated_results_are_near_the_float_ones() -> None:
    graph, feeds, built = built_cnn(4)
    simulator = Simulator(graph, built.graph)
    assert simulator.quantized
    assert simulator.inputs == graph.inputs
    assert simulator.outputs == graph.outputs
    for feed in feeds:
        golden, simulated = Session(graph).run(feed), simulator.run(feed)
        for name in golden:
            assert 20 < sqnr(golden[name], simulated[name]) < 100


def test_int8_and_uint8_activations_are_the_same_numbers() -> None:
    """The stored int8 graph and what runs (uint8) agree to the last bit."""
    _, feeds, built = built_cnn()
    lowered, stored = Session(built.graph), Session(built.graph, lower=False)
    for feed in feeds:
        first, second = lowered.run(feed), stored.run(feed)
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])


def test_a_build_without_quantization_runs_in_float32_and_says_so() -> None:
    net, graph = small_cnn()
    simulator = Simulator(graph)
    feed = net.feeds(1)[0]
    assert not simulator.quantized
    simulated, golden = simulator.run(feed), Session(graph).run(feed)
    for name, array in golden.items():
        np.testing.assert_array_equal(simulated[name], array)
    assert [finding.code for finding in simulator.findings] == ["simulated-in-float32"]
    assert "float16" in simulator.findings[0].cause


def test_saturating_convolutions_are_right_here() -> None:
    assert check_saturation() is None


def test_a_saturating_kernel_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Saturating:
        """Adds a pair of products that saturates, as AVX2 does without the precision mode."""

        def __init__(self, graph: object) -> None:
            self._session = Session(graph)  # type: ignore[arg-type]

        def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            results = self._session.run(feeds)
            return {name: array * 0.5 for name, array in results.items()}

    monkeypatch.setattr(selfcheck, "Session", Saturating)
    found = check_saturation.__wrapped__()
    assert found.code == "integer-kernel-inexact"


def test_the_vendor_form_keeps_its_integers() -> None:
    _, _, built = built_cnn(2)
    vendor = lower_for_vendor(built.graph)
    written = {n.output[0] for n in vendor.graph.node if n.op_type == "QuantizeLinear"}
    assert {
        n.outputs[0].name for n in built.graph.nodes if n.op_type == "QuantizeLinear"
    } <= written


def test_files_of_outputs_are_as_many_as_the_outputs(tmp_path: Path) -> None:
    names = ["x_2", "x", "x", "x", "\u6f22" * 100, "\u6f22" * 100, "/", ""]
    files = output_files(names, tmp_path, force=False)
    assert len(set(files)) == len(names)
    for file in files:
        file.write_bytes(b"")
    with pytest.raises(OutputExistsError):
        output_files(names, tmp_path, force=False)
