"""What a stage of the pipeline depends on, as bytes and hashes; the recipe of a container."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.base.errors import RecipeError
from engine.base.plain import JsonObject, JsonValue
from engine.options import OPTIONS, SECTIONS, Value
from engine.options.values import to_mutable
from engine.recipe.model import PATH_KINDS, VERSION, Recipe


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys, no blanks, ASCII only: equal values have equal bytes.

    Raises:
        ValueError: NaN or infinity, which JSON does not have.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def stage_values(recipe: Recipe, stage: str) -> dict[str, Value]:
    """Every option whose first stage is ``stage``, defaults included, those naming files aside.

    What the named files hold decides, not their names: :func:`cache_key` takes their hashes.
    """
    return {
        o.name: to_mutable(recipe.value(o.name))
        for o in OPTIONS
        if o.stage == stage and o.kind not in PATH_KINDS
    }


def cache_key(
    recipe: Recipe,
    stage: str,
    *,
    contents: JsonObject | None = None,
    previous: str = "",
    extra: JsonObject | None = None,
) -> str:
    """Hexadecimal SHA-256 of everything that the result of ``stage`` depends on.

    Args:
        recipe: the build's options.
        stage: its name, as of ``Option.stage``.
        contents: for each set option of this stage that names files, the hash of what they hold.
        previous: the key of the stage before.
        extra: whatever else decides the result (library versions, the version of the stage's code).

    Raises:
        KeyError: a file option of this stage is set and ``contents`` does not have it, a mistake of
            the program that would let a changed file go unnoticed.
    """
    hashes = dict(contents or {})
    files = {
        o.name: hashes[o.name]
        for o in OPTIONS
        if o.stage == stage and o.kind in PATH_KINDS and recipe.value(o.name) is not None
    }
    parts = {
        "stage": stage,
        "values": stage_values(recipe, stage),
        "contents": files,
        "previous": previous,
        "extra": dict(extra or {}),
    }
    return hashlib.sha256(canonical_json(parts)).hexdigest()


def relocatable(recipe: Recipe, digests: Mapping[str, str]) -> dict[str, JsonValue]:
    """The recipe for a container: every default written out, files as name and SHA-256, no path.

    Args:
        recipe: the build's options.
        digests: SHA-256 of every file or dataset that the recipe names, by the text that names it.

    Returns:
        Plain data: ``version`` and the sections; a file is ``{"file": name, "sha256": digest}``.
    """
    parts: dict[str, dict[str, Value]] = {name: {} for name in SECTIONS}
    for declared in OPTIONS:
        value = to_mutable(recipe.value(declared.name))
        if declared.kind in PATH_KINDS:
            value = _named(value, digests)
        parts[declared.section][declared.name] = value
    return {"version": VERSION, **parts}


def _named(value: Value, digests: Mapping[str, str]) -> Value:
    if isinstance(value, list):
        return [_named(v, digests) for v in value]
    if value is None:
        return None
    name = Path(value).absolute().name
    if name in ("", ".."):
        name = Path(value).resolve().name
    return {"file": name, "sha256": digests[value]}


def portable_values(data: JsonObject) -> dict[str, Value]:
    """The flat dict of option values of a container's recipe, for showing; files by their names.

    Options that this version does not know, and values that do not fit, are left out: a container
    is a foreign file.
    """
    values: dict[str, Value] = {}
    for declared in OPTIONS:
        section = data.get(declared.section)
        if not isinstance(section, Mapping) or declared.name not in section:
            continue
        value = section[declared.name]
        if declared.kind in PATH_KINDS:
            value = _names(value)
        try:
            checked = declared.check(value)
        except RecipeError:
            continue
        if checked != declared.default:
            values[declared.name] = checked
    return values


def portable_recipe(data: JsonObject) -> Recipe:
    """The recipe of a container, without the names of its model and dataset."""
    values = portable_values(data)
    return Recipe.from_values({n: v for n, v in values.items() if n not in ("model", "dataset")})


def _names(value: Any) -> Any:
    if isinstance(value, list):
        return [_names(v) for v in value]
    return value.get("file") if isinstance(value, Mapping) else None
