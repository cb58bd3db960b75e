"""What the verbs for boards take as MODEL: a compiled model, a container of ours, or a recipe."""

from __future__ import annotations

from pathlib import Path

import click

from engine.wire.model import SNIFF
from engine.wire.requests import AtPath, ModelTarget
from rknntui.cli.session import WorkerSession, resolve

__all__ = ["board_target", "build_flag"]

_YAML = (".yaml", ".yml")

build_flag = click.option(
    "--build",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recipe or container of the same build: its layer names are shown.",
)


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
