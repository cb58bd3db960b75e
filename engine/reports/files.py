"""Declared tables as lines of text, and as files: CSV and TSV with plain numbers, HTML as people
read it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from engine.base.text import aligned, escaped, sanitize
from engine.wire.codec import encode

if TYPE_CHECKING:
    from engine.wire.table import Table

_CELL = 500
"""Characters of a text in a file."""


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


def table_file(table: Table, rows: Iterable[Any], suffix: str = ".csv") -> str:
    """A table as a file: JSON has the values; CSV, TSV and every other suffix numbers without
    units, with heads as in JSON.

    Args:
        table: its columns.
        rows: of an answer, or records of the table.
        suffix: ``.csv``, ``.tsv`` or ``.json``, in lower case.
    """
    if suffix == ".json":
        plain = [row if isinstance(row, Mapping) else encode(row) for row in rows]
        return escaped(json.dumps(plain, indent=1, default=str)) + "\n"
    head, *lines = table.plain(rows)
    out = io.StringIO()
    dialect = "excel-tab" if suffix == ".tsv" else "excel"
    writer = csv.writer(out, dialect, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_safe(cell) for cell in row] for row in lines)
    return out.getvalue()


def _safe(cell: Any) -> Any:
    """No name of a file becomes a formula of a spreadsheet, or a control character."""
    if cell is None or isinstance(cell, int | float):
        return cell
    text = sanitize(str(cell), _CELL)
    # some trim the space before it
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


_STYLE = (
    "body{font:14px sans-serif;margin:24px;color:#222}table{border-collapse:collapse}"
    "td,th{border-bottom:1px solid #ddd;padding:2px 10px;text-align:left;white-space:nowrap}"
    "td.n{text-align:right}.sort th{cursor:pointer}svg{max-width:100%;height:auto}"
    ".wide{overflow-x:auto}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def html_text(text: str) -> str:
    """A text of a model or recipe as it may stand in HTML."""
    return escape(sanitize(text, _CELL))


def html_page(title: str, parts: Iterable[str], script: str = "") -> str:
    """A whole document that loads nothing; the title is escaped here, the parts are HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html_text(title)}</title>"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<style>{_STYLE}</style></head><body>\n<h1>{html_text(title)}</h1>\n{''.join(parts)}\n"
        f"{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


def html_table(table: Table, rows: Iterable[Any]) -> str:
    """A ``<table>`` with every column that says something; numbers have the class ``n``."""
    rows = list(rows)
    columns = [
        column
        for column in table.shown(rows, None)
        if not rows or any(column.of(row) not in (None, "") for row in rows)
    ]
    cells = ([column.show(row) for column in columns] for row in rows)
    numbers = {at for at, column in enumerate(columns) if column.format.right}
    return html_rows([column.called for column in columns], cells, numbers)


def html_rows(
    heads: Iterable[str], rows: Iterable[Iterable[str]], numbers: Collection[int] = ()
) -> str:
    """A ``<table>`` of texts; ``numbers``: the places of columns that have the class ``n``."""
    lines = [f"<tr>{''.join(f'<th>{html_text(head)}</th>' for head in heads)}</tr>"]
    tags = dict.fromkeys(numbers, "<td class=n>")
    for row in rows:
        cells = (f"{tags.get(at, '<td>')}{html_text(text)}</td>" for at, text in enumerate(row))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "<table>{}</table>\n".format("\n".join(lines))
