"""Nested facts of a file as rows of text, for the command line and the detail pane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine import printable, shape_text

__all__ = ["fact_rows"]


def fact_rows(facts: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """(depth, name, text) of each fact; a group has no text and its facts follow, one deeper.

    What is empty is left out.
    """
    for name, value in facts.items():
        title = printable(str(name).replace("_", " "), 100)
        if value in (None, "", [], {}):
            continue
        if isinstance(value, Mapping):
            rows = list(fact_rows(value, depth + 1))
            if rows:
                yield depth, title, ""
                yield from rows
        elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
            yield depth, title, ""
            for number, item in enumerate(value, 1):
                if isinstance(item, Mapping):
                    yield depth + 1, str(number), _line(item)
                else:
                    first, *rest = item if isinstance(item, list) else [item]
                    yield depth + 1, printable(str(first), 100), _text(rest)
        else:
            yield depth, title, _text(value)


def _line(item: Mapping[str, Any]) -> str:
    parts = []
    for name, value in item.items():
        if value in (None, "", [], {}):
            continue
        parts.append(
            _text(value) if name in ("name", "shape", "dtype") else f"{name} {_text(value)}"
        )
    return "; ".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        whole = all(isinstance(item, int) and not isinstance(item, bool) for item in value)
        if whole and len(value) > 1:
            return shape_text(value)
        return ", ".join(_line(i) if isinstance(i, Mapping) else _text(i) for i in value)
    return printable(str(value), 400)
