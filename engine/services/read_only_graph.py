"""A graph to look at: layers as a file has them, without anything that could run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.base.errors import GraphError
from engine.base.text import sanitize

if TYPE_CHECKING:
    import numpy as np

    from engine.frontends.summary import SourceSummary
    from engine.wire.graph import GraphView, NodeDetail

__all__ = ["ReadOnlyGraph"]


class ReadOnlyGraph:
    """The graph view of a file that is not converted, and the details of its layers.

    Args:
        graph: the graph view.
        detail: name of a layer -> its detail; raises GraphError for an unknown one.
        why: why there are no values of tensors.
    """

    def __init__(self, graph: GraphView, detail: Callable[[str], NodeDetail], why: str) -> None:
        self.graph = graph
        self._detail = detail
        self._why = why

    @classmethod
    def of_source(cls, summary: SourceSummary) -> ReadOnlyGraph:
        """Of a source model before its conversion."""
        from engine.frontends.views import layer_detail, source_graph

        return cls(
            source_graph(summary),
            lambda name: layer_detail(summary, name),
            "The model is not converted yet, or cannot be.",
        )

    def node(self, name: str) -> NodeDetail:
        """Everything that the file tells of one layer; GraphError where there is none."""
        return self._detail(name)

    def constant(self, name: str) -> np.ndarray | None:
        """Raises GraphError: there are no values here."""
        raise GraphError(
            f"The values of {sanitize(name)} are not there.",
            cause=self._why,
            remedy="Load the model; of a compiled model only types and sizes are shown.",
        )
