"""The colours of terminals that have 256 of them: the nearest to the eye, not to a formula.

Rich takes a colour with a trace of hue for a corner of the palette's cube, whose darkest corners
are black and teal: dark panels would disappear or turn green.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING

from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter

if TYPE_CHECKING:
    from textual.color import Color as Background

Triplet = tuple[int, int, int]

_LEVELS = (0, 95, 135, 175, 215, 255)
"""Of each channel in the cube of colours 16 to 231."""


def xterm_colour(number: int) -> Triplet:
    """Red, green and blue, 0 to 255, of one of the colours 16 to 255, which no user changes."""
    if number >= 232:
        return (8 + 10 * (number - 232),) * 3
    red, rest = divmod(number - 16, 36)
    green, blue = divmod(rest, 6)
    return _LEVELS[red], _LEVELS[green], _LEVELS[blue]


@lru_cache(maxsize=1 << 16)
def nearest(colour: Triplet) -> int:
    """The number of the colour, 16 to 255, that looks most like one of red, green and blue."""
    lab = _oklab(colour)
    near = [_near(channel) for channel in colour]
    cube = [16 + 36 * r + 6 * g + b for r, g, b in product(*near)]
    gray = 232 + max(0, min(23, round((sum(colour) / 3 - 8) / 10)))
    grays = range(max(232, gray - 2), min(255, gray + 2) + 1)
    return min((*cube, *grays), key=lambda number: _distance(lab, _of_number(number)))


def _near(channel: int) -> tuple[int, int]:
    """The two levels of the cube around a channel."""
    above = next((at for at, level in enumerate(_LEVELS) if level >= channel), 5)
    return max(0, above - 1), above


def _distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


@cache
def _of_number(number: int) -> tuple[float, ...]:
    return _oklab(xterm_colour(number))


def _oklab(colour: Triplet) -> tuple[float, ...]:
    """Lightness and two axes of hue, in which equal distances look alike (Ottosson 2020)."""
    r, g, b = (
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (channel / 255 for channel in colour)
    )
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


class XtermPalette(LineFilter):
    """Gives every colour of a line as a number of the palette of 256."""

    def apply(self, segments: list[Segment], background: Background) -> list[Segment]:
        """The segments, with colours that the terminal has."""
        return [
            segment
            if segment.style is None
            else Segment(segment.text, _mapped(segment.style), segment.control)
            for segment in segments
        ]


@lru_cache(maxsize=1 << 14)
def _mapped(style: Style) -> Style:
    fore, back = _number(style.color), _number(style.bgcolor)
    if fore is None and back is None:
        return style
    return style + Style(color=fore, bgcolor=back)


def _number(colour: Color | None) -> Color | None:
    if colour is None or colour.type != ColorType.TRUECOLOR or colour.triplet is None:
        return None
    return Color.from_ansi(nearest(tuple(colour.triplet)))
