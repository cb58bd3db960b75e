"""The only module that writes to standard output: data, as text or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["emit", "table"]


def emit(data: Any, text: str | Iterable[str], *, as_json: bool) -> None:
    """Write ``data`` as JSON, or the text (a string or lines) for people."""
    if as_json:
        sys.stdout.write(json.dumps(_finite(data), indent=2, ensure_ascii=False) + "\n")
    else:
        body = text if isinstance(text, str) else "\n".join(text)
        sys.stdout.write(body + "\n")
    sys.stdout.flush()


def _finite(data: Any) -> Any:
    """JSON has no infinity or NaN: null stands for them."""
    if isinstance(data, float):
        return data if data == data and abs(data) != float("inf") else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data


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
