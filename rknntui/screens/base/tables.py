"""Base of the workspaces with tables: sort, filter, copy, write."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rknntui.keys.text import key_text
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.picker import ask_new_file
from rknntui.widgets.record_view import RecordView, as_file


def tabbed(rows: list[tuple[str, ...]]) -> str:
    """Rows as text, cells split by tabs: what spreadsheets and ``cut`` take."""
    return "\n".join("\t".join(row) for row in rows)


class TableWorkspace(Workspace):
    """A workspace whose ``ACTIONS`` hold :func:`rknntui.widgets.record_view.table_actions`."""

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
