"""What several requests have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from engine.base.plain import Values
from engine.options import OPTIONS
from engine.wire.codec import Beside, Text
from engine.wire.flags import Argument, Flag
from engine.wire.record import record


def _of_source() -> tuple[str, ...]:
    return tuple(option.name for option in OPTIONS if option.section == "source")


@record
class AtPath:
    """A file."""

    path: Text


@record
class OfRecipe:
    """A recipe: option name -> value."""

    recipe: Values


@record
class ModelTarget:
    """A model: by a recipe, or by its file with options that say how it is loaded."""

    path: Annotated[str | None, Argument(metavar="MODEL")] = None
    recipe: Values | None = None
    source: Annotated[Values, Beside(_of_source)] = field(default_factory=dict)


def _read_build(text: str) -> ModelTarget:
    return ModelTarget(str(Path(text).absolute()))


def _write_build(build: Mapping[str, Any]) -> str:
    return str(build.get("path") or "")


BuildOfModel = Annotated[
    ModelTarget | None,
    Flag(
        name="--build",
        help="Recipe or container of the same build: its layer names are shown.",
        metavar="FILE",
        kind="file",
        read=_read_build,
        write=_write_build,
    ),
]
"""The recipe or container of ours that a compiled model was made from: it names the layers."""
