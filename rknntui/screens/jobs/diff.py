"""The difference of two builds: what was asked for, and what came out."""

from __future__ import annotations

from typing import Any

from engine import sanitize
from rknntui.widgets.strips import Line

MISSING = "–"


def differences(
    before: dict[str, object],
    after: dict[str, object],
    old: dict[str, object],
    new: dict[str, object],
) -> list[Line]:
    """Lines with every option and every figure of two builds that is not the same.

    Args:
        before: parameters of the first job.
        after: parameters of the second one.
        old: result of the first job.
        new: result of the second one.
    """
    lines: list[Line] = []
    sections = (
        ("Recipe", before.get("recipe") or {}, after.get("recipe") or {}),
        ("Result", old, new),
    )
    for title, left, right in sections:
        a, b = _flat(left), _flat(right)
        rows = [
            (name, a.get(name, MISSING), b.get(name, MISSING))
            for name in sorted({*a, *b})
            if a.get(name) != b.get(name)
        ]
        lines += [[], [(title, "head")]] if lines else [[(title, "head")]]
        if not rows:
            lines.append([("no difference", "dim")])
        for name, x, y in rows:
            lines.append([(f"{sanitize(name, 60)}  ", "")])
            lines.append([(f"    {_text(x)}", "dim"), ("  →  ", "dim"), (_text(y), "accent")])
    return lines


def _flat(value: Any, name: str = "") -> dict[str, object]:
    """Nested data as path -> leaf; a list of plain values is a leaf."""
    if isinstance(value, dict):
        items = [(f"{name}.{key}" if name else str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = [(f"{name}[{_label(item, n)}]", item) for n, item in enumerate(value)]
    else:
        return {name: value}
    flat: dict[str, object] = {}
    for key, item in items:
        flat.update(_flat(item, key))
    return flat


def _label(item: Any, position: int) -> str:
    if isinstance(item, dict):
        for key in ("name", "tensor", "path", "stage"):
            if isinstance(item.get(key), str):
                return item[key]
    return str(position)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return sanitize(str(value), 120)
