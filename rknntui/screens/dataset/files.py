"""Choosing a dataset, and making one from a folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine import option
from engine.wire.dataset import DATASET_MAKE, Made, MakeParams
from rknntui.screens.dialogs.new_file import ask_new_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from rknntui.screens.base.workspace import Workspace


class DatasetFiles:
    """Asks for a list or a folder of samples, and sets the recipe's dataset to it.

    Args:
        workspace: shows the dialogs, asks the worker, has the session.
        written: called when a list was written, which may be the one that is shown.
    """

    def __init__(self, workspace: Workspace, written: Callable[[], None]) -> None:
        self._workspace = workspace
        self._written = written

    def _whole(self, name: str) -> int:
        value = self._workspace.session.recipe.get(name)
        return value if isinstance(value, int) else int(option(name).default)

    def pick(self) -> None:
        """Choose a list or a folder; of a folder a list can be written."""
        from rknntui.screens.dialogs.picker import PathPicker

        recipe = self._workspace.session.recipe
        start = str(recipe.get("dataset") or recipe.get("model") or "")
        start = str(Path(start).parent) + "/" if start else ""
        picker = PathPicker("Choose a dataset.txt, or a folder (Ctrl+S)", start, folders=True)
        self._workspace.app.push_screen(picker, self._picked)

    def _picked(self, path: str | None) -> None:
        if not path:
            return
        if not Path(path).is_dir():
            self._workspace.session.set_value("dataset", path)
            return
        from rknntui.screens.dialogs.dialogs import ConfirmDialog

        count = self._whole("dataset_count")
        question = (
            f"Write a dataset.txt with up to {count} images of {path}? The list can be edited and "
            f"shared. Or use the folder directly: every build selects the same images."
        )
        answers = [("w", "write dataset.txt", "write"), ("u", "use the folder", "use")]
        self._workspace.app.push_screen(
            ConfirmDialog("A folder of images", question, answers), partial(self._folder, path)
        )

    def _folder(self, folder: str, choice: str | None) -> None:
        if choice == "use":
            self._workspace.session.set_value("dataset", folder)
        elif choice == "write":
            self._ask_list(folder)

    def make(self) -> None:
        """Choose the folder, then the list."""
        from rknntui.screens.dialogs.picker import PathPicker

        def chosen(path: str | None) -> None:
            if path and Path(path).is_dir():
                self._ask_list(path)
            elif path:
                self._workspace.notify("This is not a folder.", severity="warning")

        self._workspace.app.push_screen(
            PathPicker("A folder of images (Ctrl+S)", folders=True), chosen
        )

    def _ask_list(self, folder: str) -> None:
        start = Path.cwd() / "dataset.txt"
        ask_new_file(self._workspace.app, "Write the list", start, partial(self._write, folder))

    def _write(self, folder: str, out: str, force: bool) -> None:
        chosen = self._whole("dataset_count"), self._whole("dataset_seed")
        params = MakeParams(folder, out, *chosen, force)
        self._workspace.ask(DATASET_MAKE, params, self._made)

    def _made(self, made: Made) -> None:
        skipped = made.skipped
        left = f"; skipped {len(skipped)}, the first: {skipped[0].why}" if skipped else ""
        text = f"{made.path}: {made.samples} of {made.found} images{left}."
        self._workspace.notify(text, title="Dataset written", markup=False)
        self._workspace.session.set_value("dataset", made.path)
        self._written()
