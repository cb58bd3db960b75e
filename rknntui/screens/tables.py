"""Base of the workspaces with tables: sort, filter, copy, write; ask before replacing a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rknntui.screens.workspace import Workspace
from rknntui.widgets.record_view import RecordView, as_file

__all__ = ["TableWorkspace", "tabbed"]


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

    def unavailable(self, method: str) -> str:
        if method in ("filter", "sort", "reverse", "save_table", "copy_table"):
            view = self.table_view() if self.is_attached else None
            return "" if view is not None and view.table.total else "there is no table to act on."
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
            self.workbench.copy_out(tabbed(view.table.as_rows()))

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
        self.ask_new_file("Save the table (.csv, .tsv, .json)", start, partial(self._save, view))

    def _save(self, view: RecordView, path: str, force: bool) -> None:
        from engine import EngineError, atomic_write

        table = view.table
        content = as_file(Path(path).suffix.lower(), table.as_rows(), table.records)
        try:
            atomic_write(Path(path), content, overwrite=force)
        except EngineError as error:
            self.workbench.show_error(error)
            return
        self.notify(f"Wrote {len(table.records)} rows to {path}.", markup=False)

    # -- links -----------------------------------------------------------------------------------

    async def go_to_node(self, name: str, which: str = "optimised") -> None:
        """Show a node of the graph in Model."""
        await self.workbench.show("model")
        target = self.workbench.workspace
        if target is not None:
            getattr(target, "find_node")(name, which)  # noqa: B009 - another workspace's

    async def go_to_layer(self, tensor: str) -> None:
        """Show a layer's histograms in Accuracy."""
        await self.workbench.show("accuracy")
        target = self.workbench.workspace
        if target is not None:
            getattr(target, "show_layer")(tensor)  # noqa: B009 - another workspace's

    async def build_there(self) -> None:
        """Show Quantize and build."""
        await self.workbench.show("quantize")
        target = self.workbench.workspace
        if target is not None:
            await self.app.run_action("build", target)

    # -- files -----------------------------------------------------------------------------------

    def ask_new_file(
        self,
        title: str,
        start: Path,
        then: Callable[[str, bool], None],
        *,
        folder: bool = False,
    ) -> None:
        """Ask for a path to write to, and before anything there is replaced.

        Args:
            title: of the picker.
            start: what it proposes.
            then: called with the path and whether replacing was allowed.
            folder: whether a folder is meant; it counts as taken when it has something in it.
        """
        from rknntui.screens.dialogs import ConfirmDialog
        from rknntui.screens.picker import PathPicker

        def chosen(path: str | None) -> None:
            if path is None:
                return
            if not _taken(Path(path)):
                then(path, False)
                return
            question = f"{path} exists. Replace what is there?"
            answers = [("y", "replace", True), ("n", "keep", False)]
            self.app.push_screen(
                ConfirmDialog("Overwrite", question, answers),
                lambda yes: then(path, True) if yes else None,
            )

        picker = PathPicker(title, str(start), folders=folder, new=True)
        self.app.push_screen(picker, chosen)


def _taken(path: Path) -> bool:
    try:
        return any(path.iterdir()) if path.is_dir() else path.exists()
    except OSError:
        return True
