"""The nodes of a graph as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rknntui.widgets.table import Column, Table

if TYPE_CHECKING:
    from engine.wire.graph import NodeRow

__all__ = ["NodeTable"]


class NodeTable(Table):
    """Rows are (position, operator, name, shape of the first output, its type)."""

    def __init__(self, nodes: Iterable[NodeRow]) -> None:
        columns = (
            Column("#", 5, right=True),
            Column("operator", 12, style=lambda _: "accent"),
            Column("name", 8, grow=1),
            Column("shape", 11),
            Column("type", 8),
        )
        super().__init__(columns, id="nodes")
        self.set_nodes(nodes)

    def set_nodes(self, nodes: Iterable[NodeRow]) -> None:
        """Show the nodes of a graph."""
        self.set_rows([(i, n[1], n[0], n[3], n[4]) for i, n in enumerate(nodes)])
