"""Opening a model, a recipe or a container, at start or by the user's choice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine import EngineError, SeveralFilesError
from engine.wire.model import OPEN, SNIFF, ModelView
from engine.wire.requests import RECIPE_LOAD, AtPath, ModelTarget
from rknntui.arguments import source_options
from rknntui.keys.commandline import read_record
from rknntui.session.job_view_model import JobView
from rknntui.session.kept import Values
from rknntui.session.state import BUILT, RESULTS

if TYPE_CHECKING:
    from engine import JobRecord
    from rknntui.bridge import Bridge
    from rknntui.session.kept import Draft
    from rknntui.session.state import Session

HISTORY = 50
"""So many jobs are looked through for the last build."""


async def open_path(
    session: Session, bridge: Bridge, path: str, given: Mapping[str, object] | None = None
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
    draft = session.model_opened(view, absolute, given, chosen=True)
    if any(session.recipe.get(name) != value for name, value in given.items()):
        session.set_values(given)
    if session.container is None:
        now, model = source_options(session.recipe), session.recipe.get("model")
        if (now, model) != (asked, view.path):
            session.model_seen(await look(bridge, session.recipe))
    await find_results(session, draft.built if draft is not None else None)
    return draft


async def look(bridge: Bridge, recipe: Mapping[str, object]) -> ModelView:
    """The model of a recipe, as its options say that it is loaded.

    Raises:
        EngineError: it cannot be read.
    """
    model = recipe.get("model")
    target = ModelTarget(str(model) if model else None, source=source_options(recipe))
    return await bridge.call(OPEN, target)


async def _view(
    session: Session, bridge: Bridge, path: str, options: Values
) -> tuple[ModelView, Values]:
    """The model view of a path, and the options of the source model that it was made with."""
    if options and (await bridge.call(SNIFF, AtPath(path))).kind == "recipe":
        recipe = (await bridge.call(RECIPE_LOAD, AtPath(path))).recipe
        asked = {**source_options(recipe), **options}
        view = await look(bridge, {**asked, "model": recipe.get("model")})
        return replace(view, recipe=recipe), asked
    kept, draft = session.recipe, session.history.drafts.of(path)
    if kept.get("model") != path and draft is not None:
        kept = draft.recipe
    asked = {**(source_options(kept) if kept.get("model") == path else {}), **options}
    try:
        view = await bridge.call(OPEN, ModelTarget(path, source=asked))
    except SeveralFilesError:
        raise
    except EngineError:
        if asked == options:
            raise
        asked = options  # an option of the recipe does not fit: the file itself may be well
        view = await bridge.call(OPEN, ModelTarget(path, source=options))
    return view, source_options(view.recipe) if view.recipe else asked


async def restore(session: Session, bridge: Bridge, kept: Draft) -> None:
    """Open what the last run had open, with its recipe; a file that is gone is left out."""
    path = kept.path
    if not path or not Path(path).is_file():
        return
    view = await bridge.call(OPEN, ModelTarget(path, source=source_options(kept.recipe)))
    if kept.model and view.kind not in BUILT:
        session.path, session.model = path, view
        left = session.history.drafts.of(kept.file)
        if left is not None and left.recipe != kept.recipe:  # another workbench saved after it
            kept = replace(kept, undo=(*kept.undo, left.recipe))
        session.restore_recipe(kept)
        view = replace(view, recipe=None)
    session.model_opened(view, path)
    await find_results(session, kept.built)


async def open_recipe(session: Session, bridge: Bridge, recipe: Mapping[str, object]) -> None:
    """Open the model of a recipe that was made elsewhere, and the newest build of that recipe.

    Raises:
        EngineError: the model cannot be read.
    """
    session.set_recipe(recipe)
    view = await look(bridge, recipe)
    session.model_opened(replace(view, recipe=None), str(recipe["model"]))
    await find_results(session)


async def open_build(session: Session, bridge: Bridge, record: JobRecord) -> None:
    """Open a build of the history again, with its recipe and result; undo comes back.

    Raises:
        EngineError: the model cannot be read.
    """
    from engine import recipe_of

    recipe = dict(recipe_of(record))
    if session.recipe.get("model") == recipe["model"] and session.container is None:
        session.set_values({name: recipe.get(name) for name in {*session.recipe, *recipe}})
    else:
        await open_recipe(session, bridge, recipe)
    await _take_result(session, record)
    await find_results(session)


async def _take_result(session: Session, record: JobRecord) -> None:
    from engine import read_events, read_result

    with contextlib.suppress(EngineError):  # removed from the history meanwhile, or damaged
        events = await asyncio.to_thread(read_events, record.id)
        result = await asyncio.to_thread(read_result, record.id)
        if result is not None:
            outcome = read_record(record.method, result)
            session.result_found(JobView.of_record(record, events), outcome)


async def find_results(session: Session, built: Values | None = None) -> None:
    """Show what the newest jobs of the history say of the open recipe: its build, and its scores,
    ranking and comparison.

    Args:
        session: takes the results.
        built: the recipe of the last build, where that is another one than is open.
    """
    from engine import list_jobs

    if session.container is not None or not session.recipe.get("model"):
        return
    records = await asyncio.to_thread(list_jobs, HISTORY)
    for method in RESULTS:
        recipe = session.built or built or session.recipe
        fitting = (r for r in records if r.method == method and r.state == "done")
        whole = (r for r in fitting if method != "hybrid.propose" or r.params.get("gains"))
        apart = ("target_platform",) if method == "compile" else ()  # it has chips of its own
        record = next((r for r in whole if _is_of(r.params, recipe, apart)), None)
        if record is not None:
            await _take_result(session, record)


def _is_of(params: Mapping[str, object], recipe: Values, apart: Sequence[str] = ()) -> bool:
    """Whether a job was about a recipe; what a comparison varied, and ``apart``, do not count."""
    asked, axes = params.get("recipe"), params.get("axes")
    if not isinstance(asked, dict):
        return False
    varied = {*apart, *(axes if isinstance(axes, dict) else ())}
    return all(asked.get(n) == recipe.get(n) for n in {*asked, *recipe} if n not in varied)


async def reload_changed(session: Session, bridge: Bridge, roles: set[str]) -> None:
    """Read again what changed on disk: the recipe replaces the edited one.

    Raises:
        EngineError: a file is gone or broken now.
    """
    if "recipe" in roles and session.recipe_path:
        answer = await bridge.call(RECIPE_LOAD, AtPath(session.recipe_path))
        session.read_again(dict(answer.recipe), session.recipe_path)
    path = str(session.recipe.get("model") or session.path or "")
    if path:
        view = await look(bridge, {**session.recipe, "model": path})
        session.model_opened(replace(view, recipe=None), session.path or path)
