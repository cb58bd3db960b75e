"""A table of records with its caption, its filter line and the actions that every table has."""

from __future__ import annotations

from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from rknntui.widgets.one_line import SearchLine
from rknntui.widgets.records import RecordTable


class RecordView(Vertical):
    """Caption, table and filter line."""

    ALLOW_MAXIMIZE = True  # its title and its search line stay with the rows

    DEFAULT_CSS = """
    RecordView {
        height: 1fr;
        & > .caption {
            height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis;
        }
        &:focus-within > .caption { color: $primary; text-style: bold; }
    }
    """

    def __init__(
        self,
        title: str,
        table: RecordTable[Any],
        *,
        id: str | None = None,  # noqa: A002 - Textual's own name
    ) -> None:
        super().__init__(id=id)
        self.title = title
        self._given = ""
        self.table = table
        self._caption = Static("", classes="caption", markup=False)
        self._filter = SearchLine("filter: Enter applies it, Esc shows all")

    def compose(self) -> ComposeResult:
        yield self._caption
        yield self.table
        yield self._filter

    def on_mount(self) -> None:
        self._tell()

    def set_title(self, title: str, given: str = "") -> None:
        """Change the first words of the caption, and what is said of the order of unsorted rows."""
        if (title, given) != (self.title, self._given):
            self.title, self._given = title, given
            self._tell()

    def on_record_table_arranged(self, event: RecordTable.Arranged) -> None:
        """Say what is shown, in which order; which keys work depends on there being rows."""
        event.stop()
        self._tell()
        self.screen.refresh_bindings()

    def _tell(self) -> None:
        table = self.table
        shown, total = table.row_count, table.total
        name, _, rest = self.title.partition(" · ")
        order = self._given
        if table.sorted_by is not None:
            mark = "▼" if table.descending else "▲"
            order = f"by {table.declared.column(table.sorted_by).called} {mark}"
        parts = [name, order]  # the order is the last to be cut
        parts.append("" if table.filter_text else rest)
        if total:
            parts.append(f"{shown} of {total}" if shown != total else str(total))
        if table.filter_text:
            parts.append(f"with “{table.filter_text}” · Esc shows all")
        self._caption.update(" · ".join(filter(None, parts)))

    def open_filter(self) -> None:
        """Let the user type the filter."""
        self._filter.open()

    def on_search_line_typed(self, event: SearchLine.Typed) -> None:
        """Filter as typed."""
        event.stop()
        text = event.text.strip()
        if text != self.table.filter_text:
            # by the table itself: what it tells of its cursor from here would end in this widget
            self.table.call_later(self.table.set_filter, text)
        if event.done:
            self.table.focus()
