"""A table of records: a column per key, some of them only where there is room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from textual.message import Message

from engine import sanitize
from engine.wire.table import Record, says
from rknntui.widgets.strips import Line
from rknntui.widgets.table import Table
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.strip import Strip

    from engine.wire.table import Column
    from engine.wire.table import Table as Declared

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # typing's own has defaults from Python 3.13 on

    R = TypeVar("R", default=Record)
else:
    from typing import TypeVar

    R = TypeVar("R")


def _value(record: object, key: str) -> Any:
    return record.get(key) if isinstance(record, Mapping) else getattr(record, key, None)


class RecordTable(Table, Generic[R]):
    """Records under a head, with what is said where there is none.

    A record is a mapping (:data:`Record`) or a dataclass.

    Args:
        declared: its columns.
        id: the widget's id.
        what: what it lists, one word for file names.
        empty: what is shown where there is no record.
    """

    DEFAULT_CSS = """
    RecordTable { height: 1fr; }
    """
    MARKS: ClassVar[tuple[str, str]] = ("▸", " ")

    class Arranged(Message):
        """Order, filter or records changed."""

        def __init__(self, table: RecordTable[Any]) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> RecordTable[Any]:
            """The table."""
            return self.table

    def __init__(
        self,
        declared: Declared,
        *,
        id: str,  # noqa: A002 - Textual's own name
        what: str,
        empty: str = "",
    ) -> None:
        self.declared = declared
        super().__init__(self._fitting(None), id=id)
        self.what = what
        self._empty = empty
        self.filter_key = "/"
        self._records: list[R] = []
        self._told: R | None = None

    # -- records ---------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """Number of records before the filter."""
        return len(self._records)

    @property
    def records(self) -> list[R]:
        """The records as shown: filtered and in order."""
        return [self._records[index] for index in self._order]

    @property
    def record(self) -> R | None:
        """The record under the cursor."""
        return None if self.row is None else self._records[self.row]

    def set_records(self, records: Sequence[R], *, keep: str = "") -> None:
        """Show other records.

        Args:
            records: a missing value or None is shown as a dash and sorted last.
            keep: the key whose value finds the record that the cursor stays on.
        """
        kept = _value(self.record, keep) if keep else None
        self._records = list(records)
        self._order = []
        self._choose_columns()
        self._fill()
        if kept is not None:
            self.select_record(keep, kept)
        self._tell()

    def _fill(self) -> None:
        self.set_rows([tuple(c.of(r) for c in self.columns) for r in self._records])

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

    @property
    def sorted_by(self) -> str | None:
        """The field that the records are sorted by; None for the given order."""
        return None if self.sort_column is None else self.columns[self.sort_column].key

    def sort_field(self, key: str | None, *, descending: bool = False) -> None:
        """Sort by a field; None restores the given order."""
        keys = [column.key for column in self.columns]
        self.sort_by(keys.index(key) if key in keys else None, descending=descending)

    def _arrange(self, keep: int | None) -> None:
        super()._arrange(keep)
        self.post_message(self.Arranged(self))
        self._tell()

    def _searched(self, index: int, row: tuple[Any, ...]) -> str:
        """The row, and the other names of what it stands for."""
        aliases = _value(self._records[index], "aliases") or ()
        return "\n".join((super()._searched(index, row), *map(str, aliases))).lower()

    def _tell(self) -> None:
        """Another record under the cursor is a move, also where its index stays."""
        record = self.record
        if record is not self._told:
            self._told = record
            self.post_message(self.Highlighted(self, self.cursor))

    def watch_cursor(self, old: int, new: int) -> None:
        super().watch_cursor(old, new)
        self._told = self.record

    def as_rows(self, records: Sequence[R] | None = None) -> list[tuple[str, ...]]:
        """Head and texts of all columns, of the shown records or those given."""
        shown = self.records if records is None else records
        columns = [column for column in self.declared.columns if column.only != "file"]
        head = tuple(column.called for column in columns)
        return [head, *(tuple(column.show(r) for column in columns) for r in shown)]

    # -- drawing ---------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Show the columns that there is room for."""
        if self._choose_columns():
            self._fill()

    def _choose_columns(self) -> bool:
        """Take the columns that are worth their room now; True where they are others."""
        shown = self._fitting(self.scrollable_content_region.width)
        if shown == self.columns:
            return False
        sorted_by = self.sorted_by
        keys = [column.key for column in shown]
        self.columns = shown
        self.sort_column = keys.index(sorted_by) if sorted_by in keys else None
        return True

    def _fitting(self, width: int | None) -> tuple[Column, ...]:
        """The columns that a width (None: any) has room for, and that say something."""
        return tuple(
            column
            for column in self.declared.columns
            if column.only != "file"
            and (width is None or width >= column.from_width)
            and (width is None or says(column, self._records))
        )

    def head_line(self, y: int, width: int) -> Line:
        return [("  ", ""), *super().head_line(y, width - 2)]

    def head_clicked(self, x: int) -> None:
        super().head_clicked(x - 2)

    def _room(self) -> int:
        return super()._room() - 2

    def row_line(self, index: int, width: int) -> Line:
        mark = self.MARKS[0] if index == self.cursor else self.MARKS[1]
        return [(f"{mark} ", ""), *super().row_line(index, width - 2)]

    def render_line(self, y: int) -> Strip:
        if self._order:
            return super().render_line(y)
        width = self.scrollable_content_region.width
        lines = self._said(max(10, width - 4))
        return self.paint([("  " + lines[y], "dim")] if y < len(lines) else [], width)

    def _said(self, room: int) -> list[str]:
        text = self._empty
        if self._records:
            text = f"Nothing here has “{self.filter_text}”; {self.filter_key} and Esc show all."
        return [line for paragraph in text.splitlines() for line in wrap(paragraph, room) or [""]]


def name_text(value: object) -> str:
    """A name of a model, safe for a terminal and cut."""
    return sanitize(str(value), 300)
