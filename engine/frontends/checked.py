"""What is asked of every loaded graph, whatever its framework, before anything runs it."""

from __future__ import annotations

from engine.base.errors import GraphError, SourceModelError
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
    try:
        check_amounts(graph)
        check_divisions(graph)
    except GraphError as error:
        raise SourceModelError(
            f"{name}: {error.what}", cause=error.cause, remedy=error.remedy
        ) from error
