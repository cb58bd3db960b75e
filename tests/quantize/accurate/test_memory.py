"""``accurate`` looks at samples one by one and keeps none of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

from engine.quantize import QuantizeSettings, calibrate, quantize
from tests.quantize.models import Net

_SHAPE = (1, 3, 128, 128)
_BYTES = 4 * 3 * 128 * 128


def _samples(count: int) -> Iterator[dict[str, np.ndarray]]:
    for seed in range(count):
        yield {"image": np.random.default_rng(seed).random(_SHAPE, np.float32)}


def test_the_peak_does_not_grow_by_the_samples() -> None:
    net = Net()
    x = net.input(*_SHAPE, name="image")
    weight = net.constant(net.normal(2, 3, 3, 3))
    graph = net.graph(net.op("Relu", net.op("Conv", x, weight, strides=[16, 16])))
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
