"""Nested facts of a file as rows of text, for the command line and the detail pane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine import human_bytes, printable, shape_text

__all__ = ["fact_rows", "port_text", "quant_text"]

_BYTES = ("size", "weights", "internal", "copies")
"""Facts that are counts of bytes."""

_BYTE_GROUPS = ("sections", "section_bytes")
"""Groups of facts that all are."""


def port_text(port: Mapping[str, Any]) -> str:
    """What a vendor's file says of an input or output beyond its sizes; empty where nothing."""
    run = " ".join(
        str(port[name]) for name in ("runtime_dtype", "runtime_layout") if port.get(name)
    )
    parts = [
        str(port.get("layout") or ""),
        f"at run time {run}" if run else "",
        *(f"{name} {_text(port[name])}" for name in ("mean", "std") if port.get(name)),
        quant_text(port["quant"]) if port.get("quant") else "",
    ]
    return printable(" · ".join(part for part in parts if part), 400)


def quant_text(quant: Mapping[str, Any]) -> str:
    """The parameters of a quantized tensor in a line."""
    scale, zero = quant["scale"], quant["zero_point"]
    if len(scale) == 1:
        return f"{quant['dtype']} scale {scale[0]:.6g} zero {zero[0] if zero else 0}"
    if not scale:
        return str(quant["dtype"])
    return f"{quant['dtype']} {len(scale)} scales {min(scale):.4g}..{max(scale):.4g}"


def fact_rows(facts: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """(depth, name, text) of each fact; a group has no text and its facts follow, one deeper.

    What is empty is left out, and a single set of shapes, which the inputs and outputs are.
    """
    for name, value in facts.items():
        title = printable(str(name).replace("_", " "), 100)
        if value in (None, "", [], {}) or (name == "shape_sets" and len(value) == 1):
            continue
        if name in _BYTES and isinstance(value, int):
            yield depth, title, human_bytes(value)
        elif name in _BYTE_GROUPS:
            yield depth, title, ""
            pairs = value.items() if isinstance(value, Mapping) else value
            yield from ((depth + 1, printable(str(n), 100), human_bytes(b)) for n, b in pairs)
        elif isinstance(value, Mapping):
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
