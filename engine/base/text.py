"""Text from outside, made safe and short for a screen."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]*)")
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Zl", "Zp"})
_PLAIN = {"\t": " ", "\n": " ", "\r": " "}


def sanitize(text: str, limit: int = 500) -> str:
    """``text`` without control, format and bidirectional characters, cut to ``limit`` characters.

    Line breaks and tabs become blanks, a byte of a file name that is no UTF-8 a replacement
    character; a cut is marked by an ellipsis.
    """
    cut = text[: limit + 1]
    if not cut.isascii() or not cut.isprintable():
        cut = "".join(
            _PLAIN.get(c) or ("\ufffd" if "\ud800" <= c <= "\udfff" else c)
            for c in cut
            if c in _PLAIN or unicodedata.category(c) not in _HIDDEN
        )
    return cut if len(text) <= limit else cut[: limit - 1] + "…"


def quantity(text: str, units: Mapping[str, float]) -> float | None:
    """A number with its unit (``20ms``) in the unit that is 1; None for a text that is neither.

    Args:
        text: of a user.
        units: name in small letters -> factor; the empty name for a number alone.
    """
    match = _QUANTITY.fullmatch(text.strip())
    factor = None if match is None else units.get(match[2].lower())
    return None if match is None or factor is None else float(match[1]) * factor


def visible(text: str) -> str:
    """``text`` without what :func:`sanitize` takes out, of any length; line breaks and tabs stay.

    For text that is used and not only shown, such as what the interface restores.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in text if c in _PLAIN or unicodedata.category(c) not in _HIDDEN)


def escaped(text: str) -> str:
    """JSON text in which every control, format or separator character of a string is an escape
    (``\\u202e``), as are halves of surrogate pairs, which UTF-8 does not have. Nothing is lost.

    Line feeds stay: JSON has them between values only.
    """
    if text.isascii() and "\x7f" not in text:  # below 0x20 JSON writes escapes by itself
        return text
    return "".join(_escape(c) if c in _ESCAPED_ASCII or not c.isascii() else c for c in text)


_ESCAPED_ASCII = "\x7f"
_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _escape(character: str) -> str:
    if unicodedata.category(character) not in _ESCAPED:
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def did_you_mean(word: str, candidates: Iterable[str], count: int = 3) -> str:
    """A sentence with the nearest candidates, or an empty string."""
    import difflib  # only where something was misspelled: 2 ms of every start otherwise

    near = difflib.get_close_matches(word, list(candidates), n=count, cutoff=0.5)
    return f"Did you mean {' or '.join(repr(sanitize(n, 80)) for n in near)}?" if near else ""


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with aligned columns; all have as many cells."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def some_of(texts: Sequence[str], most: int) -> str:
    """The first of some texts, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def human_bytes(count: int | float) -> str:
    """Bytes in KiB and MiB as the vendor's reports print them."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def shape_text(shape: Iterable[int]) -> str:
    """``1x3x240x320``; ``?`` for an unknown dimension, ``scalar`` for rank 0."""
    return "x".join("?" if d < 0 else str(d) for d in shape) or "scalar"


def not_finite(count: int) -> str:
    """``1 value is NaN or infinite``."""
    return f"{count:,} value{' is' if count == 1 else 's are'} NaN or infinite"
