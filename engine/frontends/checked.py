"""What is asked of every loaded graph, whatever its framework, before anything runs it."""

from __future__ import annotations

from engine.frontends.loaded import told_of
from engine.graph.ir import Graph
from engine.graph.ir.amounts import check_amounts
from engine.graph.passes.impossible import check_divisions

__all__ = ["check_loaded"]


def check_loaded(graph: Graph, name: str) -> None:
    """Refuse a graph that a run of it would not survive.

    Args:
        graph: as it was loaded.
        name: how messages call the model.

    Raises:
        SourceModelError: it needs too much memory, or divides constants that have no quotient.
    """
    with told_of(name):
        check_amounts(graph)
        check_divisions(graph)
