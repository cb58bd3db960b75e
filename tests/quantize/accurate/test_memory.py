"""``accurate`` looks at samples one by one and keeps none of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.quantize.algorithms import accurate
from tests.quantize.models import Net

_SHAPE = (1, 3, 128, 128)
_BYTES = 4 * 3 * 128 * 128


def _samples(count: int) -> Iterator[dict[str, np.ndarray]]:
    for seed in range(count):
        yield {"image": np.random.default_rng(seed).random(_SHAPE, np.float32)}


def test_the_peak_does_not_grow_by_the_samples() -> None:
    net = Net()
    x = net.input(*_SHAPE, name="image")
    graph = net.graph(net.op("Relu", net.op("Conv", x, net.normal(2, 3, 3, 3), strides=[16, 16])))
    settings = QuantizeSettings(algorithm="accurate")

    def peak(count: int) -> int:
        seen = calibrate(graph, _samples(count))
        tracemalloc.start()
        try:
            quantize(graph, seen, settings, feeds=lambda: _samples(count))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # 30 more samples, of which some thousand values and the held-out ones may stay
    assert peak(45) - peak(15) < 15 * _BYTES


def test_of_many_samples_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    graph = net.graph(net.op("Relu", net.conv(net.input(1, 3, 8, 8), 3, 4)))
    samples = list(net.feeds(9))
    settings = QuantizeSettings(algorithm="accurate")

    def table(chosen: list[dict[str, np.ndarray]]) -> object:
        seen = calibrate(graph, chosen)
        return quantize(graph, seen, settings, feeds=lambda: iter(chosen)).table.to_json()

    whole = table(samples)
    monkeypatch.setattr(accurate, "SAMPLES", 3)
    assert table(samples) == table(samples[::3]) != whole
