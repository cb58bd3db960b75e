"""Answers of the worker about calibration datasets."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError
from engine.base.text import sanitize
from engine.dataset import Preprocess, make_dataset, read_dataset
from engine.dataset import check as check_dataset
from engine.dataset import preview as preview_sample
from engine.services.registry import answers
from engine.services.state import get_pipeline, load_directly, recipe_of
from engine.wire.dataset import (
    DATASET_CHECK,
    DATASET_LIST,
    DATASET_MAKE,
    DATASET_PREVIEW,
    CheckParams,
    DatasetFacts,
    FileProblem,
    LeftOut,
    ListParams,
    Made,
    MakeParams,
    Preview,
    PreviewParams,
    Samples,
)

if TYPE_CHECKING:
    from engine.dataset import Dataset
    from engine.graph.ir import TensorSpec
    from engine.recipe import Recipe


def _inputs(recipe: Recipe) -> tuple[TensorSpec, ...]:
    return load_directly(get_pipeline(recipe)).graph.graph.inputs


def _dataset(recipe: Recipe, dataset: str | None) -> Dataset:
    path = dataset or recipe.dataset.dataset
    if not path:
        raise UsageError(
            "There is no dataset yet.", remedy="Set dataset to a dataset.txt or a folder."
        )
    return read_dataset(
        Path(path), count=recipe.dataset.dataset_count, seed=recipe.dataset.dataset_seed
    )


@answers(DATASET_CHECK)
def check(params: CheckParams) -> DatasetFacts:
    """Every problem and finding of a dataset; against the model where the recipe names one, else
    only whether every file is there.
    """
    recipe = recipe_of(params.recipe or {})
    dataset = _dataset(recipe, params.dataset)
    if recipe.source.model is None:
        return _readable(dataset)
    prepared = Preprocess.from_recipe(recipe)
    return check_dataset(dataset, _inputs(recipe), prepared, decode=params.decode)


def _readable(dataset: Dataset) -> DatasetFacts:
    problems = tuple(
        FileProblem(dataset.lines[index] if dataset.lines else index + 1, str(path), what)
        for index, entry in enumerate(dataset.entries)
        for path in entry
        if (what := _not_a_file(path))
    )
    return DatasetFacts(len(dataset), sum(map(len, dataset.entries)), problems, (), ())


def _not_a_file(path: Path) -> str:
    """What is wrong with a path; empty for a file."""
    try:
        return "" if stat.S_ISREG(path.stat().st_mode) else "It is not a file."
    except FileNotFoundError:
        return f"{sanitize(path.name, 80)} does not exist."
    except OSError as error:  # among them names that are longer than a file system takes
        return f"It could not be read: {error.strerror or error}."


@answers(DATASET_PREVIEW)
def preview(params: PreviewParams) -> Preview:
    """One sample as the network sees it: thumbnail, statistics, what mean and std promise."""
    recipe = recipe_of(params.recipe or {})
    return preview_sample(
        _dataset(recipe, params.dataset),
        _inputs(recipe),
        Preprocess.from_recipe(recipe),
        params.index,
        columns=params.columns,
        rows=params.rows,
        input_index=params.input,
    )


@answers(DATASET_MAKE)
def make(params: MakeParams) -> Made:
    """Write ``dataset.txt`` from a folder of pictures."""
    made = make_dataset(
        Path(params.folder), Path(params.out), params.count, params.seed, params.force
    )
    dataset = made.dataset
    skipped = tuple(LeftOut(str(path), why) for path, why in dataset.skipped)
    return Made(str(dataset.path), len(dataset), made.found, skipped)


MOST_SAMPLES = 20_000


@answers(DATASET_LIST)
def list(params: ListParams) -> Samples:  # noqa: A001 - the word of the protocol
    """The samples of a dataset in their order, at most 20,000 of them, read from its list or chosen
    from its folder.
    """
    dataset = _dataset(recipe_of(params.recipe or {}), None)
    entries = (
        (dataset.lines[index] if dataset.lines else 0, tuple(map(str, entry)))
        for index, entry in enumerate(dataset.entries[:MOST_SAMPLES])
    )
    return Samples(len(dataset), tuple(entries))
