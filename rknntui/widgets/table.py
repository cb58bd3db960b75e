"""A table that sorts, filters and gives its data away, of any length."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.binding import Binding

from engine import sanitize
from rknntui.widgets.line_list import Rows
from rknntui.widgets.strips import Line, cells, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.wire.table import Column

LONGEST_NAME = 200
"""Cells that a column asks for at most, whatever is in it."""
SHOWN = 400
"""Characters of a cell that can be seen; what is copied and written is whole."""


class Table(Rows):
    """Rows of raw values under a head that stays.

    ``s`` sorts by the next column, ``S`` reverses the order. ``row`` is what the owner gave, in
    any order.
    """

    head = 1
    BINDINGS = [
        Binding("s", "sort", "Sort", show=False, tooltip="Sort by the next column."),
        Binding("S", "reverse", "Reverse", show=False, tooltip="Reverse the sort order."),
        Binding("right,l", "shift(8)", "Right", show=False),
        Binding("left,h", "shift(-8)", "Left", show=False),
    ]

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.rows: list[tuple[Any, ...]] = []
        self.filter_text = ""
        self.sort_column: int | None = None
        self.descending = False
        self._order: list[int] = []
        self._needs: list[int] = []

    @property
    def row_count(self) -> int:
        return len(self._order)

    @property
    def row(self) -> int | None:
        """Index, in the rows as given, of the row under the cursor."""
        return self._order[self.cursor] if self._order else None

    def set_rows(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Show other rows.

        Order, filter and, where it still exists, the row under the cursor stay.
        """
        kept = self.row
        self.rows = list(rows)
        self._needs = [self._need(index) for index in range(len(self.columns))]
        self._arrange(kept)

    def set_filter(self, text: str) -> None:
        """Show only rows with every word of ``text`` somewhere in them."""
        self.filter_text = text
        self._arrange(self.row)

    def sort_by(self, column: int | None, *, descending: bool = False) -> None:
        """Order by a column, or as given (None)."""
        self.sort_column, self.descending = column, descending
        self._arrange(self.row)

    def _arrange(self, keep: int | None) -> None:
        words = self.filter_text.lower().split()
        order = [
            index
            for index, row in enumerate(self.rows)
            if not words or all(word in self._searched(index, row) for word in words)
        ]
        if self.sort_column is not None:
            column = self.sort_column
            known = [index for index in order if self.rows[index][column] is not None]
            missing = [index for index in order if self.rows[index][column] is None]
            known.sort(key=lambda index: _key(self.rows[index][column]), reverse=self.descending)
            order = known + missing
        self._order = order
        if keep is not None and keep in order:
            self.set_reactive(Rows.cursor, order.index(keep))
        self.rows_changed()
        self.reveal(self.cursor)

    def _searched(self, index: int, row: tuple[Any, ...]) -> str:
        """What a filter looks through, in lower case."""
        return " ".join(self._texts(row)).lower()

    def _texts(self, row: tuple[Any, ...]) -> list[str]:
        return [c.format.show(value) for c, value in zip(self.columns, row, strict=True)]

    def _need(self, index: int) -> int:
        """Cells that show every value of a column, and its title, whole."""
        column = self.columns[index]
        texts = {column.format.show(row[index])[:LONGEST_NAME] for row in self.rows}
        longest = max((cell_len(text) for text in texts), default=column.cells)
        if column.format.right:  # a figure is never cut
            return max(longest, column.cells)
        title = cell_len(column.title)
        return min(LONGEST_NAME, max(longest, title + bool(title)))  # beside the mark of the order

    def _widths(self, width: int) -> list[int]:
        """Cells of the columns: no more than they need, since figures belong beside names."""
        needs = self._needs or [column.cells for column in self.columns]
        cells_of = [
            need if c.format.right else min(c.cells, need)
            for c, need in zip(self.columns, needs, strict=True)
        ]
        spare = max(0, width - sum(cells_of) - len(cells_of))
        weights = [1 + 2 * c.grow for c in self.columns]
        short = [index for index, need in enumerate(needs) if need > cells_of[index]]
        short.sort(key=lambda index: (needs[index] - cells_of[index]) / weights[index])
        waiting = sum(weights[index] for index in short)
        for index in short:
            extra = min(needs[index] - cells_of[index], spare * weights[index] // waiting)
            cells_of[index] += extra
            spare -= extra
            waiting -= weights[index]
        return cells_of

    def head_line(self, y: int, width: int) -> Line:
        line: Line = []
        for index, (column, cell) in enumerate(zip(self.columns, self._widths(width), strict=True)):
            arrow = ("▼" if self.descending else "▲") if index == self.sort_column else ""
            title = f"{column.title}{arrow}"
            shown = title[:cell].rjust(cell) if column.format.right else fit(title, cell)
            line.append((f"{shown} ", "head"))
        return line

    def row_line(self, index: int, width: int) -> Line:
        line: Line = []
        row = self.rows[self._order[index]]
        for column, value, cell in zip(self.columns, row, self._widths(width), strict=True):
            text = sanitize(column.format.show(value), SHOWN)  # values may be names from files
            spare = cell - cells([(text, "")])
            shown = " " * spare + text if column.format.right and spare >= 0 else fit(text, cell)
            style = column.style(value) if column.style else ""
            line.append((f"{shown} ", style))
        return line

    def action_sort(self) -> None:
        """Sort by the next column that says something; after the last one, as given."""
        first = 0 if self.sort_column is None else self.sort_column + 1
        says = (
            index
            for index in range(first, len(self.columns))
            if any(row[index] not in (None, "", " ") for row in self.rows)
        )
        following = next(says, None)
        falls = bool(following) and self.columns[following or 0].format.right
        self.sort_by(following, descending=falls)

    def action_reverse(self) -> None:
        """Turn the order."""
        self.sort_by(
            self.sort_column if self.sort_column is not None else 0, descending=not self.descending
        )

    def head_clicked(self, x: int) -> None:
        """Sort by the column at ``x``, numbers from the largest; once more turns the order."""
        end = 0
        for index, cell in enumerate(self._widths(max(self._room(), self.row_width))):
            end += cell + 1
            if x < end:
                again = index == self.sort_column
                falls = not self.descending if again else self.columns[index].format.right
                self.sort_by(index, descending=falls)
                return

    def _room(self) -> int:
        """Cells that the columns share."""
        return self.scrollable_content_region.width

    def action_shift(self, by: int) -> None:
        """Scroll sideways where the table is wider than its pane."""
        self.scroll_to(x=self.scroll_offset.x + by, animate=False)

    def row_text(self) -> str:
        """The row under the cursor, values split by tabs."""
        return "" if self.row is None else "\t".join(self._texts(self.rows[self.row]))

    def to_csv(self) -> str:
        """All rows that are shown, in their order, with a head."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow([c.called for c in self.columns])
        writer.writerows([self._texts(self.rows[index]) for index in self._order])
        return out.getvalue()


def _key(value: Any) -> tuple[int, Any]:
    """Numbers before texts; an interval by its ends."""
    if isinstance(value, tuple) and value:
        value = value[0]
    if isinstance(value, int | float):
        return (0, value)
    return (1, str(value).lower())
