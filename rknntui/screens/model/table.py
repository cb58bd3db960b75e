"""The nodes of a graph as a table."""

from __future__ import annotations

from rknntui.widgets.table import Column, Table

__all__ = ["node_table"]


def node_table() -> Table:
    """Rows are (position, operator, name, shape of the first output, its type)."""
    return Table(
        (
            Column("#", 5, right=True),
            Column("operator", 12, style=lambda _: "accent"),
            Column("name", 8, grow=1),
            Column("shape", 11),
            Column("type", 8),
        ),
        id="nodes",
    )
