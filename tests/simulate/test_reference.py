"""The simulator against the numpy reference, layer by layer on the same inputs: within 1 LSB."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.errors import GraphError
from engine.frontends.onnx import load_onnx
from engine.graph.execute import Session
from engine.graph.execute.means import LARGEST_WINDOW
from engine.graph.ir import Graph, QuantParams, params_of
from engine.graph.passes import optimise
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.simulate import Simulator, quantized_layers, reference_layer, stored_steps
from tests.quantize.models import Net, small_cnn
from tests.simulate.forms import FORMS, built_cnn

Feeds = Iterable[Mapping[str, np.ndarray]]


def largest_difference(params: QuantParams, values: np.ndarray, expected: np.ndarray) -> int:
    """The largest difference between simulated values and the reference, in steps of the format.

    Half precision has ever finer steps towards 0, and a sum of large numbers that cancel is no
    more exact than float32 makes it: a difference below 2**-18 of the layer's largest number
    counts as one step at most.

    Args:
        params: of the output.
        values: dequantized results of the simulator.
        expected: of :func:`reference_layer`.
    """
    steps = np.abs(stored_steps(params, values) - expected)
    if params.is_float:
        bits = np.where(expected < 0, -expected | 0x8000, expected).astype(np.uint16)
        exact = bits.view(np.float16).astype(np.float64)
        small = np.abs(exact - values) <= 2.0**-18 * np.abs(exact).max(initial=0.0)
        steps = np.where(small, np.minimum(steps, 1), steps)
    return int(steps.max(initial=0))


def worst_layer(
    graph: Graph,
    calibration: Feeds,
    evaluation: Feeds,
    chosen: QuantizeSettings | None = None,
) -> tuple[int, int]:
    """The worst difference in steps between simulator and reference, and the layers seen.

    A mean over more than 8 rows or columns is rounded in stages, as the NPU does it, and in the
    reference once: what the stages before the last may add is taken off.
    """
    done = quantize(graph, calibrate(graph, calibration), chosen)
    qdq, layers = done.graph, quantized_layers(done.graph, done.layers)
    names = {value.name for layer in layers for value in layer.node.inputs if value is not None}
    names |= {output[0] for layer in layers for output in layer.outputs if output is not None}
    wanted = sorted(name for name in names if name)
    simulator = Simulator(graph, qdq, outputs=wanted)
    worst = 0
    for feed in evaluation:
        values = simulator.run(feed, wanted)
        for layer in layers:
            expected = reference_layer(layer, values)
            outputs = [output for output in layer.outputs if output is not None]
            for (name, params), integers in zip(outputs, expected, strict=True):
                apart = largest_difference(params, values[name], integers)
                worst = max(worst, apart - stages_add(layer.node, params.scale[0]))
    return worst, len(layers)


def worst_of_network(
    path: Path, calibration: int, evaluation: int, low: float = -1.0, dtype: str = "w8a8"
) -> tuple[int, int]:
    """The same of a file, over so many samples of even numbers from ``low`` to 1."""
    graph = optimise(load_onnx(path).graph).graph
    (spec,) = graph.inputs
    rng = np.random.default_rng(0)
    feeds = [
        {spec.name: rng.uniform(low, 1, spec.shape).astype(np.float32)}
        for _ in range(calibration + evaluation)
    ]
    chosen = QuantizeSettings(dtype=dtype)
    return worst_layer(graph, feeds[:calibration], feeds[calibration:], chosen)


def stages_add(node: ir.Node, scale: float) -> int:
    """Steps of an output of this scale that the stages of a mean before its last may add.

    Each stage rounds to blocks whose scale is the input's, times 257/256, times what zeros that
    fill the last block make it larger (an eighth an axis at most); a mean of errors is no larger.
    """
    source = node.inputs[0] if node.op_type == "GlobalAveragePool" else None
    before = None if source is None else source.producer()
    params = None if before is None else params_of(before)
    if source is None or source.shape is None or params is None:
        return 0
    sizes = [int(size) for size in source.shape.numpy()[2:]]
    if params.dtype != "int8" or max(sizes) <= LARGEST_WINDOW:
        return 0
    stages = math.ceil(math.log(max(sizes), LARGEST_WINDOW)) - 1
    return math.ceil(stages * 0.5 * 257 / 256 * 1.125**2 * params.scale[0] / scale)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.01, 1.0, 30.0]))
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
def test_single_operators(form: str, data: Any, seed: int, scale: float) -> None:
    net = Net(seed)
    graph = net.graph(FORMS[form](net, data.draw))
    # samples of twice the calibrated range make values saturate
    worst, layers = worst_layer(graph, net.feeds(2, scale), net.feeds(1, 2 * scale))
    assert layers > 0
    assert worst <= 1


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.001, 1.0, 300.0]))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_many_single_operators(form: str, data: Any, seed: int, scale: float) -> None:
    net = Net(seed)
    graph = net.graph(FORMS[form](net, data.draw))
    worst, _ = worst_layer(graph, net.feeds(2, scale), net.feeds(2, 2 * scale))
    assert worst <= 1


@pytest.mark.parametrize("seed", range(3))
def test_a_generated_network_layer_by_layer(seed: int) -> None:
    net, graph = small_cnn(seed)
    worst, layers = worst_layer(graph, net.feeds(4), net.feeds(3))
    assert layers > 15
    assert worst <= 1


def test_the_demo_model_layer_by_layer(demo: Path) -> None:
    worst, layers = worst_of_network(demo / "digits_demo.onnx", 4, 2)
    assert layers > 3
    assert worst <= 1


@pytest.mark.parametrize(
    "model", ["onnx/version-RFB-320_without_postprocessing.onnx", "digits/digits.onnx"]
)
def test_networks_of_the_zoo_layer_by_layer(zoo: Path, model: str) -> None:
    worst, layers = worst_of_network(zoo / model, 2, 1)
    assert layers >= 14
    assert worst <= 1


def test_the_reference_finds_a_wrong_kernel() -> None:
    """What would a difference look like: the same layer with another bias is not within 1 LSB."""
    _, feeds, done = built_cnn(2)
    layer = quantized_layers(done.graph, done.layers)[0]
    proto = done.graph.to_proto()
    for tensor in proto.graph.initializer:
        if tensor.name == "constant1/quantized":
            bias = np.frombuffer(tensor.raw_data, np.int32)
            tensor.raw_data = (bias + np.abs(bias).max() + 1000).astype(np.int32).tobytes()
    other = Graph.from_proto(proto)
    name, params = layer.outputs[0]
    values = Session(other).run(feeds[0], ["image/dequantized", name])
    found = params.quantize(values[name]).astype(np.int64)
    assert np.abs(found - reference_layer(layer, values)[0]).max() > 1


def test_dequantized_values_lie_on_the_grid() -> None:
    graph, feeds, quantized = built_cnn(2)
    simulator = Simulator(graph, quantized.graph)
    names = [name for name, params in quantized.table.items() if params.dtype == "int8"]
    activations = [name for name in names if name in graph.values and graph.constant(name) is None]
    values = simulator.run(feeds[0], activations)
    for name in activations:
        if name != "image":
            stored = quantized.table[name].quantize(values[name])
            np.testing.assert_array_equal(quantized.table[name].dequantize(stored), values[name])


def test_an_unknown_tensor() -> None:
    net, graph = small_cnn()
    with pytest.raises(GraphError, match="no tensor"):
        Simulator(graph).run(net.feeds(1)[0], ["nothing"])
