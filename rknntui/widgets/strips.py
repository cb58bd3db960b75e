"""Strips of styled text: colours come from the theme, and no markup is parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from engine import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 20_000
"""Characters of one text of a line that are painted."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"

_SEEN_ON_BLANKS = ("cursor", "mark", "tab")
"""Styles with a background or a line."""

Line = list[tuple[str, str]]
"""One line on the screen: (text, name of a style of :class:`Painted`, or empty for plain)."""


def cells(line: Line) -> int:
    """Width of a line in terminal cells."""
    return sum(cell_len(text) for text, _ in line)


def fit(text: str, width: int) -> str:
    """``text`` in exactly ``width`` cells.

    Padded, or cut in the middle where names differ least: a beginning and an end stay.
    """
    length = cell_len(text)
    if length <= width:
        return text + " " * (width - length)
    if width < 8:
        cut = f"{_cut(text, width - 1)}…" if width > 0 else ""
    else:
        head = _cut(text, (width - 1) // 2)
        cut = f"{head}…{_cut(text[::-1], width - 1 - cell_len(head))[::-1]}"
    return cut + " " * (width - cell_len(cut))


def _cut(text: str, width: int) -> str:
    """The first characters that ``width`` cells hold."""
    size = 0
    for at, character in enumerate(text):
        size += cell_len(character)
        if size > width:
            return text[:at]
    return text


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, cut as :func:`fit` does."""
    return text if cell_len(text) <= width else fit(text, width).rstrip()


class Painted(Widget):
    """A widget that paints lines of named styles."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "paint--dim",
        "paint--key",
        "paint--accent",
        "paint--good",
        "paint--warn",
        "paint--bad",
        "paint--head",
        "paint--cursor",
        "paint--mark",
        "paint--tab",
    }

    DEFAULT_CSS = """
    Painted {
        & > .paint--dim { color: $text-muted; }
        & > .paint--key { color: $primary; text-style: bold; }
        & > .paint--accent { color: $accent; }
        & > .paint--good { color: $success; }
        & > .paint--warn { color: $warning; }
        & > .paint--bad { color: $error; text-style: bold; }
        & > .paint--head { text-style: bold; }
        & > .paint--mark { text-style: underline; }
        & > .paint--tab { background: $primary; color: $background; text-style: bold; }
        &:ansi > .paint--tab { background: ansi_blue; color: ansi_bright_white; }
        & > .paint--cursor { background: $panel; }
        &:focus > .paint--cursor { background: $primary; color: $background; text-style: bold; }
        &:ansi > .paint--cursor { text-style: bold; }
        &:ansi:focus > .paint--cursor { background: ansi_blue; color: ansi_bright_white; }
    }
    """

    def paint(self, line: Iterable[tuple[str, str]], width: int) -> Strip:
        """The strip of a line, cut or padded to ``width`` cells.

        Nothing in it can steer the terminal, wherever the text is from. Neighbours of one style
        are one segment, and blanks need no colour: each costs about 40 bytes on the line.
        """
        base = self.rich_style
        segments = [
            Segment(
                sanitize(text, LONGEST),
                base + self.get_component_rich_style(f"paint--{name}", partial=True)
                if name and (name in _SEEN_ON_BLANKS or text.strip())
                else base,
            )
            for text, name in line
        ]
        return Strip(segments).crop_extend(0, width, base).simplify()

    def style_strip(self, strip: Strip, name: str) -> Strip:
        """The strip with a named style over all of it; the style's colours win."""
        style = self.get_component_rich_style(f"paint--{name}", partial=True)
        return Strip(
            [Segment(s.text, s.style + style if s.style else style) for s in strip],
            strip.cell_length,
        )


def bar(share: float, width: int) -> str:
    """A bar of eighths of a cell; what is above 0 can be seen."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    eighths = max(eighths, 1) if share > 0 else 0
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)
