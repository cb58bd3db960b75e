"""The worker's job of compiling a build for chips, by the vendor's toolkit."""

from __future__ import annotations

from pathlib import Path

from engine.base.errors import UsageError
from engine.base.events import Reporter
from engine.cost.chips import chips_named
from engine.pipeline.compile_sources import channels_first_recipe
from engine.pipeline.compiled import compile_models, compiled_paths
from engine.pipeline.source import RecipeSource
from engine.services.registry import runs
from engine.services.state import get_pipeline, recipe_of
from engine.wire.compile import COMPILE, CompiledModels, CompileParams


@runs(COMPILE)
def compile(params: CompileParams, reporter: Reporter) -> CompiledModels:  # noqa: A001 (its method)
    """Compile a build for every chip asked for; one that fails does not end the others.

    Raises:
        UsageError: no chip is named, or one is not known; several chips would have one file.
        EngineError: the build fails, or a file is there and may not be replaced.
    """
    recipe = recipe_of(params.recipe)
    names = params.chips or tuple(filter(None, [recipe.target.target_platform]))
    if not names:
        raise UsageError(
            "No chip is named to compile for.",
            remedy="Name one or several (--chip rk3588), or set target_platform.",
        )
    chips = chips_named(tuple(dict.fromkeys(names)))
    source = RecipeSource(recipe)
    paths = compiled_paths(Path(params.path), source.path.name, chips)
    steps = [f"compiled-{chip.name}" for chip in chips]
    last = "quantize" if recipe.quantization.do_quantization else "optimise"
    pipeline = get_pipeline(
        channels_first_recipe(recipe, source.model.framework),
        reporter,
        refresh=params.refresh,
        last=last,
        then=steps,
    )
    return compile_models(pipeline, params, paths, recipe)
