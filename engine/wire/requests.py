"""What several requests have in common."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from engine.options import OPTIONS
from engine.wire.codec import Beside, Text, Values
from engine.wire.flags import Argument
from engine.wire.record import record

__all__ = ["AtPath", "ModelTarget", "OfRecipe"]


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

    path: Annotated[str | None, Argument()] = None
    recipe: Values | None = None
    source: Annotated[Values, Beside(_of_source)] = field(default_factory=dict)
