"""The nodes of a graph as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.wire.project_tables import GRAPH_NODES
from rknntui.widgets.table import Table

if TYPE_CHECKING:
    from engine.wire.graph import NodeRow

_SHOWN = GRAPH_NODES.pick("number", "op", "name", "shape", "dtype")


class NodeTable(Table):
    """Rows are (position, operator, name, shape of the first output, its dtype)."""

    def __init__(self, nodes: Iterable[NodeRow]) -> None:
        super().__init__(_SHOWN.columns, id="nodes")
        self.set_nodes(nodes)

    def set_nodes(self, nodes: Iterable[NodeRow]) -> None:
        """Show the nodes of a graph."""
        self.set_rows(
            [(i, *(column.of(n) for column in _SHOWN.columns[1:])) for i, n in enumerate(nodes)]
        )
