"""Layers with a dtype of their own: what they get, where tensors are converted, what is refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
import pytest

from engine.base.errors import QuantizationError
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import sqnr
from engine.quantize import (
    Quantized,
    QuantizeSettings,
    applied_dtypes,
    calibrate,
    quantize,
)
from engine.quantize.algorithms.ranges import activation_table
from engine.quantize.dtypes.formats import LAYER_DTYPES
from engine.quantize.interface import CalibratedGraph, Prepared, quantize_weights
from engine.quantize.planning.plan import plan
from tests.quantize.models import Net, least_sqnr, seen_cnn, small_cnn

# the function hides the module's name in its package
quantize_module = sys.modules["engine.quantize.quantize"]


def done(layers: Mapping[str, str], dtype: str = "w8a8") -> tuple[Graph, Quantized]:
    graph, seen = seen_cnn()
    return graph, quantize(graph, seen, QuantizeSettings(dtype=dtype, layers=layers))


def written(graph: Graph) -> list[str]:
    return [node.outputs[0].name or "" for node in graph.nodes]


@pytest.mark.parametrize("dtype", sorted(LAYER_DTYPES))
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
def test_every_layer_gets_what_was_asked_for(dtype: str, step: int) -> None:
    graph, seen = seen_cnn()
    for tensor in written(graph)[::step]:
        if not tensor.startswith("Softmax") or dtype.startswith("float"):
            asked = {tensor: dtype}
            result = quantize(graph, seen, QuantizeSettings(layers=asked))
            assert applied_dtypes(asked, result) == asked


def test_all_layers_at_once_and_lowered_ones() -> None:
    _, graph = small_cnn()
    every = dict.fromkeys(written(graph), "float16")
    assert applied_dtypes(every, done(every)[1]) == every
    lowered = {"Conv_5_0": "int8", "Relu_7_0": "int8"}
    assert applied_dtypes(lowered, done(lowered, "w8a16")[1]) == lowered
    assert applied_dtypes(lowered, done(lowered, "float16")[1]) == lowered


def test_what_was_not_honoured_is_seen() -> None:
    _, plain = done({})
    asked = {"Conv_5_0": "float16", "Softmax_23_0": "float16"}
    assert applied_dtypes(asked, plain) == {"Conv_5_0": "int8", "Softmax_23_0": "float"}


def test_borders_are_named_as_the_vendor_does_and_nothing_else_changes() -> None:
    _, plain = done({})
    _, mixed = done({"Conv_5_0": "float16"})
    added = [name for name in mixed.table if name not in plain.table]
    assert added == ["Clip_4_0__float16", "Conv_5_0__int8"]
    assert list(mixed.table)[-2:] == added
    same = [name for name in plain.table if mixed.table[name] == plain.table[name]]
    changed = set(plain.table) - set(same)
    assert changed == {"Conv_5_0", "constant6", "constant7"}  # its output, weight and bias
    converted = mixed.table["Conv_5_0__int8"]
    assert converted.scale == plain.table["Conv_5_0"].scale


def test_an_activation_belongs_to_the_layer_before_it() -> None:
    _, by_conv = done({"Conv_1_0": "float16"})
    _, by_relu = done({"Relu_2_0": "float16"})
    assert by_conv.graph.to_bytes() == by_relu.graph.to_bytes()
    with pytest.raises(QuantizationError, match="one layer"):
        done({"Conv_1_0": "float16", "Relu_2_0": "int16"})


def test_a_lifted_layer_computes_in_its_dtype() -> None:
    """One layer alone: its output is as far from float as its format is."""
    net = Net()
    out = net.conv(net.input(1, 8, 10, 10), 8, 8)
    graph = net.graph(out)
    feeds = net.feeds(3)
    seen = calibrate(graph, feeds)
    exact = Session(graph).run(feeds[0])[out]

    def quality(layers: dict[str, str]) -> float:
        result = quantize(graph, seen, QuantizeSettings(layers=layers)).graph
        return sqnr(exact, Session(result).run(feeds[0])[out])

    assert quality({}) < 45
    assert quality({out: "float16"}) > 65
    assert quality({out: "int16"}) > 80


@pytest.mark.parametrize(
    ("layers", "what", "remedy"),
    [
        ({"Conv_5_00": "float16"}, "has no layer", "Conv_5_0"),
        ({"image": "float16"}, "has no layer", "table"),
        ({"constant0": "float16"}, "has no layer", ""),
        ({"Conv_5_0": "float8"}, "dtype 'float8'", "float16"),
        ({"Softmax_23_0": "int8"}, "cannot compute in int8", "float16"),
    ],
)
def test_what_cannot_be_asked_for(layers: dict[str, str], what: str, remedy: str) -> None:
    with pytest.raises(QuantizationError, match=what) as caught:
        done(layers)
    assert remedy in caught.value.remedy


def test_ranges_set_by_hand_win() -> None:
    graph, seen = seen_cnn()
    ranges = {"Relu_2_0": (0.0, 0.5), "Transpose_21_0": (-9.0, 9.0)}
    table = quantize(graph, seen, QuantizeSettings(ranges=ranges)).table
    assert table["Relu_2_0"].maximum == (0.5,)
    # the transposed tensor has the scale of the one that it moves
    for name in ("Conv_20_0", "Transpose_21_0", "Reshape_22_0"):
        np.testing.assert_allclose(table[name].scale, 18 / 255, rtol=1e-6)


def test_a_range_set_by_hand_is_kept_before_a_concat() -> None:
    graph, seen = seen_cnn()
    ranges = {"LeakyRelu_10_0": (-0.25, 0.75)}
    table = quantize(graph, seen, QuantizeSettings(ranges=ranges)).table
    assert (table["LeakyRelu_10_0"].minimum, table["LeakyRelu_10_0"].maximum) == (
        (-0.25,),
        (0.75,),
    )
    assert table["Concat_14_0"].maximum != (0.75,)


@pytest.mark.parametrize(
    ("ranges", "what"),
    [
        ({"Relu_2": (0.0, 1.0)}, "not a quantized tensor"),
        ({"Relu_2_0": (1.0, 0.0)}, "above"),
        ({"Relu_2_0": (0.0, float("nan"))}, "not finite"),
        ({"Relu_2_0": (float("-inf"), 1.0)}, "not finite"),
        ({"Relu_2_0": (1.0, 5.0)}, "0 is not"),
        ({"Conv_20_0": (0.0, 1.0), "Reshape_22_0": (0.0, 2.0)}, "two ranges"),
    ],
)
def test_impossible_ranges(ranges: dict[str, tuple[float, float]], what: str) -> None:
    graph, seen = seen_cnn(1)
    with pytest.raises(QuantizationError, match=what):
        quantize(graph, seen, QuantizeSettings(ranges=ranges))


@pytest.mark.parametrize("algorithm", ["normal", "kl_divergence", "mmse", "accurate"])
def test_every_algorithm_gives_layers_their_dtype(algorithm: str) -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    layers = {"Conv_5_0": "float16", "Conv_9_0": "int16", "Conv_20_0": "dynamic_fixed_point-i8"}
    chosen = QuantizeSettings(algorithm=algorithm, layers=layers)
    result = quantize(graph, calibrate(graph, feeds), chosen, feeds=lambda: iter(feeds))
    assert applied_dtypes(layers, result) == layers
    assert least_sqnr(graph, result.graph, feeds[:1]) > 25


@pytest.mark.parametrize("dtype", ["asymmetric_quantized-u8", "w4a8", "w16a16i", "w8a16"])
def test_our_algorithm_serves_every_dtype(dtype: str) -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    seen = calibrate(graph, feeds)

    def quality(algorithm: str) -> float:
        chosen = QuantizeSettings(dtype=dtype, algorithm=algorithm)
        result = quantize(graph, seen, chosen, feeds=lambda: iter(feeds)).graph
        return least_sqnr(graph, result, feeds[:1])

    assert quality("accurate") > quality("normal") - 6


def test_an_algorithm_that_cannot_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(calibrated: CalibratedGraph) -> Prepared:
        graph, own = calibrated.graph, plan(calibrated.graph)
        activations = activation_table(graph, own, calibrated.observations)
        return Prepared(graph, own, activations, quantize_weights(graph, own, activations, "layer"))

    monkeypatch.setitem(quantize_module._PREPARE, "accurate", deaf)  # type: ignore[index]
    net, graph = small_cnn()
    chosen = QuantizeSettings(algorithm="accurate", layers={"Conv_5_0": "float16"})
    with pytest.raises(QuantizationError, match=r"Conv_5_0.* is int8, not float16"):
        quantize(graph, calibrate(graph, net.feeds(2)), chosen)


def test_16_bit_tensors_have_a_bit_of_headroom_and_ranges_by_hand_have_none() -> None:
    graph, seen = seen_cnn()
    ranges = {"Conv_9_0": (-1.0, 3.0)}
    table = quantize(graph, seen, QuantizeSettings(dtype="w16a16i", ranges=ranges)).table
    own = seen["Conv_5_0"]
    assert table["Conv_5_0"].maximum == (2 * own.maximum,)
    assert table["Conv_5_0"].minimum == (2 * own.minimum,)
    # no value lies beyond the bounds of the Clip that ends the layer
    assert (table["Clip_4_0"].minimum, table["Clip_4_0"].maximum[0] <= 6.0) == ((0.0,), True)  # type: ignore[index]
    assert (table["Conv_9_0"].minimum, table["Conv_9_0"].maximum) == ((-1.0,), (3.0,))
