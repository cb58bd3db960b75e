"""Findings as wrapped lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine import Finding, sanitize
from rknntui.keys.actions import key_text
from rknntui.widgets.strips import Line
from rknntui.widgets.wrap import wrap

SIGNS = {"error": ("✗", "bad"), "warning": ("!", "warn"), "info": ("i", "dim")}
"""Severity -> sign and style, the gravest first."""


def wrapped(text: str, width: int, style: str, indent: str = "") -> list[Line]:
    """A text as lines of one style."""
    return [[(indent + row, style)] for row in wrap(text, max(10, width - len(indent)))]


def told(texts: str | Iterable[str], width: int, style: str = "dim") -> list[Line]:
    """Texts from outside as lines of one style."""
    rows = [texts] if isinstance(texts, str) else texts
    return [line for text in rows for line in wrapped(sanitize(text, 2000), width, style)]


def error_text(error: object) -> str:
    """What happened, its cause and its remedy: of an error, or as a job has it."""
    told = error if isinstance(error, Mapping) else vars(error)
    parts = [told.get("what") or str(error), told.get("cause"), told.get("remedy")]
    return sanitize(" ".join(str(part) for part in parts if part), 1000)


def finding_lines(findings: Iterable[Finding], width: int, applies: str) -> list[Line]:
    """Findings with cause and remedy, wrapped; the sign says how serious they are.

    Args:
        findings: in their order.
        width: cells.
        applies: id of the action that applies a remedy.
    """
    lines: list[Line] = []
    for finding in findings:
        sign, style = SIGNS[finding.severity]
        where = sanitize(finding.where, 60)
        what = f"{where}: {sanitize(finding.what)}" if where else finding.what
        rows = wrap(what, max(10, width - 2))
        lines += [
            [(f"{sign} " if i == 0 else "  ", style), (row, "")] for i, row in enumerate(rows)
        ]
        if finding.cause:
            lines += wrapped(f"Cause: {sanitize(finding.cause)}", width, "dim", "  ")
        if finding.remedy:
            key = f" ({key_text(applies)} applies it)" if finding.changes else ""
            remedy = f"Fix: {sanitize(finding.remedy)}{key}"
            lines += wrapped(remedy, width, "dim", "  ")
    return lines
