"""Declared tables as files: CSV and TSV with plain numbers, HTML as people read it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from engine import sanitize

if TYPE_CHECKING:
    from engine.wire.table import Table

_CELL = 500
"""Characters of a text in a file."""


def delimited(table: Table, rows: Iterable[Any], suffix: str = ".csv") -> str:
    """CSV (``.csv``) or text with tabs (``.tsv``): heads as in JSON, numbers without units."""
    head, *lines = table.plain(rows)
    return csv_lines(head, lines, suffix)


def csv_lines(head: Iterable[str], rows: Iterable[Iterable[Any]], suffix: str = ".csv") -> str:
    """Heads and cells as CSV or, with tabs, as TSV."""
    out = io.StringIO()
    dialect = "excel-tab" if suffix == ".tsv" else "excel"
    writer = csv.writer(out, dialect, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_safe(cell) for cell in row] for row in rows)
    return out.getvalue()


def _safe(cell: Any) -> Any:
    """No name of a file becomes a formula of a spreadsheet, or a control character."""
    if cell is None or isinstance(cell, int | float):
        return cell
    text = sanitize(str(cell), _CELL)
    # some trim the space before it
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


def html_table(table: Table, rows: Iterable[Any]) -> str:
    """A ``<table>`` with every column that says something; numbers have the class ``n``."""
    rows = list(rows)
    columns = table.shown(rows, None)
    head = "".join(f"<th>{escape(column.called)}</th>" for column in columns)
    body = "\n".join(
        "<tr>"
        + "".join(
            f"{'<td class=n>' if c.format.right else '<td>'}"
            f"{escape(sanitize(c.show(row), _CELL))}</td>"
            for c in columns
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>\n{body}</table>\n"
