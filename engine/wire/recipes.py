"""Recipes, and the Python that they name."""

from __future__ import annotations

from typing import Literal

from engine.base.findings import Finding
from engine.base.plain import Values
from engine.wire.codec import Text
from engine.wire.method import Query
from engine.wire.record import record
from engine.wire.requests import AtPath, ModelTarget, OfRecipe

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
