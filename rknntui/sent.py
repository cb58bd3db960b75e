"""What is on the terminal already: of each paint only the cells that are others are sent.

A change of the workspace lays out and draws several times until every pane has its answer. Over a
slow line each row would be sent every time; most of them say the same again.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from rich.cells import get_character_cell_size
from rich.control import Control
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.color import ColorSystem
    from rich.console import Console
    from textual.geometry import Size

Cell = tuple[str, Style | None]
"""A character with its style; an empty one is the right half of the character before it."""
Look = tuple[str, str, str]
"""What the terminal paints with, as codes of SGR: attributes, foreground, background."""
_RESET: Look = ("", "39", "49")
_SEEN_ON_BLANKS = frozenset(("4", "7", "9", "21", "51", "52", "53"))
"""Codes of attributes that show where there is no character."""
_STYLE = itemgetter(1)
"""Of a cell."""

_GAP = 10
"""So many equal cells cost less again than another move of the cursor."""


class Changes(CompositorUpdate):
    """Runs of cells to send: (column, row, cells)."""

    def __init__(self, runs: list[tuple[int, int, list[Cell]]]) -> None:
        self.runs = runs

    @property
    def cells(self) -> int:
        """How many cells are sent."""
        return sum(len(cells) for _, _, cells in self.runs)

    def render_segments(self, console: Console) -> str:
        """The escape sequences and texts: of a look only what differs from the one before."""
        system, now, sent = console._color_system, _RESET, []
        here = (-1, -1)
        for x, y, cells in self.runs:
            if here != (x, y):
                sent.append(Control.move_to(x, y).segment.text)
            here = (x + len(cells), y)
            for style, run in groupby(cells, _STYLE):
                text = "".join([character for character, _ in run])
                look = _RESET if system is None else _look(style, system)
                if not (look[0] or _shows(now[0])) and text.isspace():
                    look = (now[0], now[1], look[2])
                if look != now:
                    sent.append(_codes(now, look))
                    now = look
                sent.append(text)
        return "".join([*sent, _codes(now, _RESET)])


@lru_cache(4096)
def _look(style: Style | None, system: ColorSystem) -> Look:
    if style is None:
        return _RESET
    plain = style.without_color.render(" ", color_system=system)
    fore, back = style.color, style.bgcolor
    return (
        plain[2 : plain.index("m")] if plain != " " else "",
        ";".join(fore.downgrade(system).get_ansi_codes()) if fore else _RESET[1],
        ";".join(back.downgrade(system).get_ansi_codes(foreground=False)) if back else _RESET[2],
    )


@lru_cache(64)
def _shows(attributes: str) -> bool:
    """Whether one of them is seen where there is no character."""
    return not _SEEN_ON_BLANKS.isdisjoint(attributes.split(";"))


@lru_cache(4096)
def _codes(now: Look, look: Look) -> str:
    """The sequence from one look to another; attributes are taken back by a reset alone."""
    codes: list[str] = []
    if look[0] != now[0]:
        codes, now = ["0", *filter(None, look[:1])], _RESET
    codes += [code for code, old in zip(look[1:], now[1:], strict=True) if code != old]
    return f"\x1b[{';'.join(codes)}m" if codes else ""


class Sent:
    """The cells that the terminal shows, as far as they were sent since the last :meth:`forget`.

    Attributes:
        count: cells that were sent.
        spared: cells that were drawn and not sent, since they were there already.
    """

    def __init__(self) -> None:
        self._size: Size | None = None
        self._rows: list[list[Cell | None]] = []
        self.count = 0
        self.spared = 0

    def forget(self, _: object = None) -> None:
        """Send everything again: another program had the terminal, or its size is another one."""
        self._size = None

    def changes(self, update: CompositorUpdate, size: Size) -> CompositorUpdate:
        """What of an update is to be sent; an update of another kind is left as it is."""
        if isinstance(update, LayoutUpdate):
            pieces = _of_layout(update)
        elif isinstance(update, ChopsUpdate):
            pieces = _of_chops(update)
        else:
            self.forget()
            return update
        if size != self._size:
            self._size = size
            self._rows = [[None] * size.width for _ in range(size.height)]
        runs: list[tuple[int, int, list[Cell]]] = []
        for x, y, strip in pieces:
            if y < size.height:
                self._compare(x, y, _cells(strip)[: max(0, size.width - x)], runs)
        return Changes(runs)

    def _compare(
        self, x: int, y: int, new: list[Cell], runs: list[tuple[int, int, list[Cell]]]
    ) -> None:
        row, end = self._rows[y], x + len(new)
        old = row[x:end]
        if old == new:
            self.spared += len(new)
            return
        row[x:end] = new
        other = [index for index, cell in enumerate(new) if cell != old[index]]
        begun = last = other[0]
        for index in [*other[1:], len(new) + _GAP + 1]:
            if index - last > _GAP:
                stop = last + 1
                while stop < len(new) and not new[stop][0]:  # a character is sent with both halves
                    stop += 1
                runs.append((x + begun, y, new[begun:stop]))
                self.count += stop - begun
                begun = index
            last = index
        self.spared += len(new) - len(other)


def _of_layout(update: LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, strips in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in strips:
            yield x, y, strip
            x += strip.cell_length


def _of_chops(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, x1, x2 in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= x2 and end > x1:
                yield x, y, strip.crop(0, min(end, x2) - x)


def _cells(strip: Strip) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, control in strip:
        if control:
            continue
        if text.isascii():
            shown = _blank(style) if text.isspace() else style
            cells += [(one, shown) for one in text]
            continue
        for character in text:
            size = get_character_cell_size(character)
            if size == 0 and cells:  # it belongs to the one before
                at = len(cells) - 1 - (not cells[-1][0])
                cells[at] = (cells[at][0] + character, cells[at][1])
            elif size:
                cells.append((character, style))
                cells += [("", style)] * (size - 1)
    return cells


@lru_cache(4096)
def _blank(style: Style | None) -> Style | None:
    """What is seen of a style where there is no character."""
    if style is None or style.underline or style.underline2 or style.reverse or style.strike:
        return style
    return Style(bgcolor=style.bgcolor)
