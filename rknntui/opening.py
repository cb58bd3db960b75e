"""Opening a model, a recipe or a container, at start or by the user's choice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknntui.state import BUILT

if TYPE_CHECKING:
    from rknntui.bridge import Bridge
    from rknntui.state import Session

__all__ = [
    "find_build",
    "open_path",
    "open_recipe",
    "reload_changed",
    "restore",
    "source_names",
    "source_options",
]

HISTORY = 50
"""So many jobs are looked through for the last build."""


async def open_path(session: Session, bridge: Bridge, path: str) -> None:
    """Open what ``path`` is; the session tells about it.

    Raises:
        EngineError: it cannot be read, or is nothing that can be opened.
    """
    absolute = str(Path(path).expanduser().absolute())
    keep = session.recipe if session.recipe.get("model") == absolute else {}
    view = await bridge.call("open", {"path": absolute, **source_options(keep)})
    session.model_opened(view, absolute)


def source_options(recipe: dict[str, Any]) -> dict[str, Any]:
    """The options of a recipe that change which graph is seen, without the model itself."""
    return {n: recipe[n] for n in source_names() if n in recipe and n != "model"}


def source_names() -> frozenset[str]:
    """The names of the options that say what is loaded and how."""
    from engine import OPTIONS

    return frozenset(o.name for o in OPTIONS if o.section == "source")


async def restore(session: Session, bridge: Bridge, state: dict[str, Any]) -> None:
    """Open what the last run had open, with its recipe; a file that is gone is left out."""
    path = state.get("path")
    if not isinstance(path, str) or not Path(path).is_file():
        return
    recipe, saved = state.get("recipe"), state.get("saved")
    recipe_path = state.get("recipe_path")
    view = await bridge.call("open", {"path": path, **source_options(recipe or {})})
    if isinstance(recipe, dict) and view.get("kind") not in BUILT and recipe.get("model"):
        session.path, session.model = path, view
        session.restore_recipe(
            recipe,
            recipe_path if isinstance(recipe_path, str) else None,
            saved if isinstance(saved, dict) else {},
        )
        view = {**view, "recipe": None}
    session.model_opened(view, path)
    await find_build(session)


async def open_recipe(session: Session, bridge: Bridge, recipe: dict[str, Any]) -> None:
    """Open the model of a recipe that was made elsewhere, and the newest build of that recipe.

    Raises:
        EngineError: the model cannot be read.
    """
    session.set_recipe(recipe, None)
    view = await bridge.call("open", {"path": recipe["model"], **source_options(recipe)})
    session.model_opened({**view, "recipe": None}, str(recipe["model"]))
    await find_build(session)


async def find_build(session: Session) -> None:
    """Show the result of the newest build of the session's recipe, where the history has one."""
    from engine import list_jobs, read_result

    for record in await asyncio.to_thread(list_jobs, HISTORY):
        done = record.method == "build" and record.state == "done"
        if done and record.params.get("recipe") == session.recipe:
            result = await asyncio.to_thread(read_result, record.id)
            if result is not None:
                session.build_found(result, session.recipe)
            return


async def reload_changed(session: Session, bridge: Bridge, roles: set[str]) -> None:
    """Read again what changed on disk: the recipe replaces the edited one.

    Raises:
        EngineError: a file is gone or broken now.
    """
    if "recipe" in roles and session.recipe_path:
        answer = await bridge.call("recipe.load", {"path": session.recipe_path})
        session.set_recipe(answer["recipe"], session.recipe_path)
    path = session.recipe.get("model") or session.path
    if path:
        kept, origin = dict(session.recipe), session.path
        view = await bridge.call("open", {"path": path, **source_options(kept)})
        session.model_opened({**view, "recipe": None}, origin or path)
