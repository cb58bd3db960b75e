"""What a worker keeps between requests: results of stages, and the caches behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import RecipeError, SourceModelError, UsageError
from engine.base.events import Reporter
from engine.jobs.cache import Memory, StageCache
from engine.jobs.confirmed import allowed_code
from engine.jobs.pipeline import Pipeline
from engine.jobs.results import LoadedModel
from engine.options import OPTIONS
from engine.recipe import Recipe

if TYPE_CHECKING:
    from engine.graph.ir.custom import CustomOperators

__all__ = ["KEPT", "loaded_at_once", "pipeline_of", "recipe_of"]

KEPT = Memory()
"""Results of stages and views, by key."""


def recipe_of(params: Mapping[str, Any]) -> Recipe:
    """The recipe of a request: its ``recipe`` (flat option values), or the model at ``path``.

    Raises:
        UsageError: neither is there, or it is no object.
        RecipeError: an option does not fit.
    """
    values = params.get("recipe")
    if values is None and params.get("path") is not None:
        values = {"model": params["path"]}
        for declared in OPTIONS:
            if declared.section == "source" and params.get(declared.name) is not None:
                values[declared.name] = params[declared.name]
    if values is None:
        raise UsageError("The request names no recipe and no path.")
    if not isinstance(values, Mapping):
        raise UsageError("The recipe of a request is an object of option name -> value.")
    return Recipe.from_values(values, Path.cwd())


def pipeline_of(
    recipe: Recipe,
    reporter: Reporter | None = None,
    *,
    refresh: bool = False,
    stages: tuple[str, ...] | None = None,
) -> Pipeline:
    """The pipeline of a recipe over the worker's caches.

    Its stages raise RecipeError where the recipe names Python that nobody allowed to run.

    Raises:
        RecipeError: the recipe names no model.
    """
    if recipe.source.model is None:
        raise RecipeError("The recipe names no model.", remedy="Set model to a model file.")
    return Pipeline(
        recipe,
        reporter=reporter,
        cache=StageCache(),
        memory=KEPT,
        refresh=refresh,
        stages=stages,
        operators=_operators_of(recipe),
    )


def _operators_of(recipe: Recipe) -> Callable[[], CustomOperators] | None:
    """What gives the custom operators that a recipe names, as the present request allows them."""
    if not recipe.source.custom_ops and not recipe.source.op_packages:
        return None  # nothing to import
    from engine.jobs.custom import operators_of

    return partial(operators_of, recipe, allowed=allowed_code())


def loaded_at_once(pipeline: Pipeline) -> LoadedModel:
    """The loaded model, for a query: nobody waits seconds for one.

    Raises:
        SourceModelError: another program has to convert the model first, which is a job.
    """
    if not pipeline.loads_at_once:
        raise SourceModelError(
            f"{pipeline.model_path.name} is not converted yet.",
            cause="Models of TensorFlow and PyTorch are converted by their own framework, which "
            "takes seconds.",
            remedy="Convert it first (L in the workspace Model, `rknntui inspect --load`); a build "
            "does it too.",
        )
    return pipeline.loaded
