"""The views of a workspace and its tables: what is shown, said below, sorted, filtered, written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import getters, on
from textual.containers import Container, Vertical
from textual.css.query import NoMatches
from textual.message import Message

from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.one_line import ViewBar
from rknntui.widgets.record_view import RecordView

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from rknntui.widgets.records import RecordTable
    from rknntui.widgets.strips import Line

LOW = 32
"""Lines of a terminal below which little is said beside the figures."""
_FEW_LINES, _MANY_LINES = 4, 8


class Views(Vertical):
    """One pane of several, with a bar of their names above and a few lines below.

    A subclass sets ``VIEWS``, and tells in ``notes`` what is said.
    """

    VIEWS: ClassVar[Mapping[str, tuple[Callable[..., Widget], str]]] = {}
    """Name of a view -> what makes its pane, and takes an ``id``, and the id, in their order.

    Views may share a pane.
    """
    NOTES_FOCUS: ClassVar[bool] = True
    """Whether the lines below take the focus, so that keys scroll them."""
    DEFAULT_CSS = """
    Views {
        height: 1fr;
        & > .views-body { height: 1fr; }
        & > .views-notes { height: auto; padding: 0 1; }
    }
    """

    class Changed(Message):
        """Another view is shown, or (``view`` False) the cursor is elsewhere."""

        def __init__(self, *, view: bool) -> None:
            super().__init__()
            self.view = view

    # -- what a subclass defines -------------------------------------------------------------------

    def notes(self, width: int) -> list[Line]:
        """What is said below the view, wrapped to so many cells; nothing hides the lines."""
        return []

    def most_notes(self) -> int:
        """Lines that the notes take at most."""
        return _FEW_LINES if self.app.size.height < LOW else _MANY_LINES

    @property
    def pane(self) -> Any:
        """The pane of the view, of the class that ``VIEWS`` has."""
        return self.query_one(f"#{self.VIEWS[self.view][1]}")

    @property
    def table(self) -> RecordTable[Any] | None:
        """The table of the view; None where it has none."""
        table: RecordTable[Any] | None = getattr(self.pane, "table", None)
        return table

    @property
    def layer_id(self) -> str:
        """The build's layer under the cursor of the view; empty for none."""
        return str(getattr(self.pane, "layer_id", ""))

    @property
    def first_focus(self) -> Widget:
        """The widget of the view that takes the keys."""
        focus: Widget = self.table or self.pane
        return focus

    # -- what it does ------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield ViewBar(tuple(self.VIEWS))
        with Container(classes="views-body"):
            yield from (kind(id=name) for kind, name in dict.fromkeys(self.VIEWS.values()))
        yield TextRows(classes="views-notes")

    def on_mount(self) -> None:
        notes = self.told
        notes.SHOW_CURSOR = False
        notes.can_focus = self.NOTES_FOCUS
        notes.display = False
        self._reveal()

    bar = getters.query_one(ViewBar)
    """The names of the views."""

    @property
    def view(self) -> str:
        """The one that is shown."""
        return self.bar.current

    told = getters.query_one(".views-notes", TextRows)
    """The lines below."""

    def tell(self) -> None:
        """Say what belongs to the view, in the width of now."""
        lines = self.notes(max(20, self.size.width - 4))
        notes = self.told
        notes.display = bool(lines)
        notes.styles.height = min(len(lines), self.most_notes())
        same = bool(lines) and lines[:1] == notes.lines[:1]
        notes.set_lines(lines, keep_cursor=self.NOTES_FOCUS or same)

    def on_resize(self) -> None:
        """Wrap anew."""
        self.call_after_refresh(self.tell)

    def _reveal(self) -> None:
        for _, pane in self.VIEWS.values():
            self.query_one(f"#{pane}").display = pane == self.VIEWS[self.view][1]

    @on(ViewBar.Changed)
    def _view_changed(self, event: ViewBar.Changed) -> None:
        event.stop()
        self._reveal()
        self.first_focus.focus()
        self.post_message(self.Changed(view=True))


# Base of the workspaces with tables: sort, filter, copy, write.


def tabbed(rows: list[tuple[str, ...]]) -> str:
    """Rows as text, cells split by tabs: what spreadsheets and ``cut`` take."""
    return "\n".join("\t".join(row) for row in rows)


class TableWorkspace(Workspace):
    """A workspace with tables, and with views where it has a :class:`ViewBar`.

    One whose views are widgets of its own names them in ``PANES``.
    """

    PANES: ClassVar[Mapping[str, str]] = {}
    """Name of a view -> id of its pane, in their order."""

    # -- views -----------------------------------------------------------------------------------

    bar = getters.query_one(ViewBar)
    """The names of the views."""

    @property
    def view(self) -> str:
        try:
            return self.bar.current
        except NoMatches:
            return ""

    def action_step_view(self, by: int) -> None:
        """Show the next view (1), or the one before (-1)."""
        self.bar.step(by)

    @on(ViewBar.Changed)
    def _show_pane(self, event: ViewBar.Changed) -> None:
        for name, pane in self.PANES.items():
            self.query_one(f"#{pane}").display = name == event.name
        self.pane_shown(event.name)
        self.screen.refresh_bindings()

    def pane_shown(self, view: str) -> None:
        """Another view of ``PANES`` is shown: bring it up to date, and give it the focus."""

    # -- tables ----------------------------------------------------------------------------------

    def table_view(self) -> RecordView | None:
        """The table that has the focus, else the first one that is shown."""
        focused = self.screen.focused
        around = () if focused is None or self not in focused.ancestors else focused.ancestors
        own = next((node for node in around if isinstance(node, RecordView)), None)
        if own is not None and own.region.area:
            return own
        return next((view for view in self.query(RecordView) if view.region.area), None)

    def unavailable_reason(self, method: str) -> str:
        if method in ("filter", "sort", "reverse", "save_table", "copy_table"):
            view = self.table_view() if self.is_attached else None
            return "" if view is not None and view.table.total else "there is no table here."
        return ""

    def action_filter(self) -> None:
        """Open the filter line of the table."""
        if (view := self.table_view()) is not None:
            view.open_filter()

    def action_sort(self) -> None:
        """Sort by the next column."""
        if (view := self.table_view()) is not None:
            view.table.action_sort()

    def action_reverse(self) -> None:
        """Turn the order round."""
        if (view := self.table_view()) is not None:
            view.table.action_reverse()

    def action_copy_table(self) -> None:
        """Copy the shown rows."""
        if (view := self.table_view()) is not None:
            self.workbench.output.copy(tabbed(view.table.as_rows()))

    def copy_text(self) -> str:
        """The text that has the focus, else the record under the cursor."""
        focused = self.screen.focused
        return focused.text() if isinstance(focused, TextRows) else self.record_text()

    def record_text(self) -> str:
        """The record under the cursor of the table, with the labels."""
        view = self.table_view()
        if view is None or view.table.record is None:
            return ""
        return tabbed(view.table.as_rows([view.table.record]))

    def action_save_table(self) -> None:
        """Ask for a file and write the shown rows."""
        view = self.table_view()
        if view is None:
            return
        table, output = view.table, self.workbench.output
        start = str(Path.cwd() / f"{self.session.stem}-{table.what}.csv")

        def write(path: str) -> None:
            from engine import table_file

            text = table_file(table.declared, table.records, Path(path).suffix.lower())
            output.write_file(path, text, f" ({len(table.records)} rows)")

        picker = PathPicker("Save the table (.csv, .tsv, .json)", start, new=True)
        ask_user(self.app, picker, write)
