"""A table declared once: its columns over the rows of an answer.

The command line, the tables of the workbench, CSV, TSV, HTML and the reference in the docs are made
from it: a column that is added here is in all of them. See ``CONTRIBUTING.md``, "add a column".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from engine.wire.formats import WORD, Format
from engine.wire.record import record

Meaning = Literal["", "good", "warn", "bad", "accent", "dim"]
"""What a value means to the reader; a theme has a colour for it."""
Only = Literal["", "screen", "file"]
"""Where a column is: everywhere, in the workbench alone, in files alone."""
Record = Mapping[str, Any]
"""A row as values: the key of a column -> its value, None where there is none."""
TEXT_WIDTH = 160
"""The command line has the columns that a screen of this width has."""


@record
class Column:
    """A column.

    Attributes:
        key: of its values in a record, and its head in files.
        heading: for people, with the unit where the format's text has none; empty: ``key``, or
            none where there is a ``name``.
        format: how a value reads.
        help: what it is, one sentence, for the reference.
        value: from a row to the value; a text is a path of attributes (``memory.total``), empty:
            the attribute ``key``; None: only a record has it, made by who knows.
        width: least cells; 0: those of the format and the heading.
        grow: share of the space that is left once every text is shown whole.
        style: from a value (None too) to what it means.
        from_width: width of the screen in cells below which it is hidden; with one it is hidden too
            while no row has a value.
        unlike: key of another column; it is hidden while it says the same in every row.
        name: what it is called where nothing stands over it, as over signs and bars.
        only: where it is.
        file: its heads in files, as many as the format has parts; empty: ``key``.
    """

    key: str
    heading: str = ""
    format: Format = WORD
    help: str = ""
    value: str | Callable[[Any], Any] | None = ""
    width: int = 0
    grow: int = 0
    style: Callable[[Any], Meaning] | None = None
    from_width: int = 0
    unlike: str = ""
    name: str = ""
    only: Only = ""
    file: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What stands over it."""
        return self.heading or ("" if self.name else self.key)

    @property
    def called(self) -> str:
        """What stands over it, else its name."""
        return self.title or self.name

    @property
    def cells(self) -> int:
        """Least width."""
        return self.width or max(self.format.width, len(self.title))

    @property
    def heads(self) -> tuple[str, ...]:
        """Its heads in files."""
        return self.file or (self.key,)

    def of(self, row: Any) -> Any:
        """Its value of a row, or of a record that has its key."""
        if isinstance(row, Mapping):
            return row.get(self.key)
        if self.value is None:
            return None
        if callable(self.value):
            return self.value(row)
        for name in (self.value or self.key).split("."):
            row = getattr(row, name) if row is not None else None
        return row

    def show(self, row: Any) -> str:
        """Its text of a row or a record."""
        return self.format.show(self.of(row))


@record
class Table:
    """A table.

    Attributes:
        name: one word, for file names and the reference.
        title: what a row is, for the reference.
        columns: from left to right.
    """

    name: str
    title: str
    columns: tuple[Column, ...]

    def column(self, key: str) -> Column:
        """The column of a key; KeyError where there is none."""
        for column in self.columns:
            if column.key == key:
                return column
        raise KeyError(key)

    def pick(self, *keys: str) -> Table:
        """A view with these columns, in this order."""
        return replace(self, columns=tuple(map(self.column, keys)))

    def plus(self, *columns: Column, after: str) -> Table:
        """A view with further columns behind one of the table."""
        at = 1 + self.columns.index(self.column(after))
        return replace(self, columns=(*self.columns[:at], *columns, *self.columns[at:]))

    def record(self, row: Any, **further: Any) -> dict[str, Any]:
        """A row as values, with what the row does not have itself."""
        values = {
            column.key: further[column.key] if column.key in further else column.of(row)
            for column in self.columns
        }
        return {**values, **further}

    def shown(self, rows: Iterable[Any], width: int | None = TEXT_WIDTH) -> tuple[Column, ...]:
        """The columns of a text: those that fit a width (None: any) and say something."""
        rows = list(rows)
        return tuple(
            column
            for column in self.columns
            if not column.only
            and (width is None or column.from_width <= width)
            and says(column, rows)
        )

    @property
    def file_columns(self) -> tuple[Column, ...]:
        """The columns of a file."""
        return tuple(column for column in self.columns if column.only != "screen")

    def plain(self, rows: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """For a file: the heads, then the plain values of each row."""
        columns = self.file_columns
        yield tuple(head for column in columns for head in column.heads)
        for row in rows:
            yield tuple(part for c in columns for part in c.format.plain(c.of(row)))


def says(column: Column, rows: Sequence[Any]) -> bool:
    """Whether a column that may be hidden says something, and not what another says already."""
    if not column.from_width or not rows:
        return True
    for row in rows:
        value = column.of(row)
        if value is not None and (not column.unlike or value != _other(row, column.unlike)):
            return True
    return False


def _other(row: Any, key: str) -> Any:
    return row.get(key) if isinstance(row, Mapping) else getattr(row, key, None)
