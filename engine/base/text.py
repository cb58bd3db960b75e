"""Text from outside, made safe and short for a screen."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

__all__ = ["did_you_mean", "human_bytes", "printable", "shape_text"]

_HIDDEN = frozenset({"Cc", "Cf", "Co", "Zl", "Zp"})
_PLAIN = {"\t": " ", "\n": " ", "\r": " "}


def printable(text: str, limit: int = 500) -> str:
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


def did_you_mean(word: str, candidates: Iterable[str], count: int = 3) -> str:
    """A sentence with the nearest candidates, or an empty string."""
    import difflib  # only where something was misspelled: 2 ms of every start otherwise

    near = difflib.get_close_matches(word, list(candidates), n=count, cutoff=0.5)
    return f"Did you mean {' or '.join(repr(printable(n, 80)) for n in near)}?" if near else ""


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
