"""Calibration: the ranges, what it refuses, and how much it holds."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator

import numpy as np
import pytest

from engine.base.errors import JobCancelledError, QuantizationError
from engine.base.events import CallbackReporter, Event, Progress
from engine.graph.execute import Session
from engine.quantize import Observations, calibrate
from tests.quantize.models import Net, small_cnn, stream


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
            [found.minimum, found.maximum], [values.min(), values.max()], rtol=1e-5, atol=1e-6
        )
    image = np.stack([feed["image"] for feed in feeds])
    assert (seen["image"].minimum, seen["image"].maximum) == (image.min(), image.max())


def test_the_same_samples_give_the_same_bits() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    assert calibrate(graph, feeds) == calibrate(graph.copy(), stream(feeds))


def test_observations_survive_json() -> None:
    net, graph = small_cnn()
    seen = calibrate(graph, net.feeds(2))
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


def test_a_tensor_that_is_not_finite_is_named() -> None:
    net = Net()
    x = net.input(1, 4)
    # 0 / 0 in one place of a tensor whose minimum and maximum look fine
    ratio = net.op("Div", x, x)
    out = net.op("Add", ratio, net.constant(1.0))
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
    out = net.op("Add", x, net.constant(1.0))
    seen = calibrate(net.graph(out), [{x: np.full((1, 64), 2e38, np.float32)}])
    assert seen[x].maximum == np.float32(2e38)


def test_cancel() -> None:
    net, graph = small_cnn()
    with pytest.raises(JobCancelledError):
        calibrate(graph, net.feeds(2), reporter=CallbackReporter(lambda _: None, lambda: True))


def test_large_tensors_are_reduced_inside_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    net, graph = small_cnn()
    feeds = net.feeds(3)
    handed_out = calibrate(graph, feeds)
    module = importlib.import_module("engine.quantize.observe_graph")
    monkeypatch.setattr(module, "_HANDED_OUT_BYTES", 1000)
    inside = calibrate(graph, feeds)
    for name, seen in handed_out.tensors.items():
        np.testing.assert_allclose(
            [inside[name].minimum, inside[name].maximum], [seen.minimum, seen.maximum], rtol=1e-6
        )
    monkeypatch.setattr(module, "_HANDED_OUT_BYTES", 0)
    test_a_tensor_that_is_not_finite_is_named()
    test_a_sum_that_overflows_is_no_reason_to_refuse()
