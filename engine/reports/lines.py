"""Declared tables as lines of text, with aligned columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.base.text import aligned
from engine.wire.table import Table


def table_lines(declared: Table, rows: Iterable[Any], *, whole: bool = False) -> list[str]:
    """Lines of a declared table over rows of an answer, or records; none where there are none.

    ``whole``: with every column that says something, not only those of a usual screen.
    """
    rows = list(rows)
    columns = declared.shown(rows, None) if whole else declared.shown(rows)
    cells = [[column.show(row) for column in columns] for row in rows]
    return aligned([[column.called for column in columns], *cells]) if rows else []


def row_text(declared: Table, row: Any) -> str:
    """One row of a declared table as a line, told before the others are there."""
    return "  ".join(column.show(row) for column in declared.shown([row]))
