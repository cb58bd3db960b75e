"""Calibration: the ranges, what it refuses, and how much it holds."""

from __future__ import annotations

import importlib
import json
import resource
from collections.abc import Iterator

import numpy as np
import pytest

from engine.base.errors import JobCancelledError, QuantizationError
from engine.base.events import CallbackReporter, Event, Progress
from engine.graph.execute import Session
from engine.quantize import Observations, QuantizeSettings, calibrate, quantize
from engine.quantize.calibration.calibrate import sample_limit
from tests.quantize.models import Net, quantile, quantize_net, seen_cnn, small_cnn, stream


def test_ranges_are_those_of_the_float_graph() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(5)
    seen = calibrate(graph, stream(feeds))
    names = [name for name in seen.tensors if name not in net.inputs]
    runs = [Session(graph, outputs=names).run(feed, names) for feed in feeds]
    assert seen.samples == 5
    assert len(names) > 15
    for name in names:
        values = np.concatenate([run[name].ravel() for run in runs])
        found = seen[name]
        np.testing.assert_allclose(
            [found.minimum, found.maximum], [values.min(), values.max()], rtol=1e-5, atol=1e-5
        )
    image = np.stack([feed["image"] for feed in feeds])
    assert (seen["image"].minimum, seen["image"].maximum) == (image.min(), image.max())


def test_the_same_samples_give_the_same_bits() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    assert calibrate(graph, feeds) == calibrate(graph.copy(), stream(feeds))


def test_observations_survive_json() -> None:
    _, seen = seen_cnn()
    again = Observations.from_json(json.loads(json.dumps(seen.to_json())))
    assert list(again.tensors) == list(seen.tensors)
    for name, own in again.tensors.items():
        assert (own.minimum, own.maximum) == (seen[name].minimum, seen[name].maximum)
    whole = Observations.from_files(seen.to_files())
    assert whole == seen
    assert list(whole.tensors) == list(seen.tensors)


@pytest.mark.parametrize("data", [{}, {"samples": 1, "tensors": {"a": [1]}}, {"samples": "x"}])
def test_damaged_observations_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(QuantizationError, match="malformed"):
        Observations.from_json(data)


@pytest.mark.parametrize("damage", ["missing", "short", "no npz", "json"])
def test_damaged_files_are_refused(damage: str) -> None:
    net, graph = small_cnn()
    files = calibrate(graph, net.feeds(2)).to_files()
    (name,) = (name for name in files if name.endswith(".npz"))
    (facts,) = (name for name in files if name.endswith(".json"))
    if damage == "missing":
        del files[name]
    elif damage == "no npz":
        files[name] = b"PK nothing"
    elif damage == "json":
        files[facts] = files[facts].replace(b'"inputs"', b'"outputs"')
    else:
        data = json.loads(files[facts])
        data["histograms"]["image"] += 1
        files[facts] = json.dumps(data).encode()
    with pytest.raises(QuantizationError, match="malformed"):
        Observations.from_files(files)


def test_a_stopped_calibration_goes_on_with_the_same_bits() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(21)
    for index, feed in enumerate(feeds):
        feed["image"] *= 1 + index  # ranges grow all along
    whole = calibrate(graph, feeds)
    for stop in (8, 16):
        saved: list[dict[str, bytes]] = []

        def note(seen: Observations, saved: list[dict[str, bytes]] = saved) -> None:
            saved.append(seen.to_files())

        def killed(stop: int = stop) -> Iterator[dict[str, np.ndarray]]:
            yield from feeds[: stop + 3]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            calibrate(graph, killed(), checkpoint=note, checkpoint_seconds=0.0)
        before = Observations.from_files(saved[-1])
        assert before.samples == stop
        events: list[Event] = []
        again = calibrate(graph, feeds, resume=before, reporter=CallbackReporter(events.append))
        assert again == whole
        assert again.to_files() == whole.to_files()
        assert events[0] == Progress("calibrate", stop + 1, 21)


def test_checkpoints_change_nothing_and_a_finished_one_needs_no_samples() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(19)
    seen: list[Observations] = []
    with_them = calibrate(graph, feeds, checkpoint=seen.append, checkpoint_seconds=0.0)
    assert [one.samples for one in seen] == [8, 16]
    assert with_them == calibrate(graph, feeds)
    assert calibrate(graph, feeds[:16], resume=seen[-1]) == seen[-1]


def test_several_inputs() -> None:
    net = Net()
    left, right = net.input(1, 3, 8, 8, name="left"), net.input(1, 5, name="right")
    flat = net.op("Flatten", net.op("GlobalAveragePool", net.conv(left, 3, 5)))
    graph = net.graph(net.op("Gemm", net.op("Add", flat, right), net.normal(5, 4)))
    feeds = net.feeds(5)
    seen = calibrate(graph, feeds)
    for name in ("left", "right"):
        values = np.concatenate([feed[name].reshape(-1) for feed in feeds])
        assert (seen[name].minimum, seen[name].maximum) == (values.min(), values.max())
    for algorithm in ("normal", "kl_divergence", "mmse"):
        settings = QuantizeSettings(algorithm=algorithm)
        done = quantize(graph, seen, settings, feeds=lambda: iter(feeds))
        assert {"left", "right"} <= set(done.table)


def test_going_on_with_another_graph_is_refused() -> None:
    net, graph = small_cnn()
    seen = calibrate(graph, net.feeds(2))
    other = Net()
    x = other.input(1, 3, 8, 8)
    with pytest.raises(QuantizationError, match="another graph"):
        calibrate(other.graph(other.conv(x, 3, 4)), other.feeds(2), resume=seen)
    with pytest.raises(QuantizationError, match="another graph"):
        calibrate(graph, net.feeds(2), resume=Observations.from_json(seen.to_json()))


def test_batches_limit_the_samples() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(6)
    assert sample_limit(100, -1) is None
    assert sample_limit(2, 2) == 4
    assert calibrate(graph, feeds, limit=sample_limit(2, 2)) == calibrate(graph, feeds[:4])
    assert calibrate(graph, feeds, limit=sample_limit(100, 3)).samples == 6
    for batch_size, epochs in ((0, 1), (-1, -1), (10, 0), (10, -2)):
        with pytest.raises(QuantizationError, match="nothing to calibrate"):
            sample_limit(batch_size, epochs)


@pytest.mark.parametrize("algorithm", ["normal", "kl_divergence", "mmse"])
@pytest.mark.parametrize("kind", ["one image", "constant", "zero", "dead layer", "huge bias"])
def test_poor_data_is_quantized_and_runs(algorithm: str, kind: str) -> None:
    net = Net(1)
    x = net.input(1, 3, 8, 8)
    y = net.op("Relu", net.conv(x, 3, 4))
    if kind == "dead layer":
        y = net.op("Relu", net.op("Mul", y, 0.0))
    if kind == "huge bias":
        weight, bias = net.constant(np.zeros((4, 4, 1, 1))), net.constant(np.full(4, 1e6))
        y = net.op("Conv", y, weight, bias)
    graph = net.graph(net.conv(y, 4, 2))
    feeds = net.feeds(1 if kind == "one image" else 3)
    if kind in ("constant", "zero"):
        feeds = [{x: np.full((1, 3, 8, 8), 0.5 * (kind == "constant"), np.float32)}] * 3
    done = quantize_net(graph, feeds, algorithm=algorithm)
    golden, found = Session(graph).run(feeds[0]), Session(done.graph).run(feeds[0])
    for name, expected in golden.items():
        assert np.isfinite(found[name]).all()
        assert np.abs(found[name] - expected).max() <= 0.1 * np.abs(expected).max() + 1e-3


@pytest.mark.long
def test_a_dataset_of_gigabytes_takes_the_memory_of_one_sample() -> None:
    net = Net()
    x = net.input(1, 3, 1024, 1024)  # 12 MB a sample
    y = net.op("Relu", net.conv(x, 3, 4, strides=[4, 4]))
    graph = net.graph(net.op("GlobalAveragePool", y))
    image = net.normal(1, 3, 1024, 1024)
    calibrate(graph, [{x: image}] * 9)  # all that is allocated once
    before = _peak_mb()

    def feeds() -> Iterator[dict[str, np.ndarray]]:
        for index in range(342):  # 4.3 GB
            yield {x: image * np.float32(1 + index / 342)}

    assert calibrate(graph, feeds()).samples == 342
    assert _peak_mb() - before < 40


def _peak_mb() -> float:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_samples_are_read_one_at_a_time() -> None:
    net, graph = small_cnn()
    events: list[str] = []

    def feeds() -> Iterator[dict[str, np.ndarray]]:
        for index in range(3):
            events.append(f"read {index}")
            yield net.feeds(1)[0]

    def note(event: Event) -> None:
        if isinstance(event, Progress):
            events.append(f"done {event.done}")

    calibrate(graph, feeds(), reporter=CallbackReporter(note))
    assert events == ["read 0", "done 1", "read 1", "done 2", "read 2", "done 3"]


def test_no_samples() -> None:
    _, graph = small_cnn()
    with pytest.raises(QuantizationError, match="no calibration samples"):
        calibrate(graph, [])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_sample_that_is_not_finite_is_named(value: float) -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    feeds[1]["image"][0, 1, 2, 3] = value
    with pytest.raises(QuantizationError) as caught:
        calibrate(graph, feeds)
    assert "sample 2" in caught.value.what
    assert "'image'" in caught.value.what
    assert ("NaN" in caught.value.what) == bool(np.isnan(value))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("role", ["weight", "bias"])
def test_a_weight_that_is_not_finite_is_named_and_no_sample_blamed(value: float, role: str) -> None:
    net = Net()
    weight, bias = net.normal(4, 3), np.zeros(3, np.float32)
    (weight if role == "weight" else bias).reshape(-1)[1] = value
    x = net.input(1, 4)
    out = net.op("Gemm", x, net.constant(weight, "the_weight"), net.constant(bias, "the_bias"))
    with pytest.raises(QuantizationError, match=f"'the_{role}' of layer 'Gemm") as caught:
        calibrate(net.graph(out), net.feeds(1))
    assert ("NaN" in caught.value.what) == bool(np.isnan(value))
    assert "sample" not in str(caught.value)


def test_a_tensor_that_is_not_finite_is_named() -> None:
    net = Net()
    x = net.input(1, 4)
    # 0 / 0 in one place of a tensor whose minimum and maximum look fine
    ratio = net.op("Div", x, x)
    out = net.op("Add", ratio, 1.0)
    graph = net.graph(out)
    good = np.array([[1, 2, 3, 4]], np.float32)
    bad = np.array([[1, 0, 3, 4]], np.float32)
    with pytest.raises(QuantizationError) as caught:
        calibrate(graph, [{x: good}, {x: bad}])
    assert "sample 2" in caught.value.what
    assert repr(ratio) in caught.value.what


def test_a_sum_that_overflows_is_no_reason_to_refuse() -> None:
    net = Net()
    x = net.input(1, 64)
    out = net.op("Add", x, 1.0)
    seen = calibrate(net.graph(out), [{x: np.full((1, 64), 2e38, np.float32)}])
    assert seen[x].maximum == np.float32(2e38)


def test_cancel() -> None:
    net, graph = small_cnn()
    with pytest.raises(JobCancelledError):
        calibrate(graph, net.feeds(2), reporter=CallbackReporter(lambda _: None, lambda: True))


def test_a_graph_in_many_parts_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    whole = calibrate(graph, feeds)
    monkeypatch.setattr(importlib.import_module("engine.graph.execute.submodels"), "PART_BYTES", 0)
    parts = calibrate(graph, feeds)
    assert list(parts.tensors) == list(whole.tensors)
    assert set(parts.inputs) == set(whole.inputs)
    for name, seen in whole.tensors.items():
        np.testing.assert_allclose(
            [parts[name].minimum, parts[name].maximum], [seen.minimum, seen.maximum], rtol=1e-5
        )
        assert (parts[name].peaks is None) == (seen.peaks is None)
        if seen.peaks is not None:  # of every channel, however large the tensor
            np.testing.assert_allclose(parts[name].peaks, seen.peaks, rtol=1e-5)
    test_a_tensor_that_is_not_finite_is_named()


def test_channels_are_those_of_weighted_layers() -> None:
    net = Net()
    x = net.input(1, 4, 6, 6)
    y = net.conv(x, 4, 8)
    tokens = net.op("Reshape", y, np.array([1, 8, 36]))
    turned = net.op("Transpose", tokens, perm=[0, 2, 1])
    rows = net.op("MatMul", turned, net.normal(8, 5))
    windows = net.op("Reshape", rows, np.array([4, 9, 5]))
    flat = net.op("Reshape", windows, np.array([36, 5]))
    out = net.op("Gemm", flat, net.normal(5, 3))
    graph = net.graph(out)
    seen = calibrate(graph, net.feeds(2))
    found = {name: len(seen[name].peaks or ()) for name in (x, y, rows, windows, out)}
    assert found == {x: 4, y: 8, rows: 1, windows: 1, out: 3}


def test_channels_of_lines_are_those_behind_a_convolution_of_one_axis() -> None:
    net = Net()
    x = net.input(1, 4, 12)
    first = net.op("LeakyRelu", net.op("Conv", x, net.normal(5, 4, 3)))
    second = net.op("LeakyRelu", first)
    seen = calibrate(net.graph(net.op("LeakyRelu", second)), net.feeds(2))
    assert [len(seen[name].peaks or ()) for name in (first, second)] == [5, 5]


def test_the_range_of_a_large_tensor_without_channels() -> None:
    from engine.quantize.calibration.observer import _reduced, _stride

    array = np.random.default_rng(2).normal(size=(3, 5000, 33)).astype(np.float32)
    low, high, values = _reduced(array, channels=False)
    assert (low.tolist(), high.tolist()) == ([array.min()], [array.max()])
    np.testing.assert_array_equal(values, array.reshape(-1)[:: _stride(array.size)])
    array[1, 2, 3] = np.nan
    low, high, _ = _reduced(array, channels=False)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


@pytest.mark.parametrize(("size", "ends"), [(4096, 4096), (4097, 1)])
def test_a_longer_axis_is_no_axis_of_channels(size: int, ends: int) -> None:
    from engine.quantize.calibration.observer import _reduced

    low, high, _ = _reduced(np.ones((1, size, 2), np.float32))
    assert (len(low), len(high)) == (ends, ends)


@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("shape", [(1, 3, 7), (2, 5, 3), (1, 700, 299), (1, 2, 200_000), (9,)])
def test_what_is_kept_of_one_tensor(shape: tuple[int, ...], low: float) -> None:
    from engine.quantize.calibration.observer import _reduced, _stride

    array = np.random.default_rng(1).uniform(low, 1, size=shape).astype(np.float32)
    lows, highs, values = _reduced(array)
    rows = np.moveaxis(array, 1, 0).reshape(shape[1], -1) if len(shape) > 1 else array[np.newaxis]
    np.testing.assert_array_equal(highs, rows.max(axis=1))
    assert lows.min() == array.min()
    np.testing.assert_array_equal(np.maximum(np.abs(lows), np.abs(highs)), np.abs(rows).max(axis=1))
    np.testing.assert_array_equal(values, array.reshape(-1)[:: _stride(array.size)])
    for bad in (np.nan, np.inf, -np.inf):
        array.reshape(-1)[-1] = bad
        lows, highs, _ = _reduced(array)
        assert not (np.isfinite(lows).all() and np.isfinite(highs).all())


def test_what_a_sigmoid_gave_follows_from_what_it_read() -> None:
    net = Net()
    x = net.input(1, 4, 3, 3)
    before = net.op("Mul", x, 3.0)
    gate = net.op("Sigmoid", before)
    twice = net.op("Sigmoid", gate)
    graph = net.graph(net.op("Add", net.op("Mul", before, gate), twice))
    feeds = net.feeds(2)
    feeds[0][x][0, 0, 0, 0] = -200.0  # whose exponential float32 does not hold
    seen = calibrate(graph, feeds)
    session = Session(graph, outputs=[gate, twice])
    for name in (gate, twice):
        arrays = np.concatenate([session.run(feed, [name])[name] for feed in feeds])
        peaks = np.abs(arrays).max(axis=(0, 2, 3))
        ends = [seen[name].minimum, seen[name].maximum]
        np.testing.assert_allclose(ends, [arrays.min(), arrays.max()], atol=1e-6)
        np.testing.assert_allclose(seen[name].peaks or (), peaks, atol=1e-6)
        histogram = seen[name].histogram
        assert histogram is not None
        assert histogram.total == arrays.size
        np.testing.assert_allclose(quantile(histogram, 0.5), np.median(arrays), atol=0.05)


def test_what_a_gelu_holds_inside_follows_from_what_it_reads() -> None:
    from engine.quantize.calibration.observer import _derived

    net = Net()
    x = net.input(1, 4, 30, 30)
    weight = np.random.default_rng(3).normal(size=(4, 4, 1, 1)).astype(np.float32)
    before = net.op("Conv", x, net.constant(weight))
    erf = net.op("Erf", net.op("Div", before, 1.4142135))
    plus = net.op("Add", 1.0, erf)
    product = net.op("Mul", before, plus)
    graph = net.graph(net.op("Relu", net.op("Mul", product, 0.5)))
    feeds = net.feeds(3)
    seen = calibrate(graph, feeds)
    derived = {n for found in _derived(graph, list(seen.tensors), ()).values() for n, _ in found}
    assert {erf, plus} <= derived
    assert product not in derived
    session = Session(graph, outputs=[erf, plus])
    for name in (erf, plus):
        arrays = np.concatenate([session.run(feed, [name])[name] for feed in feeds])
        ends = [seen[name].minimum, seen[name].maximum]
        np.testing.assert_allclose(ends, [arrays.min(), arrays.max()], rtol=1e-6, atol=3e-7)
        peaks = np.abs(arrays).max(axis=(0, 2, 3))
        np.testing.assert_allclose(seen[name].peaks or (), peaks, rtol=1e-6, atol=3e-7)


@pytest.mark.parametrize(("op", "constant"), [("Mul", -2.0), ("Div", -2.0), ("Mul", 0.0)])
def test_what_falls_is_read(op: str, constant: float) -> None:
    net = Net()
    x = net.input(1, 4, 3, 3)
    before = net.op("Mul", x, [[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]])
    after = net.op(op, before, net.constant(constant))
    graph = net.graph(net.op("Relu", net.op("Add", before, after)))
    feeds = net.feeds(2)
    seen = calibrate(graph, feeds)
    arrays = [Session(graph, outputs=[after]).run(feed, [after])[after] for feed in feeds]
    assert seen[after].minimum == min(array.min() for array in arrays)
    assert seen[after].maximum == max(array.max() for array in arrays)


def test_a_tensor_that_follows_and_overflows_is_named() -> None:
    net = Net()
    x = net.input(1, 2, 3, 3)
    before = net.op("Relu", x)
    after = net.op("Mul", before, 3e38)
    graph = net.graph(net.op("Add", after, before))
    feeds = net.feeds(1)
    feeds[0][x][0, 0, 0, 0] = 100.0
    with pytest.raises(QuantizationError, match=f"{after}.*infinite"):
        calibrate(graph, feeds)
