"""What a worker keeps between requests: results of stages, and the caches behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.cache import LruCache, StageCache
from engine.base.errors import RecipeError, SourceModelError, UsageError
from engine.base.events import Reporter
from engine.base.trust import trusted_code
from engine.options import Values
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.results import LoadedModel
from engine.pipeline.source import RecipeSource
from engine.pipeline.stages import STAGES
from engine.pipeline.stages.graph import loads_at_once
from engine.recipe import Recipe
from engine.wire.requests import ModelTarget

if TYPE_CHECKING:
    from engine.graph.ir.custom import CustomOperators
    from engine.pipeline.runner import Runnable

WORKER_STATE = LruCache()
"""Results of stages and views, by key."""


def recipe_of(values: Values) -> Recipe:
    """The recipe of flat option values; paths start at the current folder.

    Raises:
        RecipeError: an option does not fit.
    """
    return Recipe.from_values(values, Path.cwd())


def recipe_at(target: ModelTarget) -> Recipe:
    """The recipe of a request, or of the model at its path.

    Raises:
        UsageError: it names neither.
        RecipeError: an option does not fit.
    """
    if target.recipe is not None:
        return recipe_of(target.recipe)
    if target.path is None:
        raise UsageError("The request names no recipe and no path.")
    options = {name: value for name, value in target.source.items() if value is not None}
    return recipe_of({"model": target.path, **options})


def get_pipeline(
    recipe: Recipe,
    reporter: Reporter | None = None,
    *,
    refresh: bool = False,
    last: str | None = None,
    then: Sequence[str] = (),
) -> Pipeline:
    """The pipeline of a recipe over the worker's caches; arguments as of :class:`Pipeline`.

    Its stages raise RecipeError where the recipe names Python that nobody allowed to run.

    Raises:
        RecipeError: the recipe names no model.
    """
    if recipe.source.model is None:
        raise RecipeError("The recipe names no model.", remedy="Set model to a model file.")
    return Pipeline(
        recipe,
        STAGES,
        reporter=reporter,
        cache=StageCache(),
        memory=WORKER_STATE,
        refresh=refresh,
        source=RecipeSource(recipe, None, _operators_of(recipe)),
        last=last,
        then=then,
    )


def _operators_of(recipe: Recipe) -> Callable[[], CustomOperators] | None:
    """What gives the custom operators that a recipe names, as the present request allows them."""
    if not recipe.source.custom_ops and not recipe.source.op_packages:
        return None  # nothing to import
    from engine.pipeline.trusted_code import load_custom_ops

    return partial(load_custom_ops, recipe, allowed=trusted_code())


def float_runnable(pipeline: Pipeline) -> Runnable:
    """The float graph of a build, kept for the next sample."""
    from engine.pipeline.runner import Runnable

    key = f"run {pipeline.optimised.key}"
    kept: Runnable = WORKER_STATE.get_or_make(key, lambda: Runnable.of_float(pipeline))
    return kept


def load_directly(pipeline: Pipeline) -> LoadedModel:
    """The loaded model, for a query: nobody waits seconds for one.

    Raises:
        SourceModelError: another program has to convert the model first, which is a job.
    """
    if not loads_at_once(pipeline):
        raise SourceModelError(
            f"{pipeline.source.path.name} is not converted yet.",
            cause="TensorFlow and PyTorch models are converted by their framework, which takes "
            "seconds.",
            remedy="Convert it first (L in the workspace Model, `rknntui inspect --load`); a build "
            "does it too.",
        )
    return pipeline.loaded
