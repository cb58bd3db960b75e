"""Opening a model, a recipe or a container, at start or by the user's choice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rknntui.bridge import Bridge
    from rknntui.state import Session

__all__ = ["open_path", "reload_changed", "restore"]


async def open_path(session: Session, bridge: Bridge, path: str) -> None:
    """Open what ``path`` is; the session tells about it.

    Raises:
        EngineError: it cannot be read, or is nothing that can be opened.
    """
    absolute = str(Path(path).expanduser().absolute())
    keep = session.recipe if session.recipe.get("model") == absolute else {}
    view = await bridge.call("open", {"path": absolute, **_cut(keep)})
    session.model_opened(view, absolute)


def _cut(recipe: dict[str, Any]) -> dict[str, Any]:
    """The options of a recipe that change which graph is seen."""
    return {n: recipe[n] for n in ("inputs", "input_size_list", "outputs") if n in recipe}


async def restore(session: Session, bridge: Bridge, state: dict[str, Any]) -> None:
    """Open what the last run had open, with its recipe; a file that is gone is left out."""
    path = state.get("path")
    if not isinstance(path, str) or not Path(path).is_file():
        return
    recipe, saved = state.get("recipe"), state.get("saved")
    recipe_path = state.get("recipe_path")
    view = await bridge.call("open", {"path": path, **_cut(recipe or {})})
    if isinstance(recipe, dict) and view.get("kind") != "rknn" and recipe.get("model"):
        session.path, session.model = path, view
        session.restore_recipe(
            recipe,
            recipe_path if isinstance(recipe_path, str) else None,
            saved if isinstance(saved, dict) else {},
        )
        view = {**view, "recipe": None}
    session.model_opened(view, path)


async def reload_changed(session: Session, bridge: Bridge, roles: set[str]) -> None:
    """Read again what changed on disk: the recipe replaces the edited one, the model is opened
    anew.

    Raises:
        EngineError: a file is gone or broken now.
    """
    if "recipe" in roles and session.recipe_path:
        answer = await bridge.call("recipe.load", {"path": session.recipe_path})
        session.set_recipe(answer["recipe"], session.recipe_path)
    path = session.recipe.get("model") or session.path
    if path:
        kept, origin = dict(session.recipe), session.path
        view = await bridge.call("open", {"path": path, **_cut(kept)})
        session.model_opened({**view, "recipe": None}, origin or path)
