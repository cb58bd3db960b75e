"""Answers of the worker about calibration datasets."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import UsageError
from engine.base.text import printable
from engine.jobs.queries import text_of, whole_of

if TYPE_CHECKING:
    from engine.dataset import Dataset
    from engine.graph.ir import TensorSpec
    from engine.recipe import Recipe

__all__ = ["check", "make", "preview"]


def _inputs(recipe: Recipe) -> tuple[TensorSpec, ...]:
    from engine.jobs.warm import loaded_at_once, pipeline_of

    return loaded_at_once(pipeline_of(recipe)).graph.graph.inputs


def _dataset(recipe: Recipe, given: Any) -> Dataset:
    from engine.dataset import read_dataset

    path = given or recipe.dataset.dataset
    if not isinstance(path, str):
        raise UsageError(
            "There is no dataset yet.", remedy="Set dataset to a dataset.txt or a folder."
        )
    return read_dataset(
        Path(path), count=recipe.dataset.dataset_count, seed=recipe.dataset.dataset_seed
    )


def _recipe(params: Mapping[str, Any]) -> Recipe:
    from engine.jobs.warm import recipe_of

    return recipe_of({"recipe": params.get("recipe") or {}})


def check(params: dict[str, Any]) -> dict[str, Any]:
    """Every problem and finding of a dataset; against the model where the recipe names one.

    ``decode`` reads all of every file, otherwise only heads of pictures are read.
    """
    from engine.dataset import Preprocess
    from engine.dataset import check as check_dataset

    recipe = _recipe(params)
    dataset = _dataset(recipe, params.get("dataset"))
    if recipe.source.model is None:
        problems, files = _readable(dataset)
        facts: dict[str, Any] = {"samples": len(dataset), "files": files, "problems": problems}
        return {**facts, "sizes": [], "findings": []}
    seen, found = check_dataset(
        dataset,
        _inputs(recipe),
        Preprocess.from_recipe(recipe),
        decode=bool(params.get("decode")),
    )
    skipped = [
        {"line": 0, "file": str(path), "what": f"was left out: {why}", "cause": "", "remedy": ""}
        for path, why in dataset.skipped
    ]
    return {**seen.to_dict(), "findings": [f.to_dict() for f in found], "skipped": skipped}


def _readable(dataset: Dataset) -> tuple[list[dict[str, Any]], int]:
    """Without a model: only whether every file is there."""
    problems: list[dict[str, Any]] = []
    files = 0
    for index, entry in enumerate(dataset.entries):
        files += len(entry)
        for path in entry:
            what = _not_a_file(path)
            if what:
                line = dataset.lines[index] if dataset.lines else index + 1
                problems.append({"line": line, "file": str(path), "what": what})
    return problems, files


def _not_a_file(path: Path) -> str:
    """What is wrong with a path; empty for a file."""
    try:
        return "" if stat.S_ISREG(path.stat().st_mode) else "It is no file."
    except FileNotFoundError:
        return f"{printable(path.name, 80)} does not exist."
    except OSError as error:  # among them names that are longer than a file system takes
        return f"It could not be read: {error.strerror or error}."


def preview(params: dict[str, Any]) -> dict[str, Any]:
    """One sample as the network sees it: thumbnail, statistics, what mean and std promise."""
    from engine.dataset import Preprocess
    from engine.dataset import preview as preview_sample

    recipe = _recipe(params)
    shown = preview_sample(
        _dataset(recipe, params.get("dataset")),
        _inputs(recipe),
        Preprocess.from_recipe(recipe),
        whole_of(params, "index", 0, 0, 1 << 31),
        columns=whole_of(params, "columns", 40, 1, 400),
        rows=whole_of(params, "rows", 20, 1, 400),
        input_index=whole_of(params, "input", 0, 0, 1 << 16),
    )
    for channel in shown["channels"]:
        channel["min"], channel["max"] = channel["minimum"], channel["maximum"]
    return shown


def make(params: dict[str, Any]) -> dict[str, Any]:
    """Write ``dataset.txt`` from a folder of pictures."""
    from engine.dataset import make_dataset

    made = make_dataset(
        Path(text_of(params, "folder")),
        Path(text_of(params, "out")),
        whole_of(params, "count", 100, 1, 100_000),
        whole_of(params, "seed", 0, 0, 1 << 62),
        bool(params.get("force")),
    )
    return {
        "path": str(made.path),
        "samples": len(made.dataset),
        "found": made.found,
        "skipped": [{"file": str(path), "why": why} for path, why in made.skipped],
    }
