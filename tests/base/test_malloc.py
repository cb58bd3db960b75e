"""Memory that a job leaves behind."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from engine.base.malloc import trim_heap
from engine.graph.execute import PartedRun
from tests.quantize.models import Net


class _Circle:
    def __init__(self) -> None:
        self.me = self
        self.data = np.zeros(1000)


def test_circles_are_gone() -> None:
    gc.collect()
    gc.disable()
    try:
        circle = weakref.ref(_Circle())
        assert circle() is not None
        trim_heap()
        assert circle() is None
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_pool_of_parts_is_given_back() -> None:
    net = Net()
    x = net.input(1, 64, 512, 512)  # 64 MiB
    y = net.op("Neg", net.op("Abs", x))
    graph = net.graph(net.op("ReduceSum", y))
    feed = {x: np.ones((1, 64, 512, 512), np.float32)}
    trim_heap()
    before = _resident()
    run = PartedRun(graph, [y])
    for given in run.run(feed):
        assert _resident() - before > 60
        del given
    trim_heap()
    assert _resident() - before < 40


def _resident() -> float:
    """Memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
