"""Base of the workspaces with tables: sort, filter, copy, write."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import getters, on

from rknntui.keys.actions import REGISTRY
from rknntui.keys.text import key_text
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.picker import ask_new_file
from rknntui.widgets.record_view import RecordView, as_file
from rknntui.widgets.view_bar import ViewBar


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
        return next((bar.current for bar in self.query(ViewBar)), "")

    def action_next_view(self) -> None:
        """Show the next view."""
        self.bar.step(1)

    def action_previous_view(self) -> None:
        """Show the view before."""
        self.bar.step(-1)

    def other_view(self, method: str) -> str:
        """Why an action of another view cannot run now; empty where it is of the one shown."""
        views = next((own.views for own in REGISTRY.of(self.NAME) if own.method == method), ())
        if not views or self.view in views:
            return ""
        return f"it is of the view {views[0]} ({{{self.NAME}.next-view}} switches)."

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
        views = [view for view in self.query(RecordView) if view.region.area]
        for view in views:
            if focused is not None and view in focused.ancestors:
                return view
        return views[0] if views else None

    def unavailable_reason(self, method: str) -> str:
        if method in ("filter", "sort", "reverse", "save_table", "copy_table"):
            view = self.table_view() if self.is_attached else None
            return "" if view is not None and view.table.total else "there is no table here."
        return ""

    def action_filter(self) -> None:
        """Open the filter line of the table."""
        if (view := self.table_view()) is not None:
            view.open_filter(key_text(f"{self.NAME}.filter"))

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
            self.workbench.copy(tabbed(view.table.as_rows()))

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
        stem = Path(str(self.session.recipe.get("model") or self.session.path or "model")).stem
        start = Path.cwd() / f"{stem}-{view.table.what}.csv"
        title = "Save the table (.csv, .tsv, .json)"
        ask_new_file(self.app, title, start, partial(self._save, view))

    def _save(self, view: RecordView, path: str, force: bool) -> None:
        from engine import EngineError, atomic_write

        table = view.table
        content = as_file(Path(path).suffix.lower(), table.declared, table.records)
        try:
            atomic_write(Path(path), content, overwrite=force)
        except EngineError as error:
            self.workbench.show_error(error)
            return
        self.notify(f"Wrote {len(table.records)} rows to {path}.", markup=False)
