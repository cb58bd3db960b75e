"""A table of records: a column per key, some of them only where there is room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from textual.message import Message

from engine import sanitize
from engine.wire.table import Column as DeclaredColumn
from engine.wire.table import Table as Declared
from rknntui.widgets.strips import Line
from rknntui.widgets.table import Column, Table
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from textual.strip import Strip

__all__ = ["Field", "Record", "RecordTable", "name_text", "number"]

Record = Mapping[str, Any]
"""A row whose columns are made where the table is: a key for each."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # typing's own has defaults from Python 3.13 on

    R = TypeVar("R", default=Record)
else:
    from typing import TypeVar

    R = TypeVar("R")


@dataclass(frozen=True)
class Field:
    """A key of the records, or an attribute, and the column that shows it.

    Attributes:
        key: of the records.
        column: that shows its values.
        wanted_from: width of the table in cells below which it is hidden; with one it is hidden
            too while no record has a value for it.
        unlike: another key; the column is hidden while it says the same in every record.
        value: from a record to the value; None: the key's.
    """

    key: str
    column: Column
    wanted_from: int = 0
    unlike: str = ""
    value: Callable[[Any], Any] | None = None

    def of(self, record: object) -> Any:
        """Its value of a record."""
        return _value(record, self.key) if self.value is None else self.value(record)


def field_of(column: DeclaredColumn) -> Field:
    """A declared column as a field of a table."""
    shown = Column(
        column.title,
        column.cells,
        right=column.format.right,
        grow=column.grow,
        text=column.format.text,
        style=column.style,
        name=column.name,
    )
    return Field(column.key, shown, column.from_width, column.unlike, column.of)


Columns = Declared | Sequence[Field | DeclaredColumn]
"""What a table of records shows: a declared table, or its columns."""


def _fields(columns: Columns) -> tuple[Field, ...]:
    declared = columns.columns if isinstance(columns, Declared) else columns
    return tuple(
        column if isinstance(column, Field) else field_of(column)
        for column in declared
        if isinstance(column, Field) or column.only != "file"
    )


def _value(record: object, key: str) -> Any:
    return record.get(key) if isinstance(record, Mapping) else getattr(record, key, None)


class RecordTable(Table, Generic[R]):
    """Records under a head, with what is said where there is none.

    A record is a mapping (:data:`Record`) or a dataclass.

    Args:
        fields: a declared table, or fields from left to right.
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
        fields: Columns,
        *,
        id: str,  # noqa: A002 - Textual's own name
        what: str,
        empty: str = "",
    ) -> None:
        self._fields = _fields(fields)
        super().__init__([f.column for f in self._fields], id=id)
        self.what = what
        self._shown = self._fields
        self._empty = empty
        self.filter_key = "/"
        self._records: list[R] = []
        self._told: R | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns, shown or not; setting others shows them with the next records."""
        return self._fields

    @fields.setter
    def fields(self, columns: Columns) -> None:
        self._fields = _fields(columns)

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
        self._choose_fields()
        self._fill()
        if kept is not None:
            self.select_record(keep, kept)
        self._tell()

    def _fill(self) -> None:
        self.set_rows([tuple(f.of(r) for f in self._shown) for r in self._records])

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
    def shown_keys(self) -> tuple[str, ...]:
        """The keys of the columns that there is room for."""
        return tuple(field.key for field in self._shown)

    @property
    def sorted_by(self) -> str | None:
        """The field that the records are sorted by; None for the given order."""
        return None if self.sort_column is None else self._shown[self.sort_column].key

    def sort_field(self, key: str | None, *, descending: bool = False) -> None:
        """Sort by a field; None restores the given order."""
        keys = [f.key for f in self._shown]
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
        """Head and texts of all fields, of the shown records or those given."""
        shown = self.records if records is None else records
        head = tuple(f.column.called for f in self.fields)
        return [head, *(tuple(f.column.show(f.of(r)) for f in self.fields) for r in shown)]

    # -- drawing ---------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Show the fields that there is room for."""
        if self._choose_fields():
            self._fill()

    def _choose_fields(self) -> bool:
        """Take the fields that are worth a column now; True where they are others."""
        width = self.scrollable_content_region.width
        shown = tuple(f for f in self.fields if width >= f.wanted_from and self._tells(f))
        if shown == self._shown:
            return False
        sorted_by = self.sorted_by
        keys = [f.key for f in shown]
        self._shown, self.columns = shown, tuple(f.column for f in shown)
        self.sort_column = keys.index(sorted_by) if sorted_by in keys else None
        return True

    def _tells(self, field: Field) -> bool:
        """Whether a field says something in a record, and not what another one says already."""
        if not field.wanted_from or not self._records:
            return True
        same = field.unlike or field.key
        return any(
            value is not None and (same == field.key or value != _value(record, same))
            for record in self._records
            for value in (field.of(record),)
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


def number(digits: int, *, signed: bool = False) -> Callable[[Any], str]:
    """A formatter with so many significant digits."""
    return lambda value: f"{value:{'+' if signed else ''}.{digits}g}"
