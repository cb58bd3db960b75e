"""What the verbs for boards take as MODEL: a compiled model, a container of ours, or a recipe."""

from __future__ import annotations

from pathlib import Path

from engine.wire.codec import Values
from engine.wire.model import SNIFF
from engine.wire.requests import AtPath, ModelTarget
from rknntui.cli.session import WorkerSession, resolve

__all__ = ["board_target", "on_board"]

_YAML = (".yaml", ".yml")


async def board_target(session: WorkerSession, model: Path) -> ModelTarget:
    """What a MODEL means: a recipe is read, any other file goes to the board as it is.

    Raises:
        RecipeError: the recipe has mistakes.
        SourceModelError: the file is missing or unreadable.
    """
    kind = (await session.call(SNIFF, AtPath(str(model.absolute())))).kind
    texts = kind in ("unknown", "dataset") and model.suffix.lower() in _YAML
    if kind == "recipe" or texts:
        return ModelTarget(recipe=await resolve(session, model, {}))
    return ModelTarget(str(model.absolute()))


async def on_board(session: WorkerSession, model: Path, _options: Values, fields: Values) -> Values:
    """The model of a request for a board, and the recipe that ``--build`` may name."""
    target, build = await board_target(session, model), fields.get("build")
    if build is not None:
        build = await board_target(session, Path(build.path))
    return {"path": target.path, "recipe": target.recipe, "build": build}
