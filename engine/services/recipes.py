"""Answers of the worker about recipes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import EngineError, QuantizationError
from engine.base.files import atomic_write
from engine.base.findings import Finding
from engine.options import Values
from engine.services.handler import answers
from engine.wire.recipes import (
    RECIPE_LOAD,
    RECIPE_SAVE,
    VALIDATE,
    Checked,
    LoadedRecipe,
    Problem,
    Saved,
    SaveParams,
)
from engine.wire.requests import AtPath, OfRecipe

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline
    from engine.recipe import Recipe

__all__ = ["load", "save", "validate"]


@answers(VALIDATE)
def validate(params: OfRecipe) -> Checked:
    """What is wrong with a recipe: of itself, against the model and against the dataset."""
    from engine.recipe import dump_recipe, recipe_problems
    from engine.services.state import recipe_of

    problems = recipe_problems(dict(params.recipe))
    if problems:
        return Checked(_listed(problems), (), "")
    recipe = recipe_of(params.recipe)
    problems, found = _against_files(recipe)
    return Checked(_listed(problems), tuple(found), dump_recipe(recipe))


def _listed(problems: dict[str, str]) -> tuple[Problem, ...]:
    return tuple(Problem(name, message) for name, message in problems.items())


def _against_files(recipe: Recipe) -> tuple[dict[str, str], list[Finding]]:
    from engine.dataset import read_dataset
    from engine.services.source_info import NO_SIZES
    from engine.services.state import get_pipeline

    problems: dict[str, str] = {}
    found: list[Finding] = []
    if recipe.source.model is None:
        problems["model"] = "No model is set."
    else:
        try:
            found += _of_model(get_pipeline(recipe))
            problems |= {f.where: f"{f.what} {f.remedy}" for f in found if f.code == NO_SIZES}
        except EngineError as error:
            problems[_blamed(error)] = _sentence(error)
    problems |= _of_dtype(recipe)
    part = recipe.dataset
    if recipe.quantization.do_quantization and not part.dataset:
        problems["dataset"] = "No calibration dataset is set, which quantization needs."
    elif part.dataset:
        try:
            read_dataset(Path(part.dataset), count=part.dataset_count, seed=part.dataset_seed)
        except EngineError as error:
            problems["dataset"] = _sentence(error)
    return problems, found


def _of_dtype(recipe: Recipe) -> dict[str, str]:
    """Whether the target has the quantized dtype; names the chips that do."""
    from engine.quantize import check_dtype

    options = recipe.quantization
    if not options.do_quantization:
        return {}
    try:
        check_dtype(options.quantized_dtype, recipe.target.target_platform)
    except QuantizationError as error:
        return {"quantized_dtype": f"{error.what} {error.cause}"}
    return {}


def _of_model(pipeline: Pipeline) -> tuple[Finding, ...]:
    """What loading noticed; of a model that is still to be converted what its files tell."""
    from engine.dataset import Preprocess
    from engine.frontends.views import source_findings
    from engine.pipeline.stages.load import loads_at_once
    from engine.services.source_info import missing_sizes, summary_of

    if not loads_at_once(pipeline):
        source = pipeline.source.model
        summary = summary_of(source)
        return (*missing_sizes(source, summary), *source_findings(summary))
    loaded = pipeline.loaded
    Preprocess.from_recipe(pipeline.recipe).plans(loaded.graph.graph.inputs)
    return loaded.findings


def _blamed(error: EngineError) -> str:
    """The option that an error is about: the first one that its text names, else the model."""
    from engine.options import named_option

    return named_option(f"{error.what} {error.remedy}") or "model"


def _sentence(error: EngineError) -> str:
    return f"{error.what} {error.remedy}".strip()


@answers(RECIPE_LOAD)
def load(params: AtPath) -> LoadedRecipe:
    """The values of a recipe file, paths absolute, and what is wrong with it."""
    from engine.recipe import Recipe, read_recipe

    path = Path(params.path)
    values, problems = read_recipe(path)
    if problems:
        named = {problem.option for problem in problems}
        kept: Values = {name: value for name, value in values.items() if name not in named}
        return LoadedRecipe(kept, tuple(Problem(p.option, str(p)) for p in problems))
    return LoadedRecipe(Recipe.from_values(values, path.parent).to_values(), ())


@answers(RECIPE_SAVE)
def save(params: SaveParams) -> Saved:
    """Write a recipe file; paths below its folder are written relative to it."""
    from engine.recipe import dump_recipe
    from engine.services.state import recipe_of

    path = Path(params.path)
    text = dump_recipe(recipe_of(params.recipe), base=path.absolute().parent, comments=True)
    atomic_write(path, text.encode("utf-8"), overwrite=params.force)
    return Saved(str(path))
