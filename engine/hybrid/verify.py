"""Verifies that a build has the dtypes and ranges that were requested, read from the build
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.graph.ir import QuantParams
from engine.quantize import Quantized
from engine.quantize import applied_dtypes as dtypes_of
from engine.wire.hybrid import RequestCheck

__all__ = ["not_applied", "verify_requests"]

# The ends of a range move by up to half a step each, so that 0 is one of the integers.
_ROUNDING = 1.01 / 127


def verify_requests(
    quantized: Quantized,
    layers: Mapping[str, str],
    ranges: Mapping[str, tuple[float, float]] | None = None,
    lines: Mapping[tuple[str, str], int] | None = None,
) -> tuple[RequestCheck, ...]:
    """Compare every request with the build.

    Args:
        quantized: the build.
        layers: layer -> dtype that was asked for.
        ranges: tensor -> (minimum, maximum) that was asked for.
        lines: (layer, ``dtype``) or (tensor, ``range``) -> line of the file.
    """
    at = lines or {}
    rows = []
    for name, got in dtypes_of(layers, quantized).items():
        asked = layers[name]
        why = "" if got == asked else f"The build stores {sanitize(name, 120)!r} as {got}."
        line = at.get((name, "dtype"), 0)
        rows.append(RequestCheck(name, "dtype", asked, got, got == asked, why, line))
    for tensor, span in (ranges or {}).items():
        name, line = quantized.layers.id_of(tensor), at.get((tensor, "range"), 0)
        rows.append(_range(name, quantized.table.get(tensor), span, line))
    return tuple(rows)


def _range(
    name: str, params: QuantParams | None, asked: tuple[float, float], line: int
) -> RequestCheck:
    text = f"{asked[0]:.6g} to {asked[1]:.6g}"
    if params is None or params.is_float or not params.minimum or not params.maximum:
        got = "float32" if params is None else params.dtype
        why = "The tensor is not stored in integers, so it has no range."
        return RequestCheck(name, "range", text, got, False, why, line)
    low, high = params.minimum[0], params.maximum[0]
    room = (asked[1] - asked[0]) * _ROUNDING
    if params.narrow:  # its scale is a power of two: the next one that holds what was asked
        ok = low <= asked[0] + room and high >= asked[1] - room
    else:
        ok = abs(low - asked[0]) <= room and abs(high - asked[1]) <= room
    why = "" if ok else "It shares its scale with a tensor that it is joined with or copied from."
    return RequestCheck(name, "range", text, f"{low:.6g} to {high:.6g}", ok, why, line)


def not_applied(rows: Iterable[RequestCheck]) -> tuple[Finding, ...]:
    """A warning for every request that the build does not have."""
    return tuple(
        Finding(
            "hybrid-not-honoured",
            "warning",
            f"line {row.line}" if row.line else sanitize(row.layer, 120),
            f"{sanitize(row.layer, 120)!r} was requested as {row.kind} {row.asked}, but is "
            f"{row.got}.",
            cause=row.why,
            remedy="Promote the neighbouring layers too, or remove the entry.",
        )
        for row in rows
        if not row.ok
    )
