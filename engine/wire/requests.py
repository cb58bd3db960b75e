"""What requests name: a model, a file, a recipe; and what is asked of a recipe itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from engine.base.findings import Finding
from engine.base.plain import Values
from engine.options import OPTIONS
from engine.wire.codec import Beside, Text
from engine.wire.flags import Argument, Flag
from engine.wire.method import Query
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


# Recipes, and the Python that they name.

CodeState = Literal["allowed", "confirmed", "changed", "new", "missing"]


@record
class SaveParams:
    """A recipe and the file that it is written to; ``force`` replaces one."""

    recipe: Values
    path: Text
    force: bool = False


@record
class CodeDigest:
    """A Python file and the SHA-256 of what the user was shown."""

    path: Text
    sha256: Text


@record
class Problem:
    """What is wrong with an option; no option where it is a line of the file."""

    option: str
    message: str


@record
class Checked:
    """What is wrong with a recipe; ``yaml`` is its text, empty where it cannot be written."""

    problems: tuple[Problem, ...]
    findings: tuple[Finding, ...]
    yaml: str


@record
class LoadedRecipe:
    """The values of a recipe file, paths absolute, and what is wrong with it."""

    recipe: Values
    problems: tuple[Problem, ...]


@record
class Saved:
    """The file that was written."""

    path: str


@record
class CodeFile:
    """A Python file that a recipe names.

    Attributes:
        names: classes of it.
        path: absolute.
        sha256: empty where it cannot be read.
        state: ``allowed`` by this request, ``confirmed``, ``changed`` since it was confirmed,
            ``new`` or ``missing``.
    """

    names: tuple[str, ...]
    path: str
    sha256: str
    state: CodeState


@record
class CodeFiles:
    """The Python files that a recipe names."""

    files: tuple[CodeFile, ...]


VALIDATE = Query("validate", OfRecipe, Checked)
RECIPE_LOAD = Query("recipe.load", AtPath, LoadedRecipe)
RECIPE_SAVE = Query("recipe.save", SaveParams, Saved)
CODE_FILES = Query("code.files", ModelTarget, CodeFiles)
CODE_CONFIRM = Query("code.confirm", CodeDigest, CodeDigest)
