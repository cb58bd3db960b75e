"""Nested facts of a file as rows of text, for the command line and the detail pane."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from engine.base.text import human_bytes, sanitize, shape_text
from engine.wire.formats import FIGURE

if TYPE_CHECKING:
    from engine.wire.model import Tensor, TensorQuant

_BYTES = ("size", "weights", "internal", "copies")
"""Facts that are counts of bytes."""

_BYTE_GROUPS = ("sections", "section_bytes")
"""Groups of facts that all are."""


def port_text(port: Tensor) -> str:
    """What a vendor's file says of an input or output beyond its sizes; empty where nothing."""
    from engine.wire.model import Port

    if not isinstance(port, Port):
        return ""
    run = " ".join(text for text in (port.runtime_dtype, port.runtime_layout) if text)
    parts = [
        port.layout,
        f"at run time {run}" if run else "",
        f"mean {_text(port.mean)}" if port.mean else "",
        f"std {_text(port.std)}" if port.std else "",
        quant_text(port.quant) if port.quant else "",
    ]
    return sanitize(" · ".join(part for part in parts if part), 400)


def quant_text(quant: TensorQuant) -> str:
    """The parameters of a quantized tensor in a line; a scale may be no number."""
    scales = [math.nan if scale is None else scale for scale in quant.scale]
    if len(scales) == 1:
        zero = quant.zero_point[0] if quant.zero_point else 0
        return f"{quant.dtype} scale {scales[0]:g} zero {zero}"
    if not scales:
        return quant.dtype
    return (
        f"{quant.dtype} {len(scales)} scales {FIGURE.text(min(scales))}..{FIGURE.text(max(scales))}"
    )


def fact_rows(facts: Mapping[str, object], depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """(depth, name, text) of each fact; a group has no text and its facts follow, one deeper.

    What is empty is left out, and a single set of shapes, which the inputs and outputs are.
    """
    for name, value in facts.items():
        title = sanitize(str(name).replace("_", " "), 100)
        single = name == "shape_sets" and isinstance(value, list) and len(value) == 1
        if value in (None, "", [], {}) or single:
            continue
        if name in _BYTES and isinstance(value, int):
            yield depth, title, human_bytes(value)
        elif name in _BYTE_GROUPS and isinstance(value, Mapping | list):
            yield depth, title, ""
            pairs = value.items() if isinstance(value, Mapping) else value
            yield from ((depth + 1, sanitize(str(n), 100), human_bytes(b)) for n, b in pairs)
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
                    yield depth + 1, sanitize(str(first), 100), _text(rest)
        else:
            yield depth, title, _text(value)


def _line(item: Mapping[str, object]) -> str:
    parts = []
    for name, value in item.items():
        if value in (None, "", [], {}):
            continue
        parts.append(
            _text(value) if name in ("name", "shape", "dtype") else f"{name} {_text(value)}"
        )
    return "; ".join(parts)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        whole = all(isinstance(item, int) and not isinstance(item, bool) for item in value)
        if whole and len(value) > 1:
            return shape_text(value)
        return ", ".join(_line(i) if isinstance(i, Mapping) else _text(i) for i in value)
    return sanitize(str(value), 400)
