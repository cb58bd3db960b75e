"""Reading and writing the recipe's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rknntui.screens.tables import TableWorkspace

__all__ = ["RecipeFiles"]


class RecipeFiles(TableWorkspace):
    """The half of Configure that asks for files."""

    def action_load(self) -> None:
        """Choose a recipe file and take its values."""
        from rknntui.screens.picker import PathPicker

        def chosen(path: str | None) -> None:
            if path:
                self.workbench.open_path(path)

        start = self.session.recipe_path or str(Path.cwd()) + "/"
        self.app.push_screen(PathPicker("Load a recipe (.yaml)", start), chosen)

    def action_save(self) -> None:
        """Ask where, and before a file is replaced."""
        model = Path(str(self.session.recipe.get("model") or "model"))
        start = self.session.recipe_path or str(Path.cwd() / f"{model.stem}.yaml")
        self.ask_new_file("Save the recipe", Path(start), self._save_recipe)

    def _save_recipe(self, path: str, force: bool) -> None:
        params = {"path": path, "recipe": self.session.recipe, "force": force}

        def saved(answer: dict[str, Any]) -> None:
            self.session.recipe_saved(str(answer["path"]))
            self.notify(f"Wrote {answer['path']}.", markup=False)

        self.ask("recipe.save", params, saved)
