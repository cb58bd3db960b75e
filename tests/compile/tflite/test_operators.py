"""Every operator that is written, in TFLite's own interpreter against our simulator."""

from __future__ import annotations

import pytest

from tests.compile.tflite.cases import CASES, quantized, steps_apart, written


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_gives_what_the_simulator_gives(name: str) -> None:
    make, allowed = CASES[name]
    net, graph = quantized(make)
    model = written(graph)
    worst = max(steps_apart(graph, model, feed) for feed in net.feeds(3))
    assert worst <= allowed + 1e-3
