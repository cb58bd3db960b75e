"""Declared tables as lines of text, with aligned columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from engine.wire.table import Table


def table_lines(declared: Table, rows: Iterable[Any], *, whole: bool = False) -> list[str]:
    """Lines of a declared table over rows of an answer, or records.

    ``whole``: with every column that says something, not only those of a usual screen.
    """
    rows = list(rows)
    columns = declared.shown(rows, None) if whole else declared.shown(rows)
    return table([c.called for c in columns], [[c.show(row) for c in columns] for row in rows])


def row_text(declared: Table, row: Any) -> str:
    """One row of a declared table as a line, told before the others are there."""
    return "  ".join(column.show(row) for column in declared.shown([row]))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with aligned columns; no lines where there are no rows."""
    if not rows:
        return []
    grid = [tuple(columns), *[tuple(row) for row in rows]]
    widths = [max(len(row[i]) for row in grid) for i in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in grid
    ]
