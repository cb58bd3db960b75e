"""A small picture in half blocks: two pixels a cell, in whatever colours the terminal has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

_RAMP = " .:-=+*#%@"


def _pixels(row: str) -> list[tuple[int, int, int]]:
    """The pixels of a row of joined ``rrggbb``; what is not hexadecimal is black."""
    try:
        data = bytes.fromhex(row[: len(row) // 6 * 6])
    except ValueError:
        data = bytes(len(row) // 2)
    return [(data[i], data[i + 1], data[i + 2]) for i in range(0, len(data) - 2, 3)]


def half_blocks(rows: Sequence[str]) -> list[list[Segment]]:
    """Lines of cells with an upper half block: foreground the upper pixel, background the lower.

    Args:
        rows: each of joined ``rrggbb``, all of one length.
    """
    lines = []
    for at in range(0, len(rows), 2):
        upper = _pixels(rows[at])
        lower = _pixels(rows[at + 1]) if at + 1 < len(rows) else upper
        runs = groupby(zip(upper, lower, strict=False))  # fewer colour changes, less traffic
        line = [
            Segment(
                "▀" * sum(1 for _ in run),
                Style(color=Color.from_rgb(*top), bgcolor=Color.from_rgb(*bottom)),
            )
            for (top, bottom), run in runs
        ]
        lines.append(line)
    return lines


def shades(rows: Sequence[str], style: Style) -> list[list[Segment]]:
    """Lines of characters from dark to light, a cell for two pixels: needs no colours."""
    lines = []
    for at in range(0, len(rows), 2):
        upper = _pixels(rows[at])
        lower = _pixels(rows[at + 1]) if at + 1 < len(rows) else upper
        text = "".join(
            _RAMP[min(9, (sum(top) + sum(bottom)) * 10 // (6 * 256))]
            for top, bottom in zip(upper, lower, strict=False)
        )
        lines.append([Segment(text, style)])
    return lines


class Thumbnail(Widget):
    """Shows rows of joined ``rrggbb``; characters instead of colours where the user wants none."""

    DEFAULT_CSS = """
    Thumbnail { width: 1fr; height: 1fr; content-align: center middle; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._lines: list[Strip] = []
        self._drawn_as: tuple[bool, Style] | None = None
        self._rows: tuple[str, ...] = ()
        self._said = ""

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows that are shown."""
        return self._rows

    @property
    def room(self) -> tuple[int, int]:
        """Pixels that fit: (columns, rows)."""
        return max(1, self.size.width), max(2, self.size.height * 2)

    def show(self, rows: Sequence[str], said: str = "") -> None:
        """Show a picture; ``said`` is written where there is none."""
        self._rows, self._said = tuple(rows), said
        self._drawn_as = None
        self.refresh()

    @property
    def plain(self) -> bool:
        """Whether it is made of characters: there are no colours, or too few, or the user's own."""
        app = self.app
        return app.no_color or app.native_ansi_color or app.console.color_system == "standard"

    def _draw(self) -> None:
        """Make the lines; anew where the theme is another one since."""
        form = (self.plain, self.rich_style)
        if form != self._drawn_as:
            self._drawn_as = form
            plain, style = form
            lines = shades(self._rows, style) if plain else half_blocks(self._rows)
            self._lines = [Strip(line) for line in lines]

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """As wide as its pixels."""
        return len(self._rows[0]) // 6 if self._rows else container.width

    def render_line(self, y: int) -> Strip:
        """A line of the picture, in the middle."""
        width, height = self.size
        blank = Strip.blank(width, self.rich_style)
        self._draw()
        if not self._lines:
            if y != height // 2 or not self._said:
                return blank
            text = self._said[:width].center(width)
            return Strip([Segment(text, self.rich_style)], width)
        index = y - max(0, (height - len(self._lines)) // 2)
        if not 0 <= index < len(self._lines):
            return blank
        line = self._lines[index]
        left = max(0, (width - line.cell_length) // 2)
        return Strip.join([Strip.blank(left, self.rich_style), line]).adjust_cell_length(
            width, self.rich_style
        )
