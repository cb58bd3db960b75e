"""Hundreds of runs leave no memory, descriptor or thread behind in the agent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.devices.agent.conftest import Agent
from tests.devices.waiting import held

pytestmark = [pytest.mark.cc, pytest.mark.long]


@pytest.mark.parametrize("kind", ["librknnrt.so", "librknn_runtime.so", "librknnmrt.so"])
def test_it_does_not_grow(agents: Callable[..., Agent], kind: str) -> None:
    agent = agents(kind, RUN_US="100")
    pid, threads = agent.child.process.pid, 1 if kind == "librknnmrt.so" else 2
    for cycle in range(500):
        agent.open(perf=kind != "librknnmrt.so")
        agent.run(threads=threads, loops=3, outputs=str(agent.folder), want_float=True)
        agent.error("run", inputs=[])
        if cycle % 2:
            agent.result("close")
        if cycle == 100:
            early = held(pid)
    late = held(pid)
    assert (late.files, late.threads) == (early.files, early.threads)
    assert late.memory - early.memory < 2048
