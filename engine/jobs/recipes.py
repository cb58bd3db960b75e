"""Answers of the worker about recipes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import EngineError, QuantizationError, UsageError
from engine.base.files import atomic_write
from engine.base.findings import Finding
from engine.jobs.queries import text_of

if TYPE_CHECKING:
    from engine.jobs.pipeline import Pipeline
    from engine.recipe import Recipe

__all__ = ["load", "save", "validate"]


def validate(params: dict[str, Any]) -> dict[str, Any]:
    """What is wrong with a recipe: of itself, against the model and against the dataset.

    Returns:
        ``problems`` [{option, message}], ``findings``, ``yaml``: its text, empty with problems.
    """
    from engine.recipe import dump_recipe, recipe_problems

    values = params.get("recipe")
    if not isinstance(values, dict):
        raise UsageError("The request needs a recipe, an object of option name -> value.")
    problems = recipe_problems(values)
    if problems:
        return {"problems": _listed(problems), "findings": [], "yaml": ""}
    from engine.jobs.warm import recipe_of

    recipe = recipe_of({"recipe": values})
    found: list[Finding] = []
    problems, found = _against_files(values)
    return {
        "problems": _listed(problems),
        "findings": [finding.to_dict() for finding in found],
        "yaml": dump_recipe(recipe),
    }


def _listed(problems: dict[str, str]) -> list[dict[str, str]]:
    return [{"option": name, "message": message} for name, message in problems.items()]


def _against_files(values: dict[str, Any]) -> tuple[dict[str, str], list[Finding]]:
    from engine.dataset import read_dataset
    from engine.jobs.looks import NO_SIZES
    from engine.jobs.warm import pipeline_of, recipe_of

    recipe = recipe_of({"recipe": values})
    problems: dict[str, str] = {}
    found: list[Finding] = []
    if recipe.source.model is None:
        problems["model"] = "No model is set."
    else:
        try:
            found += _of_model(pipeline_of(recipe))
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
    from engine.jobs.looks import missing_sizes, summary_of

    if not pipeline.loads_at_once:
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


def load(params: dict[str, Any]) -> dict[str, Any]:
    """The values of a recipe file, paths absolute, and what is wrong with it."""
    from engine.recipe import Recipe, read_recipe

    path = Path(text_of(params, "path"))
    values, problems = read_recipe(path)
    named = {problem.option for problem in problems}
    if problems:
        return {
            "recipe": {name: value for name, value in values.items() if name not in named},
            "problems": [{"option": p.option, "message": str(p)} for p in problems],
        }
    return {"recipe": Recipe.from_values(values, path.parent).to_values(), "problems": []}


def save(params: dict[str, Any]) -> dict[str, Any]:
    """Write a recipe file; paths below its folder are written relative to it."""
    from engine.jobs.warm import recipe_of
    from engine.recipe import dump_recipe

    path = Path(text_of(params, "path"))
    if not isinstance(params.get("recipe"), dict):
        raise UsageError("The request needs a recipe, an object of option name -> value.")
    recipe = recipe_of(params)
    text = dump_recipe(recipe, base=path.absolute().parent, comments=True)
    atomic_write(path, text.encode("utf-8"), overwrite=bool(params.get("force")))
    return {"path": str(path)}
