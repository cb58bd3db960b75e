"""Rounding sensitivity, beside an independent computation in numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.compiled.cases import load_case
from engine.accuracy.rounding import judgement, rounding_sensitivity, rounding_where_it_runs
from engine.base.errors import JobCancelledError, SimulationError, UsageError
from engine.base.events import CallbackReporter, LogLine
from engine.graph.execute import Session
from engine.graph.ir import Graph, params_of
from engine.graph.metrics import sqnr
from engine.quantize import Quantized, QuantizeSettings, calibrate, quantize
from engine.report import rounding_lines
from engine.simulate.edges import EDGE, Shaken, halves_up
from engine.wire.accuracy import RoundedLayer, RoundedOutput, RoundingSensitivity
from tests.quantize.models import Net, small_cnn

Number = Callable[[str, np.ndarray], np.ndarray]


def dense_net() -> tuple[Net, Quantized]:
    """Of x (512, 64): a dense layer, LeakyRelu, a dense layer."""
    net = Net(3)
    x = net.input(512, 64)
    h = net.op("LeakyRelu", net.op("MatMul", x, net.normal(64, 96)), alpha=0.2)
    graph = net.graph(net.op("MatMul", h, net.normal(96, 48)))
    return net, quantize(graph, calibrate(graph, net.feeds(6)))


def in_numpy(graph: Graph, feed: dict[str, np.ndarray], rounded: Number) -> dict[str, np.ndarray]:
    """Every tensor of the graph, operator by operator in float32; ``rounded`` gives the integers
    of a value in steps.
    """
    values = dict(feed)
    for name in (value.name or "" for node in graph.nodes for value in node.inputs if value):
        constant = graph.constant(name)
        if constant is not None:
            values[name] = constant
    for node in graph.nodes:
        given = [values[value.name or ""] for value in node.inputs if value is not None]
        out = node.outputs[0].name or ""
        params = params_of(node)
        if node.op_type == "QuantizeLinear":
            data, scale, zero = given
            limits = np.iinfo(zero.dtype)
            steps = rounded(node.name or "", data / scale) + float(zero)
            values[out] = np.clip(steps, limits.min, limits.max).astype(zero.dtype)
        elif node.op_type == "DequantizeLinear":
            data, scale, zero = given
            axis = -1 if params is not None and params.axis in (1, -1) else 0
            shape = [1] * data.ndim
            if scale.size > 1:
                shape[axis] = -1
            steps = data.astype(np.float32) - zero.astype(np.float32).reshape(shape)
            values[out] = steps * scale.reshape(shape)
        elif node.op_type == "MatMul":
            exact: np.ndarray = given[0].astype(np.float64) @ given[1].astype(np.float64)
            values[out] = exact.astype(np.float32)
        else:
            assert node.op_type == "LeakyRelu"
            alpha = np.float32(node.attributes.get_float("alpha", 0.01))
            values[out] = np.where(given[0] >= 0, given[0], given[0] * alpha).astype(np.float32)
    return values


def test_figures_are_those_of_an_independent_computation() -> None:
    net, done = dense_net()
    graph, feed = done.graph, net.feeds(1)[0]
    found = rounding_sensitivity(graph, done.layers, [feed], golden=done.reference)
    assert found.runs == ("integer", "halves up", "edge 1", "edge 2")

    shaken = Shaken(graph)
    plain = in_numpy(graph, feed, lambda _, steps: np.rint(steps))
    runs = {"halves up": in_numpy(graph, feed, lambda _, steps: np.floor(steps + 0.5))}
    for seed in (1, 2):
        numbers = shaken.numbers(seed)

        def moved(name: str, steps: np.ndarray, numbers: dict[str, np.ndarray] = numbers):  # type: ignore[no-untyped-def]
            node = graph.node(name)
            scale = graph.constant(node.inputs[1].name)  # type: ignore[union-attr,arg-type]
            return np.rint(steps + numbers[f"{name}/edge"] / scale)

        runs[f"edge {seed}"] = in_numpy(graph, feed, moved)
    (output,) = found.outputs
    expected = [sqnr(plain[output.name], run[output.name]) for run in runs.values()]
    least = min(value for value in expected if value is not None)
    # the order of a sum can take one value over its edge more, or less
    assert output.rounding_db == pytest.approx(least, abs=1.5)
    shares = [np.mean(plain[output.name] != run[output.name]) for run in runs.values()]
    assert output.moved == pytest.approx(max(shares), abs=2 / plain[output.name].size)
    exact = Session(done.reference).run(feed)[output.name]
    assert output.quantization_db == pytest.approx(sqnr(exact, plain[output.name]), abs=0.05)
    assert output.relative == pytest.approx(10 ** (-least / 20), rel=0.2)


def test_only_values_on_an_edge_are_shaken_over_it() -> None:
    net, done = dense_net()
    graph, feed = done.graph, net.feeds(1)[0]
    shaken = Shaken(graph)
    assert all(np.abs(array).max() > 0 for array in shaken.numbers(1).values())
    node = next(node for node in graph.nodes if node.op_type == "QuantizeLinear")
    name = node.outputs[0].name or ""
    session = Session(shaken.graph, outputs=[name], reference=True)
    still = session.run({**feed, **shaken.still})[name].astype(int)
    plain = Session(graph, reference=True).run(feed, [name])[name]
    np.testing.assert_array_equal(still, plain)
    steps = feed[graph.inputs[0].name] / graph.constant(node.inputs[1].name or "")  # type: ignore[union-attr]
    far = np.abs(steps - np.floor(steps) - 0.5) > EDGE * 1.01
    for seed in range(20):
        found = session.run({**feed, **shaken.numbers(seed)})[name].astype(int)
        np.testing.assert_array_equal(found[far], still[far])
        assert np.abs(found - still).max() <= 1


def test_half_precision_is_shaken_too() -> None:
    """By less than a thousandth of its step: a few numbers become their neighbour."""
    net = Net(3)
    x = net.input(512, 64)
    graph = net.graph(net.op("MatMul", x, net.normal(64, 96)))
    settings = QuantizeSettings(dtype="float16")
    done = quantize(graph, calibrate(graph, net.feeds(3)), settings)
    shaken, feed = Shaken(done.graph), net.feeds(1)[0]
    cast = next(node for node in done.graph.nodes if node.op_type == "Cast")
    name = cast.outputs[0].name or ""
    session = Session(shaken.graph, outputs=[name], reference=True)
    still = session.run({**feed, **shaken.still})[name]
    np.testing.assert_array_equal(still, feed[graph.inputs[0].name].astype(np.float16))
    found = session.run({**feed, **shaken.numbers(1)})[name]
    moved = found != still
    assert 0 < moved.mean() < 2 * EDGE
    bits = [side.view(np.int16).astype(int)[moved] for side in (found, still)]
    assert np.abs(bits[0] - bits[1]).max() == 1
    told = rounding_sensitivity(done.graph, done.layers, [feed], golden=done.reference)
    assert told.outputs[0].rounding_db is not None
    assert told.outputs[0].quantization_db is not None
    assert told.outputs[0].rounding_db > told.outputs[0].quantization_db


def test_halves_go_up_and_nothing_else_moves() -> None:
    _, done = dense_net()
    graph = done.graph
    node = next(node for node in graph.nodes if node.op_type == "QuantizeLinear")
    scale = float(graph.constant(node.inputs[1].name or "")[()])  # type: ignore[union-attr,index]
    name = node.outputs[0].name or ""
    exact = np.ldexp(1.0, int(np.floor(np.log2(scale))))  # ties need a step that floats have
    halves = np.arange(64, dtype=np.float32) - 31.5
    feed = {graph.inputs[0].name: np.tile((halves * exact).astype(np.float32), (512, 1))}
    model = graph.to_proto()
    for tensor in model.graph.initializer:
        if tensor.name == node.inputs[1].name:  # type: ignore[union-attr]
            tensor.raw_data = np.float32(exact).tobytes()
    tied = Graph.from_proto(model)
    even = Session(tied, reference=True).run(feed, [name])[name].astype(int)
    up = Session(halves_up(tied), reference=True).run(feed, [name])[name].astype(int)
    np.testing.assert_array_equal(up - up[0, 0], np.tile(np.arange(64), (512, 1)))
    np.testing.assert_array_equal(np.unique(np.diff(even[0])), [0, 2])


def test_layers_are_told_and_a_second_sample_counts() -> None:
    net, graph = small_cnn()
    done = quantize(graph, calibrate(graph, net.feeds(4)))
    feeds = net.feeds(4)
    found = rounding_sensitivity(done.graph, done.layers, feeds, golden=done.reference)
    assert found.samples == 2
    ids = {layer.id for layer in done.layers.layers}
    assert {layer.id for layer in found.layers} <= ids
    assert len(found.layers) > 10
    assert all(0 <= layer.moved <= 1 for layer in found.layers)
    assert any(layer.amplified_db is not None for layer in found.layers)
    alone = rounding_sensitivity(done.graph, done.layers, feeds, inner=False)
    assert alone.layers == ()
    for one, other in zip(found.outputs, alone.outputs, strict=True):
        assert one.rounding_db == other.rounding_db
        assert other.quantization_db is None


def test_it_needs_a_sample_and_can_be_stopped() -> None:
    net, graph = small_cnn()
    done = quantize(graph, calibrate(graph, net.feeds(2)))
    with pytest.raises(UsageError, match="no sample"):
        rounding_sensitivity(done.graph, done.layers, [])
    reporter = CallbackReporter(lambda event: None, lambda: True)
    with pytest.raises(JobCancelledError):
        rounding_sensitivity(done.graph, done.layers, net.feeds(1), reporter=reporter)


def test_an_analysis_goes_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    net, done = dense_net()
    told: list[object] = []
    reporter = CallbackReporter(told.append, lambda: False)
    assert rounding_where_it_runs(done, net.feeds(1), reporter) is not None

    def fails(graph: Graph) -> Graph:
        raise SimulationError("Node 'a' (B) did not run.")

    monkeypatch.setattr("engine.accuracy.rounding.halves_up", fails)
    assert rounding_where_it_runs(done, net.feeds(1), reporter) is None
    assert (
        LogLine("The rounding sensitivity cannot be measured: Node 'a' (B) did not run.", "warning")
        in told
    )


@pytest.mark.parametrize(
    ("between", "rounding", "said"),
    [
        (None, 30.0, "board and simulator are equal"),
        (30.5, 30.0, "no more than rounding"),
        (27.5, 30.0, "no more than rounding"),
        (26.5, 30.0, "more than rounding explains"),
        (60.0, None, "no other rounding moves it"),
    ],
)
def test_a_board_is_judged_by_what_roundings_do(
    between: float | None, rounding: float | None, said: str
) -> None:
    text = judgement("boxes", between, rounding)
    lacking = judgement("boxes", between, rounding, fused=True)
    assert ("the compiler leaves out" in lacking) == ("more than rounding explains" in text)
    assert text.startswith("boxes: ")
    assert said in text
    if between == 30.5:
        assert "3 % (30.5 dB)" in text
        assert "3.2 % (30.0 dB)" in text


def test_what_is_told_in_words() -> None:
    output = RoundedOutput("boxes", 30.0, 20.0, 40.0, 10**-1.5, 0.5, 3.0, None)
    still = RoundedOutput("scores", None, None, None, 0.0, 0.0, 0.0, 7)
    layers = [RoundedLayer(f"Conv_{n}", "t", 30.0, 0.1, 2.0, float(n)) for n in (2, 5, 9)]
    ways = ("integer", "halves up", "edge 1", "edge 2")
    found = RoundingSensitivity((output, still), tuple(layers), ways, 2, 1e-3, 1.0)
    first, second, third = rounding_lines(found)
    assert "boxes: other roundings move it by up to 3.2 % (30.0 dB)" in first
    assert "quantization by 10 % (20.0 dB) (simulated; 4 ways to round, 2 samples)" in first
    assert "do not move it; the largest value keeps its place in 7 of 8 runs" in second
    assert third == "roundings are amplified most at Conv_9 (+9.00 dB), Conv_5 (+5.00 dB)"


@pytest.mark.long
@pytest.mark.parametrize("name", ["yolo-fastest-darknet", "rfb320-onnx"])
def test_it_foresees_the_gap_between_the_arithmetics(
    name: str, shared: Path, tmp_path: Path
) -> None:
    """Shaken runs know nothing of the integer kernels; what they move is of the same order."""
    assert shared.is_dir()
    loaded = load_case(name, tmp_path)
    pipeline = loaded.pipeline()
    done = pipeline.quantized
    graph = done.graph.graph
    feeds = loaded.feeds(graph, loaded.evaluation[:2])
    found = rounding_sensitivity(graph, done.layers, feeds, golden=pipeline.optimised.graph.graph)
    for output in found.outputs:
        print(name, output)
        assert output.rounding_db is not None
        assert output.arithmetic_db is not None
        assert output.rounding_db <= output.arithmetic_db + 1e-9
        assert output.arithmetic_db - output.rounding_db < 20, "not the same order of magnitude"
