"""Memory that a job leaves behind."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from engine.base.peers.limits import trim_heap
from engine.graph.execute import PartedRun
from tests.quantize.models import Net
from tests.safety import printed


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


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_a_worker_keeps_blocks_that_it_takes_again() -> None:
    """Ten times 40 MiB are 102,400 pages; a block that is kept has its 10,240 mapped once."""
    code = (
        "import gc, resource\n"
        "from engine.base.peers.far import keep_memory\n"
        "from engine.base.peers.limits import trim\n"
        "size = lambda: int(open('/proc/self/statm').read().split()[1]) >> 8\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "keep_memory()\n"
        "keep_memory()\n"  # as often as one likes
        "before, first = size(), faults()\n"
        "for _ in range(10): b'1' * (40 << 20)\n"
        "print(faults() - first, size() - before)\n"
        "trim()\n"
        "print(size() - before, gc.get_threshold()[0])\n"
    )
    faults, kept, after, objects = map(int, printed(code))
    assert faults < 30_000
    assert kept >= 30
    assert after < 10
    assert objects > 700


def _resident() -> float:
    """Memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
