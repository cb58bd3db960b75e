"""What the verbs for boards take as MODEL: a compiled model, a container of ours, or a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from engine.wire.devices import CORES
from engine.wire.model import SNIFF
from engine.wire.requests import AtPath, ModelTarget
from rknntui.cli.session import WorkerSession, resolve

__all__ = ["board_target", "build_flag", "cores_flag", "device_flag", "layers_flag"]

Command = TypeVar("Command", bound=Callable[..., Any])

_YAML = (".yaml", ".yml")

device_flag = click.option(
    "--device",
    metavar="DEVICE",
    help="The board: adb:SERIAL, ssh:[USER@]HOST[:PORT] or local. Default: this machine if it "
    "is a board, else the only board.",
)
build_flag = click.option(
    "--build",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recipe or container of the same build: its layer names are shown.",
)
layers_flag = click.option(
    "--layers", is_flag=True, help="Also time each layer, in a run of its own."
)


def cores_flag(told: str, **more: Any) -> Callable[[Command], Command]:
    """``--cores``: which cores of the NPU run the model."""
    names = f"{told}: {', '.join(CORES)}."
    return click.option("--cores", type=click.Choice(CORES), metavar="CORES", help=names, **more)


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
