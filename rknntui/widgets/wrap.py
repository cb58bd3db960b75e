"""Wrapping texts and findings by terminal cells, of which a Chinese character takes two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.cells import cell_len

from engine import sanitize
from rknntui.keys.actions import key_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine import Finding
    from rknntui.widgets.strips import Line

SIGNS = {"error": ("✗", "bad"), "warning": ("!", "warn"), "info": ("i", "dim")}
"""Severity -> sign and style, the gravest first."""
_LEAST = 8
"""Cells of a row at least, however narrow the place is."""
_WORDS = re.compile(r"\s+|\S+")
_CLOSING = frozenset("、。，．；：？！」』）】》”’")  # noqa: RUF001
"""Marks that do not begin a row."""


def wrap(text: str, width: int, hang: str = "") -> list[str]:
    """A text as rows of at most ``width`` cells; no character but blanks at the breaks is lost.

    Rows break at blanks, beside characters of two cells, and within a word that is longer than a
    row: there behind a ``/`` where one is near the end, as in a path.

    Args:
        text: one paragraph; line breaks and tabs count as blanks.
        width: cells of a row.
        hang: what all rows but the first begin with.
    """
    width = max(_LEAST + len(hang), width)
    rows: list[str] = []
    row, filled = "", 0
    for piece in _pieces(text):
        blank = piece.isspace()
        size = cell_len(piece)
        if filled + size > width and not blank:
            longer = size > width - len(hang) and width - filled > _LEAST
            if row.strip() and not longer:
                rows.append(row.rstrip())
                row, filled = hang, len(hang)
            while filled + size > width:
                head = _head(piece, width - filled)
                rows.append(row + head)
                piece, row = piece[len(head) :], hang  # noqa: PLW2901 - the rest of the word
                filled, size = len(hang), cell_len(piece)
        if blank and rows and not row.strip():
            continue
        row += piece
        filled += size
    return [*rows, row.rstrip()] if row.strip() else rows


def wrap_line(line: Line, width: int) -> list[Line]:
    """A styled line as lines of at most ``width`` cells; what goes on is indented deeper."""
    text = "".join(part for part, _ in line)
    if cell_len(text) <= width:
        return [line]
    indent = len(text) - len(text.lstrip())
    hang = " " * (min(indent, width // 2) + 2)
    styles = [style for part, style in line for _ in part]
    lines: list[Line] = []
    at = 0
    for number, row in enumerate(wrap(text, width, hang)):
        own = row if number == 0 else row[len(hang) :]
        at = text.index(own, at)
        parts: Line = [(hang, "")] if number else []
        for character, style in zip(own, styles[at : at + len(own)], strict=True):
            if parts and parts[-1][1] == style:
                parts[-1] = (parts[-1][0] + character, style)
            else:
                parts.append((character, style))
        at += len(own)
        lines.append(parts)
    return lines


def _pieces(text: str) -> Iterator[str]:
    """Blanks, words, and characters of two cells one by one, with the marks that close them."""
    for word in _WORDS.findall(re.sub(r"[\t\n\r\v\f]", " ", text)):
        if word.isspace() or cell_len(word) == len(word):
            yield word
            continue
        piece = ""
        for character in word:
            narrow = cell_len(character) < 2
            if piece and character not in _CLOSING and not (narrow and cell_len(piece[-1]) < 2):
                yield piece
                piece = ""
            piece += character
        yield piece


def _head(word: str, room: int) -> str:
    """As much of a word as fits, at least a character."""
    size = 0
    for at, character in enumerate(word):
        size += cell_len(character)
        if size > room:
            slash = word.rfind("/", room // 2, at) + 1
            return word[: slash or max(1, at)]
    return word


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
