"""A table of records of any length: a column per key, sorted, filtered, given away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from rich.cells import cell_len
from textual.binding import Binding

from engine import sanitize
from engine.wire.table import Record, says
from rknntui.widgets.line_list import Rows
from rknntui.widgets.strips import Line, cells, fit
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.strip import Strip
    from typing_extensions import TypeVar  # typing's own has defaults from Python 3.13 on

    from engine.wire.table import Column
    from engine.wire.table import Table as Declared

    R = TypeVar("R", default=Record)
else:
    from typing import TypeVar

    R = TypeVar("R")

LONGEST_NAME = 200
"""Cells that a column asks for at most, whatever is in it."""
SHOWN = 400
"""Characters of a cell that can be seen; what is copied and written is whole."""
_MARK = 2
"""Cells of the sign before a row."""


def _value(record: object, key: str) -> Any:
    return record.get(key) if isinstance(record, Mapping) else getattr(record, key, None)


class RecordTable(Rows, Generic[R]):
    """Records under a head that stays, with what is said where there is none.

    A record is a mapping (:data:`Record`) or a dataclass. ``s`` sorts by the next column, ``S``
    reverses the order.

    Args:
        declared: its columns.
        id: the widget's id.
        what: what it lists, one word for file names.
        empty: what is shown where there is no record.

    Attributes:
        sorted_by: key of the column that the records are sorted by; None for the given order.
    """

    DEFAULT_CSS = """
    RecordTable { height: 1fr; }
    """
    BINDINGS = [
        Binding("s", "sort", "Sort", show=False, tooltip="Sort by the next column."),
        Binding("S", "reverse", "Reverse", show=False, tooltip="Reverse the sort order."),
        Binding("escape", "show_all", "Show all", show=False, tooltip="Drop the filter."),
    ]
    MARKS: ClassVar[tuple[str, str]] = ("▸", " ")
    head = 1

    class Arranged(Rows.OfRow):
        """Order, filter or records changed."""

    def __init__(
        self,
        declared: Declared,
        *,
        id: str,  # noqa: A002 - Textual's own name
        what: str,
        empty: str = "",
    ) -> None:
        super().__init__(id=id)
        self.declared = declared
        self.what = what
        self._empty = empty
        self.columns: tuple[Column, ...] = ()
        self.sorted_by: str | None = None
        self.descending = False
        self.filter_text = ""
        self._records: list[R] = []
        self._order: list[int] = []
        self._needs: list[int] = []
        self._told: R | None = None
        self._choose_columns()

    # -- records ---------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """Number of records before the filter."""
        return len(self._records)

    @property
    def row_count(self) -> int:
        return len(self._order)

    @property
    def row(self) -> int | None:
        """Index, in the records as given, of the one under the cursor."""
        return self._order[self.cursor] if self._order else None

    @property
    def records(self) -> list[R]:
        """The records as shown: filtered and in order."""
        return [self._records[index] for index in self._order]

    @property
    def record(self) -> R | None:
        """The record under the cursor."""
        return None if self.row is None else self._records[self.row]

    def set_records(self, records: Sequence[R], *, keep: str = "") -> None:
        """Show other records, in the order and with the filter of before.

        Args:
            records: a missing value or None is shown as a dash and sorted last.
            keep: the key whose value finds the record that the cursor stays on.
        """
        kept = _value(self.record, keep) if keep else None
        self._records, self._order = list(records), []
        self._choose_columns(again=True)
        self._arrange()
        if kept is not None:
            self.select_record(keep, kept)
        self._tell()

    def set_empty(self, text: str) -> None:
        """Change what is shown where there is no record."""
        if text != self._empty:
            self._empty = text
            self.refresh()

    def select_record(self, key: str, value: object) -> bool:
        """Put the cursor on the first record with that value; lifts a filter that hides it."""
        if self.filter_text and not any(_value(r, key) == value for r in self.records):
            self.set_filter("")
        for index, record in enumerate(self.records):
            if _value(record, key) == value:
                self.cursor = index
                return True
        return False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc is the workspace's where nothing is filtered."""
        return action != "show_all" or bool(self.filter_text)

    def action_show_all(self) -> None:
        """Drop the filter."""
        self.set_filter("")

    def set_filter(self, text: str) -> None:
        """Show only records with every word of ``text`` somewhere in them."""
        self.filter_text = text
        self._arrange()

    def sort_field(self, key: str | None, *, descending: bool = False) -> None:
        """Sort by a column; None restores the given order."""
        self.sorted_by, self.descending = key, descending
        self._arrange()

    def _arrange(self) -> None:
        keep, words = self.row, self.filter_text.lower().split()
        order = [
            index
            for index, record in enumerate(self._records)
            if not words or all(word in self._searched(record) for word in words)
        ]
        if self.sorted_by is not None:
            value = self.declared.column(self.sorted_by).of
            known = [index for index in order if value(self._records[index]) is not None]
            missing = [index for index in order if value(self._records[index]) is None]
            known.sort(key=lambda index: _key(value(self._records[index])), reverse=self.descending)
            order = known + missing
        self._order = order
        if keep is not None and keep in order:
            self.set_reactive(Rows.cursor, order.index(keep))
        self.rows_changed()
        self.reveal(self.cursor)
        self.post_message(self.Arranged(self))
        self._tell()

    def _searched(self, record: R) -> str:
        """What a filter looks through: the row, and the other names of what it stands for."""
        texts = (column.show(record) for column in self.columns)
        return "\n".join((" ".join(texts), *map(str, _value(record, "aliases") or ()))).lower()

    def _tell(self) -> None:
        """Another record under the cursor is a move, also where its index stays."""
        record = self.record
        if record is not self._told:
            self._told = record
            self.post_message(self.Highlighted(self))

    def watch_cursor(self, old: int, new: int) -> None:
        super().watch_cursor(old, new)
        self._told = self.record

    def as_rows(self, records: Sequence[R] | None = None) -> list[tuple[str, ...]]:
        """Head and texts of all columns, of the shown records or those given."""
        shown = self.records if records is None else records
        columns = [column for column in self.declared.columns if column.only != "file"]
        head = tuple(column.called for column in columns)
        return [head, *(tuple(column.show(r) for column in columns) for r in shown)]

    # -- keys ------------------------------------------------------------------------------------

    def action_sort(self) -> None:
        """Sort by the next column that has a heading and says something; after the last one, as
        given. Signs and bars stand beside what they are of.
        """
        keys = [column.key for column in self.columns]
        first = keys.index(self.sorted_by) + 1 if self.sorted_by in keys else 0
        for column in self.columns[first:]:
            said = column.title and any(column.of(r) not in (None, "") for r in self._records)
            if said:
                falls = column.format.right and column is not self.columns[0]
                self.sort_field(column.key, descending=falls)
                return
        self.sort_field(None)

    def action_reverse(self) -> None:
        """Turn the order."""
        self.sort_field(self.sorted_by or self.columns[0].key, descending=not self.descending)

    def head_clicked(self, x: int) -> None:
        """Sort by the column at ``x``, numbers from the largest; once more turns the order."""
        end = _MARK
        room = self.scrollable_content_region.width - _MARK
        for column, cell in zip(self.columns, self._widths(room), strict=True):
            end += cell + 1
            if x < end:
                again = column.key == self.sorted_by
                falls = not self.descending if again else column.format.right
                self.sort_field(column.key, descending=falls)
                return

    # -- drawing ---------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Show the columns that there is room for."""
        if self._choose_columns():
            self._arrange()

    def _choose_columns(self, *, again: bool = False) -> bool:
        """Take the columns that are worth their room now; True where they are others.

        Without a width there is room for all.
        """
        width = self.scrollable_content_region.width
        shown = tuple(
            column
            for column in self.declared.columns
            if column.only != "file"
            and (not width or (width >= column.from_width and says(column, self._records)))
        )
        others, self.columns = shown != self.columns, shown
        if others or again:
            self._needs = [self._need(column) for column in shown]
        return others

    def _need(self, column: Column) -> int:
        """Cells that show every value of a column, and its title, whole."""
        texts = {column.show(record)[:LONGEST_NAME] for record in self._records}
        longest = max((cell_len(text) for text in texts), default=column.cells)
        if column.format.right:  # a figure is never cut
            return max(longest, column.cells)
        title = cell_len(column.title)
        return min(LONGEST_NAME, max(longest, title + bool(title)))  # beside the mark of the order

    def _widths(self, width: int) -> list[int]:
        """Cells of the columns: no more than they need, since figures belong beside names."""
        needs = self._needs
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
        line: Line = [(" " * _MARK, "")]
        for column, cell in zip(self.columns, self._widths(width - _MARK), strict=True):
            arrow = ("▼" if self.descending else "▲") if column.key == self.sorted_by else ""
            title = f"{column.title}{arrow}"
            shown = title[:cell].rjust(cell) if column.format.right else fit(title, cell)
            line.append((f"{shown} ", "head"))
        return line

    def row_line(self, index: int, width: int) -> Line:
        mark = self.MARKS[0] if index == self.cursor else self.MARKS[1]
        line: Line = [(f"{mark} ", "")]
        record = self._records[self._order[index]]
        for column, cell in zip(self.columns, self._widths(width - _MARK), strict=True):
            value = column.of(record)
            text = sanitize(column.format.show(value), SHOWN)  # values may be names from files
            spare = cell - cells([(text, "")])
            shown = " " * spare + text if column.format.right and spare >= 0 else fit(text, cell)
            line.append((f"{shown} ", column.style(value) if column.style else ""))
        return line

    def render_line(self, y: int) -> Strip:
        if self._order:
            return super().render_line(y)
        width = self.scrollable_content_region.width
        lines = self._said(max(10, width - 4))
        return self.paint([("  " + lines[y], "dim")] if y < len(lines) else [], width)

    def _said(self, room: int) -> list[str]:
        text = self._empty
        if self._records:
            text = f"Nothing here has “{self.filter_text}”; Esc shows all."
        return [line for paragraph in text.splitlines() for line in wrap(paragraph, room) or [""]]


def name_text(value: object) -> str:
    """A name of a model, safe for a terminal and cut."""
    return sanitize(str(value), 300)


def _key(value: Any) -> tuple[int, Any]:
    """Numbers before texts; an interval by its ends."""
    if isinstance(value, tuple) and value:
        value = value[0]
    if isinstance(value, int | float):
        return (0, value)
    return (1, str(value).lower())
