"""What is on the terminal already: of each paint only the cells that are others are sent.

A change of the workspace lays out and draws several times until every pane has its answer. Over a
slow line each row would be sent every time; most of them say the same again.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.cells import get_character_cell_size
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from textual.geometry import Size

Cell = tuple[str, Style | None]
"""A character with its style; an empty one is the right half of the character before it."""

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
        """The escape sequences and texts."""
        return "".join(
            Control.move_to(x, y).segment.text + Strip(_segments(cells)).render(console)
            for x, y, cells in self.runs
        )


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
            cells += [(character, style) for character in text]
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


def _segments(cells: list[Cell]) -> list[Segment]:
    return [
        Segment("".join(text for text, _ in run), style)
        for style, run in groupby(cells, key=lambda cell: cell[1])
    ]
