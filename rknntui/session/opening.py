"""Opening a model, a recipe or a container, at start or by the user's choice."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import EngineError, SeveralFilesError
from rknntui.session.drafts import draft_of
from rknntui.session.jobview import JobView
from rknntui.session.results import read_record
from rknntui.session.state import BUILT, RESULTS

if TYPE_CHECKING:
    from rknntui.bridge import Bridge
    from rknntui.session.drafts import Draft
    from rknntui.session.state import Session

__all__ = [
    "find_results",
    "open_path",
    "open_recipe",
    "reload_changed",
    "restore",
    "source_names",
    "source_options",
]

HISTORY = 50
"""So many jobs are looked through for the last build."""


async def open_path(
    session: Session, bridge: Bridge, path: str, given: dict[str, Any] | None = None
) -> Draft | None:
    """Open what ``path`` is; the session tells about it.

    Args:
        session: takes it.
        bridge: asks the worker.
        path: of a model, a recipe or a container.
        given: options of the source model that are said beside the path, such as ``weights``.

    Returns:
        The unsaved recipe of an earlier time that came back; None where there was none.

    Raises:
        EngineError: it cannot be read, or is nothing that can be opened.
    """
    absolute, given = str(Path(path).expanduser().absolute()), dict(given or {})
    view, asked = await _view(session, bridge, absolute, given)
    draft = session.model_opened(view, absolute, given)
    if any(session.recipe.get(name) != value for name, value in given.items()):
        session.set_values(given)
    if session.container is None:
        now, model = source_options(session.recipe), session.recipe.get("model")
        if (now, model) != (asked, view.get("path")):
            session.model_seen(await bridge.call("open", {"path": model, **now}))
    await find_results(session, draft.built if draft is not None else None)
    return draft


async def _view(
    session: Session, bridge: Bridge, path: str, given: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The model view of a path, and the options of the source model that it was made with."""
    if given and (await bridge.call("sniff", {"path": path}))["kind"] == "recipe":
        recipe = (await bridge.call("recipe.load", {"path": path}))["recipe"]
        asked = {**source_options(recipe), **given}
        view = await bridge.call("open", {"path": recipe.get("model"), **asked})
        return {**view, "recipe": recipe}, asked
    kept, draft = session.recipe, session.drafts.of(path)
    if kept.get("model") != path and draft is not None:
        kept = draft.recipe
    asked = {**(source_options(kept) if kept.get("model") == path else {}), **given}
    try:
        view = await bridge.call("open", {"path": path, **asked})
    except SeveralFilesError:
        raise
    except EngineError:
        if asked == given:
            raise
        asked = given  # an option of the recipe does not fit: the file itself may be well
        view = await bridge.call("open", {"path": path, **given})
    return view, source_options(view["recipe"]) if view.get("recipe") else asked


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
    kept = draft_of(state)
    view = await bridge.call("open", {"path": path, **source_options(kept.recipe if kept else {})})
    if kept is not None and view.get("kind") not in BUILT:
        session.path, session.model = path, view
        session.restore_recipe(kept)
        view = {**view, "recipe": None}
    session.model_opened(view, path)
    await find_results(session, kept.built if kept is not None else None)


async def open_recipe(session: Session, bridge: Bridge, recipe: dict[str, Any]) -> None:
    """Open the model of a recipe that was made elsewhere, and the newest build of that recipe.

    Raises:
        EngineError: the model cannot be read.
    """
    session.set_recipe(recipe, None)
    view = await bridge.call("open", {"path": recipe["model"], **source_options(recipe)})
    session.model_opened({**view, "recipe": None}, str(recipe["model"]))
    await find_results(session)


async def find_results(session: Session, built: dict[str, Any] | None = None) -> None:
    """Show what the newest jobs of the history say of the open recipe: its build, and its scores,
    ranking and comparison.

    Args:
        session: takes the results.
        built: the recipe of the last build, where that is another one than is open.
    """
    from engine import list_jobs, read_events, read_result

    if session.container is not None or not session.recipe.get("model"):
        return
    records = await asyncio.to_thread(list_jobs, HISTORY)
    for method in RESULTS:
        wanted = session.built or built or session.recipe
        fitting = (r for r in records if r.method == method and r.state == "done")
        record = next((r for r in fitting if _is_of(r.params, wanted)), None)
        if record is None:
            continue
        with contextlib.suppress(EngineError):  # removed from the history meanwhile, or damaged
            events = await asyncio.to_thread(read_events, record.id)
            result = await asyncio.to_thread(read_result, record.id)
            if result is not None:
                found = read_record(method, result)
                session.result_found(JobView.of_record(record, events), found)


def _is_of(params: dict[str, Any], recipe: dict[str, Any]) -> bool:
    """Whether a job was about a recipe; what a comparison varied does not count."""
    given, varied = params.get("recipe"), params.get("axes") or {}
    if not isinstance(given, dict):
        return False
    return all(given.get(n) == recipe.get(n) for n in {*given, *recipe} if n not in varied)


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
