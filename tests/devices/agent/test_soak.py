"""Hundreds of runs leave no memory, descriptor or thread behind in the agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.devices.agent.conftest import Agent

pytestmark = [pytest.mark.cc, pytest.mark.long]


def held(agent: Agent) -> tuple[int, int, int]:
    """Its memory in KiB, its descriptors and its threads."""
    place = Path(f"/proc/{agent.child.process.pid}")
    facts = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    memory, threads = (int(facts[name].split()[0]) for name in ("VmRSS", "Threads"))
    return memory, len(list((place / "fd").iterdir())), threads


@pytest.mark.parametrize("kind", ["librknnrt.so", "librknn_runtime.so", "librknnmrt.so"])
def test_it_does_not_grow(agents: Callable[..., Agent], kind: str) -> None:
    agent = agents(kind, RUN_US="100")
    early, threads = (0, 0, 0), 1 if kind == "librknnmrt.so" else 2
    for cycle in range(500):
        agent.open(perf=kind != "librknnmrt.so")
        agent.run(threads=threads, loops=3, outputs=str(agent.folder), want_float=True)
        agent.error("run", inputs=[])
        if cycle % 2:
            agent.result("close")
        if cycle == 100:
            early = held(agent)
    late = held(agent)
    assert late[1:] == early[1:]
    assert late[0] - early[0] < 2048
