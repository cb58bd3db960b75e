"""``accurate`` as a whole: what it gives, refuses and survives."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from engine.base.errors import JobCancelledError, QuantizationError
from engine.base.events import Event, NullReporter
from engine.graph.ir import Graph
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.quantize.algorithms.accurate.select import CANDIDATES
from engine.quantize.interface import Quantized
from tests.quantize.models import Net, least_sqnr, quantize_net, results, seen_cnn, small_cnn

ACCURATE = QuantizeSettings(algorithm="accurate")


def done(net: Net, graph: Graph, count: int) -> tuple[Quantized, list[dict[str, np.ndarray]]]:
    feeds = net.feeds(count)
    return quantize(graph, calibrate(graph, feeds), ACCURATE, feeds=lambda: feeds), feeds


def test_the_same_samples_give_the_same_bytes() -> None:
    first = done(*small_cnn(), 9)[0].graph.to_bytes()
    assert first == done(*small_cnn(), 9)[0].graph.to_bytes()


@pytest.mark.parametrize("count", [1, 3, 9])
def test_close_to_float_on_samples_never_seen(count: int) -> None:
    net, graph = small_cnn()
    found, _ = done(net, graph, count)
    unseen = net.feeds(5)
    assert least_sqnr(graph, found.graph, unseen) > 28
    assert least_sqnr(graph, found.reference, unseen) > 100


def conv1d(net: Net) -> str:
    x, y = net.input(1, 4, 16), net.input(1, 4, 16)
    first = net.op("Conv", net.op("Add", x, y), net.normal(6, 4, 3))
    return str(net.op("Conv", net.op("Relu", first), net.normal(3, 2, 5), group=3, dilations=[2]))


def no_weights(net: Net) -> str:
    x = net.input(1, 3, 12, 12)
    return str(net.op("MaxPool", net.op("Add", x, x), kernel_shape=[2, 2]))


def matrices(net: Net) -> str:
    return str(net.op("MatMul", net.input(1, 4, 6, 6), net.input(1, 4, 6, 6)))


def constant_channels(net: Net) -> str:
    x = net.input(1, 3, 12, 12)
    weight = np.zeros((4, 3, 3, 3))
    flat = net.op("Conv", x, net.constant(weight), [0.0, 0.0, 1.0, 2.0])
    return net.conv(net.op("Relu", flat), 4, 3)


@pytest.mark.parametrize("form", [conv1d, no_weights, matrices, constant_channels])
def test_odd_graphs(form: Callable[[Net], str]) -> None:
    net = Net()
    graph = net.graph(form(net))
    found, feeds = done(net, graph, 8)
    assert least_sqnr(graph, found.graph, feeds) > 25


def test_without_samples_it_says_what_to_do() -> None:
    graph, seen = seen_cnn()
    with pytest.raises(QuantizationError, match="reads the calibration samples again"):
        quantize(graph, seen, ACCURATE)


def test_ranges_set_by_hand_win() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(2)
    settings = QuantizeSettings(algorithm="accurate", ranges={"image": (-9.0, 9.0)})
    found = quantize(graph, calibrate(graph, feeds), settings, feeds=lambda: feeds)
    assert found.table["image"].maximum == (9.0,)


class _Stopping(NullReporter):
    def __init__(self, after: int) -> None:
        self.left = after
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def check_cancelled(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise JobCancelledError("Stopped.")


def test_it_can_be_cancelled_between_samples() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(9)
    seen = calibrate(graph, feeds)
    for after in (0, 5, 15):
        with pytest.raises(JobCancelledError):
            quantize(graph, seen, ACCURATE, feeds=lambda: feeds, reporter=_Stopping(after))


def test_the_recipe_is_left_where_it_does_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    def harmful(*args: object) -> np.ndarray:
        return np.geomspace(1e-3, 1e3, len(args[0].frozen))  # type: ignore[attr-defined]

    net, graph = small_cnn()
    feeds = net.feeds(8)
    reporter = _Stopping(1000)
    # by the module: the package has a function of the same name
    module = sys.modules["engine.quantize.algorithms.accurate.assemble"]
    monkeypatch.setattr(module, "equalization_factors", harmful)
    found = quantize(
        graph, calibrate(graph, feeds), ACCURATE, feeds=lambda: feeds, reporter=reporter
    )
    monkeypatch.undo()
    plain = quantize_net(graph, feeds)
    assert any(not choice.equalize for choice in CANDIDATES.values())
    assert least_sqnr(graph, found.graph, feeds) > least_sqnr(graph, plain.graph, feeds) - 1


def test_results_of_a_graph_have_room_beyond_what_was_seen() -> None:
    net = Net()
    x = net.input(1, 3, 12, 12)
    out = net.conv(net.op("Relu", net.conv(x, 3, 4)), 4, 2)
    found, feeds = done(net, net.graph(out), 8)
    seen = results(found.reference, feeds)[out]
    params = found.table[out]
    assert params.minimum is not None
    assert params.maximum is not None
    assert params.minimum[0] < 1.2 * seen.min()
    assert params.maximum[0] > 1.2 * seen.max()


def test_samples_that_are_gone_or_not_finite_when_read_again() -> None:
    net, graph = small_cnn()
    feeds = net.feeds(9)
    seen = calibrate(graph, feeds)
    found = quantize(graph, seen, ACCURATE, feeds=lambda: feeds[:4])
    assert least_sqnr(graph, found.graph, net.feeds(5)) > 25
    with pytest.raises(QuantizationError, match="no calibration samples"):
        quantize(graph, seen, ACCURATE, feeds=list)
    feeds[1]["image"][0, 1, 2, 3] = np.nan
    with pytest.raises(QuantizationError, match=r"sample 2 gives 1 values of the input .*NaN"):
        quantize(graph, seen, ACCURATE, feeds=lambda: feeds)
