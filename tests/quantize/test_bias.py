"""Bias correction: the mean error of rounded weights, against running the layer itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.graph.execute import Session
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.quantize.calibration.input_means import Sums, input_sums
from engine.quantize.calibration.observations import Observations
from engine.quantize.planning.plan import plan
from engine.quantize.techniques.rounding import mean_output
from tests.quantize.models import Net, seen_cnn, small_cnn

FORMS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("Conv", (1, 4, 9, 11), (6, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
    ("Conv", (1, 4, 9, 11), (6, 4, 3, 3), {"strides": [2, 2], "pads": [0, 1, 1, 0]}),
    ("Conv", (1, 4, 12, 13), (6, 4, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    ("Conv", (2, 4, 9, 11), (8, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    ("Conv", (1, 4, 9, 11), (6, 4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", (1, 4, 9, 10), (6, 4, 2, 2), {"auto_pad": "SAME_LOWER"}),
    ("Conv", (1, 4, 9, 11), (6, 4, 3, 3), {"auto_pad": "VALID"}),
    ("Conv", (1, 4, 3, 3), (6, 4, 5, 5), {"pads": [4, 4, 4, 4]}),
    ("Conv", (1, 4, 17), (6, 4, 3), {"strides": [2], "pads": [1, 1]}),
    ("Conv", (1, 2, 4, 5, 6), (3, 2, 2, 2, 2), {"pads": [1, 0, 1, 0, 1, 0]}),
    ("ConvTranspose", (1, 4, 5, 6), (4, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("ConvTranspose", (1, 4, 5, 6), (4, 2, 2, 2), {"group": 2, "strides": [2, 2]}),
    ("ConvTranspose", (1, 4, 5, 6), (4, 3, 3, 3), {"strides": [2, 2], "output_padding": [1, 1]}),
    ("Gemm", (3, 7), (7, 5), {}),
    ("Gemm", (3, 7), (5, 7), {"transB": 1}),
    ("Gemm", (7, 3), (7, 5), {"transA": 1}),
]


@pytest.mark.parametrize(("op", "shape", "weight", "attributes"), FORMS)
def test_mean_outputs_are_those_of_the_layer(
    op: str, shape: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    net = Net(3)
    x = net.input(*shape)
    array = net.normal(*weight)
    y = net.op(op, x, net.constant(array), **attributes)
    graph = net.graph(y)
    feeds = net.feeds(3)
    session = Session(graph)
    outputs = np.concatenate([session.run(feed)[y] for feed in feeds])
    channel = outputs.ndim - 1 if op == "Gemm" else 1
    expected = outputs.mean(axis=tuple(i for i in range(outputs.ndim) if i != channel))
    seen = calibrate(graph, feeds)
    (node,) = graph.nodes
    mean = seen.inputs[node.name or ""].mean
    np.testing.assert_allclose(mean_output(node, array, mean), expected, rtol=1e-4, atol=1e-5)


def test_large_inputs_are_summed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    import engine.graph.execute.submodels as parted
    import engine.quantize.calibration.input_means as module

    net, graph = small_cnn()
    feeds = net.feeds(11)
    usual = calibrate(graph, feeds)
    monkeypatch.setattr(module, "_PILED_VALUES", 0)
    monkeypatch.setattr(parted, "PART_BYTES", 0)
    one_by_one = calibrate(graph, feeds)
    assert list(usual.inputs) == list(one_by_one.inputs)
    for name, mean in one_by_one.inputs.items():
        np.testing.assert_allclose(mean.mean, usual.inputs[name].mean, rtol=1e-4, atol=1e-5)


def test_a_corrected_layer_has_no_mean_error() -> None:
    net = Net(5)
    x = net.input(1, 8, 12, 12)
    weight = net.normal(16, 8, 3, 3)
    y = net.op("Conv", x, net.constant(weight), pads=[1] * 4)
    graph = net.graph(y)
    feeds = [{x: net.normal(1, 8, 12, 12) + 3.0} for _ in range(4)]
    seen = calibrate(graph, feeds)
    golden = Session(graph)
    bias = {}
    for correction in (True, False):
        settings = QuantizeSettings(bias_correction=correction)
        quantized = Session(quantize(graph, seen, settings).graph)
        errors = [quantized.run(feed)[y] - golden.run(feed)[y] for feed in feeds]
        bias[correction] = np.abs(np.mean(errors, axis=(0, 1, 3, 4))).mean()
    # what is left is the mean error of rounding inputs and outputs
    assert bias[True] < 0.3 * bias[False]


def test_observations_without_means_change_nothing() -> None:
    graph, seen = seen_cnn()
    bare = Observations.from_json(seen.to_json())
    with_option = quantize(graph, bare)
    without = quantize(graph, bare, QuantizeSettings(bias_correction=False))
    assert with_option.graph.to_bytes() == without.graph.to_bytes()


def test_inputs_of_another_shape_start_a_pile_of_their_own() -> None:
    net = Net()
    x = net.input(1, 2, 4, 4)
    graph = net.graph(net.conv(x, 2, 3))
    (wanted,) = input_sums(graph, plan(graph)).values()
    sums, alone = Sums([wanted]), Sums([wanted])
    arrays = [net.normal(1, 2, size, size) for size in (4, 4, 6)]
    for array in arrays:
        sums.add_input(x, array)
        alone.add(wanted, wanted.of(array))
    sums.flush()
    np.testing.assert_allclose(sums.means[wanted].mean, alone.means[wanted].mean, rtol=1e-5)
