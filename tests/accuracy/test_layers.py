"""Saturation, own and inherited error, source layers, output impact, dtypes: by hand in numpy."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.utils import Extractor

from engine.accuracy import SnapshotWriter, analyse, layer_rows, with_output_impact
from engine.accuracy.histograms import tensor_histograms
from engine.accuracy.output_impact import LAYERS
from engine.accuracy.rows import CONVERTER
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import euclidean
from engine.graph.passes import optimise
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.report import sqnr_rank
from tests.accuracy.build import assert_near, built, feeds, made
from tests.graph.models import model
from tests.quantize.models import Net


def test_saturation_counts_what_the_integers_cannot_hold() -> None:
    graph, quantized = built()
    sample = {"x": feeds(1, seed=2)[0]["x"] * 3}  # beyond the calibrated range
    report = analyse(quantized, [sample])
    names = ["r1", "k2", "g"]
    golden = Session(graph, outputs=names).run(sample, names) | {"x": sample["x"]}
    seen = 0
    for layer in report.layers:
        tensor = layer.tensor.removesuffix("_int8")
        if layer.saturation is None or tensor not in golden:
            continue
        params = quantized.table[tensor]
        (scale,), (zero,) = params.scale, params.zero_point
        steps = golden[tensor].astype(np.float64) / scale + zero
        assert layer.saturation.low == pytest.approx(float((steps < -128.5).mean()), abs=1e-9)
        assert layer.saturation.high == pytest.approx(float((steps > 127.5).mean()), abs=1e-9)
        seen += layer.saturation.high > 0
    assert seen >= 2


def test_own_error_is_told_from_inherited_error() -> None:
    graph, quantized = built()
    report = analyse(quantized, feeds(1, seed=9))
    for layer in report.layers:
        if not layer.cumulative or not layer.isolated or layer.added_share is None:
            continue
        share = layer.isolated.euclidean**2 / layer.cumulative.euclidean**2
        assert layer.added_share == pytest.approx(min(1.0, share))
        golden = Session(graph, outputs=[layer.tensor]) if layer.tensor in graph.values else None
        if golden is None or layer.isolated_sqnr is None:
            continue
        array = golden.run(feeds(1, seed=9)[0])[layer.tensor].astype(np.float64)
        noise = layer.isolated.euclidean**2
        assert layer.isolated_sqnr == pytest.approx(
            10 * np.log10(np.square(array).sum() / noise), abs=1e-3
        )
    by_name = {layer.tensor: layer for layer in report.layers}
    first, last = by_name["r1"].added_share, by_name["prob"].added_share
    assert first is not None
    assert last is not None
    assert first > last  # what comes late has inherited more


def test_rows_name_the_layers_of_the_source_model() -> None:
    """A BatchNormalization that a pass folds into its Conv: the row stands for both."""
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.normal(0, 1, (4, 3, 1, 1)),
        "s": rng.uniform(0.5, 2, 4),
        "b": rng.normal(0, 1, 4),
        "m": rng.normal(0, 1, 4),
        "v": rng.uniform(0.5, 2, 4),
    }
    nodes = (
        "[conv_a] c = Conv (x, w); [norm_a] n = BatchNormalization (c, s, b, m, v); "
        "[relu_a] r = Relu (n)"
    )
    constants = {name: array.astype(np.float32) for name, array in arrays.items()}
    source = model(nodes, {"x": [1, 3, 8, 8]}, ["r"], constants)
    graph = optimise(source).graph
    done = quantize(graph, calibrate(graph, feeds(2)))
    rows = analyse(done, feeds(1)).rows
    merged = [row.sources for row in rows if row.op == "Conv"]
    assert [set(names) for names in merged] == [{"conv_a", "norm_a"}]
    assert [row.sources for row in rows if row.op == "Relu"] == [("relu_a",)]


def test_small_parts_give_what_one_part_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers cross from part to part: every figure stays."""
    _, quantized = built()
    whole = analyse(quantized, feeds(2))
    monkeypatch.setattr(importlib.import_module("engine.accuracy.analyse"), "LAYERS", 2)
    parts = analyse(quantized, feeds(2))
    assert [row.saturation for row in parts.layers] == [row.saturation for row in whole.layers]
    assert_near(whole, parts)


def test_a_part_may_end_between_two_outputs_of_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads both halves lies in a part that is fed with the first and computes the second."""
    net = Net()
    stem = net.conv(net.input(1, 3, 8, 8), 3, 8)
    left, right = net.op("Split", stem, np.array([4, 4]), outputs=2, axis=1)
    graph = net.graph(net.op("Concat", left, right, net.conv(right, 4, 4), axis=1))
    samples = net.feeds(2)
    quantized = quantize(graph, calibrate(graph, samples))
    whole = analyse(quantized, samples)
    for rows in range(1, len(whole.layers)):
        monkeypatch.setattr(importlib.import_module("engine.accuracy.analyse"), "LAYERS", rows)
        parts = analyse(quantized, samples)
        assert [(row.tensor, row.saturation) for row in parts.layers] == [
            (row.tensor, row.saturation) for row in whole.layers
        ]
        assert all(row.cumulative and row.isolated for row in whole.layers)
        assert_near(whole, parts)


@pytest.mark.parametrize("dtype", ["w8a8", "w8a16", "w16a16i", "asymmetric_quantized-u8"])
def test_tensors_of_rank_0_have_rows(dtype: str, tmp_path: Path) -> None:
    """A gain over the whole picture is one number, quantized as any other tensor."""
    net = Net()
    stem = net.conv(net.input(1, 3, 8, 8), 3, 4)
    gain = net.op("ReduceMean", net.op("Abs", stem), keepdims=0)
    root = net.op("Add", net.op("Mul", gain, 2.0), 0.5)
    graph = net.graph(net.op("Mul", stem, root), net.op("ReduceMax", stem, keepdims=0))
    samples = net.feeds(3)
    done = quantize(graph, calibrate(graph, samples), QuantizeSettings(dtype=dtype))
    rows = layer_rows(done)
    with SnapshotWriter(tmp_path, rows) as writer:
        report = analyse(done, samples, rows=rows, sink=writer)
        writer.finish(report)
    scalars = [row for row in report.layers if row.op in ("ReduceMean", "ReduceMax", "Mul", "Add")]
    assert len(scalars) == 5
    for row in scalars:
        assert row.cumulative is None or sqnr_rank(row.sqnr) > 20
    report = with_output_impact(report, done, samples[:1])
    assert any(row.output_impact for row in report.layers)


def test_a_float_layer_alone_is_rounded_as_what_reads_it_does() -> None:
    net = Net()
    waves = net.op("Sin", net.input(1, 4, 4))
    graph, samples, done = net.quantized(net.op("MatMul", waves, net.input(1, 4, 6)))
    (row,) = (row for row in analyse(done, samples[:1]).layers if row.tensor == waves)
    golden = Session(graph, outputs=[waves]).run(samples[0])[waves]
    params = done.table[waves]
    wanted = euclidean(golden, params.dequantize(params.quantize(golden)))
    assert row.isolated is not None
    assert row.isolated.euclidean == pytest.approx(wanted, rel=1e-4)


MIXED: list[tuple[QuantizeSettings, dict[str, str]]] = [
    (
        QuantizeSettings(layers={"k2": "float16", "g": "int16"}),
        {"x_int8": "int8", "r1": "int8", "k2": "float16", "a/sum": "int8", "g": "int16"},
    ),
    (QuantizeSettings(dtype="w8a16"), {"x_float16": "float16", "r1": "float16", "g": "float16"}),
    (QuantizeSettings(dtype="w16a16i"), {"x_int16": "int16", "k2": "int16", "m": "int16"}),
    (QuantizeSettings(dtype="dynamic_fixed_point-8"), {"x_int8": "int8", "r1": "int8"}),
    (QuantizeSettings(dtype="asymmetric_quantized-u8"), {"x_uint8": "uint8", "g": "uint8"}),
]


@pytest.mark.parametrize("dtype", ["w8a8", "dynamic_fixed_point-8", "w16a16i_dfp"])
def test_the_drill_down_has_the_saturation_and_the_error_of_the_ranking(dtype: str) -> None:
    _, done = made(2, QuantizeSettings(dtype=dtype))
    samples = [{name: 3 * array for name, array in feed.items()} for feed in feeds(2, seed=9)]
    clipped = 0.0
    report = analyse(done, samples)
    for row, which in zip(report.layers, report.rows, strict=True):
        if not which.computed or row.saturation is None or row.cumulative is None:
            continue
        spread = tensor_histograms(done, lambda: iter(samples), row.id, 4)
        if spread.tensor != row.tensor:  # another output of the layer
            continue
        assert (spread.layer, spread.op) == (row.id, row.op)
        assert spread.saturation == row.saturation, row.tensor
        assert spread.sqnr_db == pytest.approx(row.sqnr, abs=1e-3)
        clipped += row.saturation.low + row.saturation.high
    assert clipped > 0


def test_the_lowest_integer_that_never_occurs_holds_nothing() -> None:
    _, done = made(2, QuantizeSettings("dynamic_fixed_point-8"))
    (sample,) = feeds(1)
    (name,) = sample
    array = np.zeros_like(sample[name])
    array.flat[0] = -128 * done.table[name].scale[0]  # -127 is the lowest
    (row,) = (one for one in analyse(done, [{name: array}]).layers if one.op == CONVERTER)
    assert row.saturation is not None
    assert row.saturation.low == 1 / array.size


@pytest.mark.parametrize(("settings", "dtypes"), MIXED, ids=lambda v: getattr(v, "dtype", ""))
def test_rows_of_other_dtypes(settings: QuantizeSettings, dtypes: dict[str, str]) -> None:
    graph, done = made(8, settings)
    (sample,) = feeds(1, seed=9)
    report = analyse(done, [sample])
    layers = {layer.tensor: layer for layer in report.layers}
    assert {name: layers[name].dtype for name in dtypes} == dtypes
    assert not any("__" in layer.tensor for layer in report.layers)  # conversions are no layers
    tensors = [n for n in ("r1", "k2", "a/sum", "g", "prob") if layers[n].cumulative]
    simulated = Session(done.graph, outputs=tensors).run(sample, tensors)
    golden = Session(graph, outputs=tensors).run(sample, tensors)
    for name in tensors:
        entire, single = layers[name].cumulative, layers[name].isolated
        assert entire is not None
        assert single is not None
        wanted = float(np.linalg.norm((golden[name] - simulated[name]).astype(np.float64)))
        # half precision: the last bit of a float decides now and then which neighbour is nearest
        assert entire.euclidean == pytest.approx(wanted, rel=2e-2, abs=1e-5), name
        assert single.cosine > 0.99


def test_output_impact_is_what_a_layers_error_does_to_the_output() -> None:
    """Against the rest of the float graph, cut out by ONNX's own extractor and fed by hand."""
    graph, quantized = built()
    (sample,) = feeds(1, seed=9)
    report = analyse(quantized, [sample])
    found = with_output_impact(report, quantized, [sample])
    layers = {layer.tensor: layer for layer in found.layers}
    assert layers["c1"].output_impact is None  # fused
    assert sum(layer.output_impact is not None for layer in found.layers) <= LAYERS
    clean = Session(graph).run(sample)["prob"].astype(np.float64)
    total = np.square(Session(quantized.graph).run(sample)["prob"].astype(np.float64) - clean).sum()
    extractor = Extractor(onnx.shape_inference.infer_shapes(graph.to_proto()))
    for tensor in ("a/sum", "m", "g"):
        alone = _alone(tensor, sample)
        rest = Session(Graph.from_proto(extractor.extract_model([tensor], ["prob"])))
        noise = np.square(rest.run({tensor: alone})["prob"].astype(np.float64) - clean).sum()
        assert layers[tensor].output_impact == pytest.approx(noise / total, rel=1e-2), tensor


def _alone(tensor: str, sample: dict[str, np.ndarray]) -> np.ndarray:
    """A layer's result on golden inputs, quantized with their own parameters."""
    graph, quantized = built()
    reads = {"a/sum": ["r1", "k2"], "m": ["a/sum"], "g": ["f"]}[tensor]
    golden = Session(graph, outputs=reads).run(sample, reads)
    extractor = Extractor(onnx.shape_inference.infer_shapes(quantized.graph.to_proto()))
    fed: dict[str, Any] = {}
    for name in reads:
        params = quantized.table[name]
        fed[name] = params.dequantize(params.quantize(golden[name]))
    cut = Session(Graph.from_proto(extractor.extract_model(reads, [tensor])))
    return cut.run(fed)[tensor]


def test_rows_of_one_graph_need_no_second_look() -> None:
    _, quantized = built()
    rows = layer_rows(quantized)
    again = analyse(quantized, feeds(1), rows=rows)
    assert again == analyse(quantized, feeds(1))


@pytest.mark.long
def test_two_thousand_layers_take_time_in_proportion() -> None:
    """ONNX Runtime's set-up grows with the square of a session's outputs; parts keep it linear."""
    import time

    seconds = []
    for count in (250, 2000):
        graph = _deep(count)
        sample = {"x": np.random.default_rng(1).normal(0, 1, (1, 8, 8, 8)).astype(np.float32)}
        done = quantize(graph, calibrate(graph, [sample]))
        begun = time.process_time()
        report = analyse(done, [sample])
        seconds.append((time.process_time() - begun) / count)
        assert len(report.layers) == count + 2
    assert seconds[1] < 2.5 * seconds[0]


def _deep(count: int) -> Graph:
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}
    last = "x"
    for index in range(count // 2):
        weights[f"w{index}"] = rng.normal(0, 0.3, (8, 8, 1, 1)).astype(np.float32)
        nodes.append(helper.make_node("Conv", [last, f"w{index}"], [f"c{index}"], f"conv{index}"))
        op = ("Tanh", [f"c{index}"]) if index % 3 == 0 else ("Add", [f"c{index}", last])
        nodes.append(helper.make_node(op[0], op[1], [f"t{index}"], f"t{index}"))
        last = f"t{index}"
    return model(nodes, {"x": [1, 8, 8, 8]}, [last], weights)
