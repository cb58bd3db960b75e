"""Runs: every node once a sample, and terms of clamped sums with their sum, whatever the parts."""

from __future__ import annotations

import numpy as np
import pytest

from engine.base.events import NullReporter
from engine.graph.execute import Session, submodels
from engine.quantize.algorithms.accurate.statistics import StatisticsRunner, residual_terms
from engine.quantize.planning.plan import plan
from tests.quantize.models import Net


@pytest.mark.parametrize("nbytes", [1, 4096, 1 << 30])
def test_tensors_and_terms_are_the_same_in_any_parts(
    nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submodels, "PART_BYTES", nbytes)
    net = Net()
    x = net.input(1, 3, 6, 6)
    left = net.op("Relu", net.conv(net.conv(x, 3, 4), 4, 4))
    right = net.conv(x, 3, 4)
    last = net.conv(net.op("Relu", net.op("Add", net.conv(left, 4, 4), right)), 4, 2)
    graph, feeds = net.graph(last), net.feeds(2)
    sums = residual_terms(graph, plan(graph))
    assert len(sums) == 2
    inner = [name for name in plan(graph).tensors if name not in feeds[0]]
    runs = StatisticsRunner(graph, [*feeds[0], *inner], sums)
    raw: dict[str, np.ndarray] = {}
    needed: dict[str, np.ndarray] = {}
    portions = 0
    for _, found, own in runs.over(lambda: iter(feeds), 1, "statistics", NullReporter()):
        raw.update(found)
        needed.update(own)
        portions += 1
    assert portions > 3 or nbytes > 1
    exact = Session(graph).run(feeds[0], inner)
    assert set(needed) == set(raw) == {*feeds[0], *inner}
    for name in inner:
        np.testing.assert_allclose(raw[name], exact[name], rtol=1e-4, atol=1e-4)
        if name in sums:
            clamped, other = sums[name]
            np.testing.assert_array_equal(needed[name], raw[clamped] - raw[other])
        else:
            assert needed[name] is raw[name]
