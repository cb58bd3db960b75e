"""A small picture in half blocks: two pixels a cell, in whatever colours the terminal has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.color import Color
from rich.style import Style
from rich.text import Text
from textual.widget import Widget

_RAMP = " .:-=+*#%@"
_Pixel = tuple[int, int, int]


def _pixels(row: str) -> list[_Pixel]:
    """The pixels of a row of joined ``rrggbb``; what is not hexadecimal is black."""
    try:
        data = bytes.fromhex(row[: len(row) // 6 * 6])
    except ValueError:
        data = bytes(len(row) // 2)
    return [(data[i], data[i + 1], data[i + 2]) for i in range(0, len(data) - 2, 3)]


def _half_block(top: _Pixel, bottom: _Pixel) -> tuple[str, Style]:
    """An upper half block: foreground the upper pixel, background the lower."""
    return "▀", Style(color=Color.from_rgb(*top), bgcolor=Color.from_rgb(*bottom))


def _shade(top: _Pixel, bottom: _Pixel) -> tuple[str, str]:
    """A character from dark to light: needs no colours."""
    return _RAMP[min(9, (sum(top) + sum(bottom)) * 10 // (6 * 256))], ""


class Thumbnail(Widget):
    """Shows rows of joined ``rrggbb``; characters instead of colours where the user wants none.

    Attributes:
        rows: that are shown.
    """

    DEFAULT_CSS = """
    Thumbnail { width: 1fr; height: 1fr; content-align: center middle; }
    """

    rows: tuple[str, ...] = ()
    _said = ""

    @property
    def room(self) -> tuple[int, int]:
        """Pixels that fit: (columns, rows)."""
        return max(1, self.size.width), max(2, self.size.height * 2)

    def show(self, rows: Sequence[str], said: str = "") -> None:
        """Show a picture; ``said`` is written where there is none."""
        self.rows, self._said = tuple(rows), said
        self.refresh()

    @property
    def plain(self) -> bool:
        """Whether it is made of characters: there are no colours, or too few, or the user's own."""
        app = self.app
        return app.no_color or app.native_ansi_color or app.console.color_system == "standard"

    def render(self) -> Text:
        """The picture, two of its rows a line."""
        if not self.rows:
            return Text(self._said, no_wrap=True)
        cell = _shade if self.plain else _half_block
        text = Text(no_wrap=True, overflow="crop")
        pixels = [_pixels(row) for row in self.rows]
        for at in range(0, len(pixels), 2):
            pairs = zip(pixels[at], (pixels[at + 1 :] or pixels[at:])[0], strict=False)
            for (top, bottom), run in groupby(pairs):  # fewer colour changes, less traffic
                block, style = cell(top, bottom)
                text.append(block * sum(1 for _ in run), style)
            text.append("\n" if at < len(pixels) - 2 else "")
        return text
