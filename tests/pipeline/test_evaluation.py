"""Comparisons with a float model whose outputs are no numbers."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable

import numpy as np
import pytest

from engine import answer_text
from engine.accuracy.evaluate import evaluate
from engine.base.errors import SimulationError
from engine.base.events import NullReporter
from engine.build import BuildSummary, LayerError
from engine.graph.execute import Session
from engine.graph.ir import Graph, QuantTable
from engine.quantize import Observations, Quantized, QuantizeSettings, calibrate, quantize
from engine.report import summary_text
from engine.wire.build import Analysis
from engine.wire.codec import typed
from tests.accuracy.build import built
from tests.accuracy.build import feeds as inputs
from tests.quantize.models import Net, small_cnn

module = importlib.import_module("engine.accuracy.evaluate")


def _pooled(
    build: Quantized, feeds: list[dict[str, np.ndarray]], tensor: str
) -> tuple[float | None, float]:
    """SQNR and cosine of all samples' values together, in float64, from whole sessions."""
    whole = [
        np.concatenate(
            [Session(g, outputs=[tensor]).run(feed, [tensor])[tensor].ravel() for feed in feeds]
        ).astype(np.float64)
        for g in (build.reference, build.graph)
    ]
    golden, found = whole
    noise = float(np.square(golden - found).sum())
    signal, power = float(np.square(golden).sum()), float(np.square(found).sum())
    cosine = float(golden @ found) / math.sqrt(signal * power)
    return (None if noise == 0 else 10 * math.log10(signal / noise)), cosine


def _small(dtype: str) -> tuple[Quantized, list[dict[str, np.ndarray]]]:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    done = quantize(graph, calibrate(graph, feeds), QuantizeSettings(dtype=dtype))
    return done, feeds


def _all_operators() -> tuple[Quantized, list[dict[str, np.ndarray]]]:
    return built()[1], inputs(3)


def _came_quantized(build: Quantized) -> Quantized:
    """What is made of a source model with Q/DQ nodes."""
    return quantize(build.graph, Observations(0, {}))


def _beside(graph: Graph, simulated: Graph) -> Quantized:
    return Quantized(simulated, QuantTable({}), graph)


@pytest.mark.parametrize("build", [lambda: _small("w8a8"), lambda: _small("w8a16"), _all_operators])
@pytest.mark.parametrize("part_bytes", [0, 1 << 20])
def test_figures_are_those_of_all_values_together(
    build: Callable[[], tuple[Quantized, list[dict[str, np.ndarray]]]],
    part_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parted = importlib.import_module("engine.graph.execute.submodels")
    monkeypatch.setattr(parted, "PART_BYTES", part_bytes)
    done, feeds = build()
    outputs, layers = evaluate(done, feeds, NullReporter())
    assert len(layers) > 3
    shown = [(layer.tensor, layer) for layer in layers] + [(o.name, o) for o in outputs]
    for tensor, figure in shown:
        sqnr, cosine = _pooled(done, feeds, tensor)
        assert (figure.sqnr_db is None) == (sqnr is None)
        if sqnr is not None:
            assert figure.sqnr_db == pytest.approx(sqnr, abs=1e-3)
        assert figure.cosine == pytest.approx(cosine, abs=1e-6)
        assert figure.samples == len(feeds)


def test_a_large_graph_is_compared_over_some_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    done, _ = _all_operators()
    feeds = inputs(7)
    monkeypatch.setattr(module, "VALUE_BYTES", 1)
    monkeypatch.setattr(module, "LEAST_SAMPLES", 3)
    outputs, layers = evaluate(done, feeds, NullReporter())
    assert {figure.samples for figure in (*outputs, *layers)} == {3}
    some = [feeds[1], feeds[3], feeds[5]]  # spread evenly
    for figure in (*layers, *outputs):
        tensor = figure.tensor if isinstance(figure, LayerError) else figure.name
        sqnr, _ = _pooled(done, some, tensor)
        if sqnr is not None:
            assert figure.sqnr_db == pytest.approx(sqnr, abs=1e-3)


def test_a_model_that_came_quantized_differs_nowhere() -> None:
    build, feeds = _small("w8a8")
    outputs, layers = evaluate(_came_quantized(build), feeds, NullReporter())
    assert len(layers) > 3
    assert {figure.sqnr_db for figure in (*outputs, *layers)} == {None}


def test_values_whose_squares_float32_does_not_hold() -> None:
    net = Net()
    x = net.input(1, 4)
    graph = net.graph(net.op("Mul", x, net.constant(1e25)))
    other = Net()
    simulated = other.graph(other.op("Mul", other.input(1, 4), other.constant(1.1e25)))
    feed = {"input0": np.ones((1, 4), np.float32)}
    (output,), (layer,) = evaluate(_beside(graph, simulated), [feed], NullReporter())
    assert output.sqnr_db == pytest.approx(20.0, abs=1e-3)
    assert layer.sqnr_db == pytest.approx(20.0, abs=1e-3)


def _evaluated(value: float) -> tuple[float | None, float]:
    """SQNR and cosine of the logarithm of a value, against that of 1."""
    net = Net()
    graph = net.graph(net.op("Log", net.op("Abs", net.input(1, 2))))
    other = Net()
    simulated = other.graph(
        other.op("Log", other.op("Add", other.input(1, 2), other.constant(1.0)))
    )
    (output,), _ = evaluate(
        _beside(graph, simulated), [{"input0": np.full((1, 2), value, np.float32)}], NullReporter()
    )
    return output.sqnr_db, output.cosine


def test_an_infinite_output_has_the_worst_figures() -> None:
    sqnr, cosine = _evaluated(0.0)
    assert sqnr is not None
    assert sqnr <= -300
    assert cosine == 0.0


def test_an_output_that_is_not_a_number_is_named() -> None:
    with pytest.raises(SimulationError, match="not a number"):
        _evaluated(float("nan"))


def test_rows_of_nan_are_printed_and_not_called_equal() -> None:
    nothing = {"cosine": None, "euclidean": None}  # what JSON makes of NaN
    layer = {"name": "y", "op": "Log", "tensor": "y", "node": "y", "dtype": "float32"}
    layer |= {"sqnr": None, "isolated_sqnr": None, "added_share": None, "saturation": None}
    layer |= {"inner": False, "aliases": [], "sources": ["y"], "output_impact": None}
    rows = [{**layer, "cumulative": nothing, "isolated": nothing}]
    found = {"samples": 1, "over": "1 of 3 calibration samples", "layers": rows, "files": []}
    text = answer_text(typed(Analysis, found))
    assert text.count("nan") == 6
    assert "equal" not in text


def _summary(some: int) -> str:
    figure = {"sqnr_db": 30.0, "cosine": 0.999, "samples": some}
    facts = dict.fromkeys(("name", "quantized_dtype", "quantized_algorithm", "key"), "x")
    facts |= dict.fromkeys(("quantized_method", "next_command"), "x")
    numbers = dict.fromkeys(("nodes", "float_bytes", "quantized_bytes", "container_bytes"), 1)
    lists: dict[str, object] = {"layers": [], "findings": [], "stages": []}
    worst = [{**figure, "layer": "y", "op": "Conv", "tensor": "y"}]
    told = {**facts, **numbers, **lists, "quantized": True, "samples": 20}
    return summary_text(
        typed(BuildSummary, told | {"outputs": [{**figure, "name": "y"}], "worst": worst})
    )


def test_the_summary_says_over_how_many_samples_it_is() -> None:
    text = _summary(9)
    assert "Outputs, over 9 of 20 calibration samples (simulated against float)" in text
    assert "Worst layers, over 9 of 20 calibration samples" in text
    for all_of_them in (20, 0):  # 0: a summary of a program that had no choice
        assert "Outputs, over the calibration samples (simulated" in _summary(all_of_them)
