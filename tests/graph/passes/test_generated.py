"""Random graphs mean the same at every level, and between them use every pass."""

from __future__ import annotations

import pytest

from engine.graph.ir import verify
from engine.graph.passes import PASSES, optimise
from tests.graph.passes.generate import random_graph
from tests.graph.passes.support import LEVELS, furthest, random_feeds, run

TOLERANCE = 1e-4
"""Relative to the range of an output."""


def check(seed: int) -> set[str]:
    """The graph of a seed at every level; the names of passes that changed it."""
    graph = random_graph(seed)
    verify(graph)
    feeds = random_feeds(graph, seed)
    reference = run(graph, feeds)
    fired: set[str] = set()
    for level in LEVELS:
        done = optimise(graph, level)
        assert [(s.name, s.shape, s.dtype) for s in done.graph.outputs] == [
            (s.name, s.shape, s.dtype) for s in graph.outputs
        ]
        assert len(done.graph) <= len(graph) + 4, (seed, level)
        assert furthest(reference, run(done.graph, feeds)) < TOLERANCE, (seed, level)
        fired |= {r.name for r in done.log if r.modified}
    return fired


@pytest.mark.parametrize("seed", range(24))
def test_a_random_graph(seed) -> None:
    check(seed)


@pytest.mark.long
def test_200_random_graphs() -> None:
    fired: set[str] = set()
    for seed in range(1000, 1200):
        fired |= check(seed)
    # the generator writes weights as initializers, never as Constant nodes
    assert fired >= {c.name for c in PASSES} - {"constant-nodes"}


def test_the_same_seed_gives_the_same_graph() -> None:
    assert random_graph(5).to_bytes() == random_graph(5).to_bytes()
