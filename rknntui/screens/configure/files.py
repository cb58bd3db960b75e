"""Reading and writing the recipe's file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.wire.recipes import RECIPE_SAVE, Saved, SaveParams
from rknntui.screens.dialogs.new_file import ask_new_file

if TYPE_CHECKING:
    from rknntui.screens.base.workspace import Workspace


def load_recipe(workspace: Workspace) -> None:
    """Choose a recipe file and take its values."""
    from rknntui.screens.dialogs.picker import PathPicker

    def chosen(path: str | None) -> None:
        if path:
            workspace.workbench.open_path(path)

    start = workspace.session.recipe_path or str(Path.cwd()) + "/"
    workspace.app.push_screen(PathPicker("Load a recipe (.yaml)", start), chosen)


def save_recipe(workspace: Workspace) -> None:
    """Ask where, and before a file is replaced."""
    session = workspace.session

    def save(path: str, force: bool) -> None:
        def saved(answer: Saved) -> None:
            session.recipe_saved(answer.path)
            workspace.notify(f"Wrote {answer.path}.", markup=False)

        workspace.ask(RECIPE_SAVE, SaveParams(session.recipe, path, force), saved)

    model = Path(str(session.recipe.get("model") or "model"))
    start = session.recipe_path or str(Path.cwd() / f"{model.stem}.yaml")
    ask_new_file(workspace.app, "Save the recipe", Path(start), save)
