"""From what a request names to what runs on a board: the file, its inputs and its layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.content import reading
from engine.base.errors import DatasetError, UsageError
from engine.base.events import Reporter
from engine.services.state import float_runnable, get_pipeline, recipe_of
from engine.wire.requests import ModelTarget

if TYPE_CHECKING:
    import numpy as np

    from engine.dataset import Preprocess
    from engine.devices.model_source import ModelSource
    from engine.graph.ir import Graph
    from engine.graph.layers import LayerMap
    from engine.pipeline.pipeline import Pipeline
    from engine.recipe import Recipe


def model_source(target: ModelTarget, build: ModelTarget | None, reporter: Reporter) -> ModelSource:
    """What runs on a board.

    Args:
        target: a compiled model or a container of ours by its path, or a recipe; where both are
            given the file runs, and the recipe tells of its inputs and layers.
        build: that a compiled model was made from, where ``target`` does not say it.
        reporter: told of the stages of a build.

    Raises:
        UsageError: it names neither.
        RecipeError, ContainerError: a recipe or a container cannot be read.
    """
    from engine.devices.model_source import ModelSource

    path = None if target.path is None else Path(target.path)
    recipe = target.recipe if build is None or build.recipe is None else build.recipe
    kind = "" if path is None else _kind(path)
    if path is not None and kind == "rknn":
        container: Path | None = path  # it knows its own build best
    elif recipe is not None:
        return _of_recipe(path, recipe_of(recipe), reporter)
    elif path is None:
        raise UsageError("The request names no recipe and no path.")
    else:
        container = None if build is None or build.path is None else Path(build.path)
    if container is None:
        return ModelSource(path)
    layers = partial(_layers_of_container, container)
    return ModelSource(path, None, _preprocess_of(container), layers)


def _of_recipe(path: Path | None, recipe: Recipe, reporter: Reporter) -> ModelSource:
    from engine.dataset import Preprocess
    from engine.devices.model_source import ModelSource

    def pipeline() -> Pipeline:
        # the board's own stages are numbered; those of a build stand between them
        return get_pipeline(recipe, reporter, last="")

    def layers() -> LayerMap | None:
        if path is not None and recipe.source.model is None:
            return None  # a file runs, and nobody said what it was made from
        return _layers_of_build(pipeline())

    def content() -> bytes:
        return pipeline().packed.data

    preprocess = Preprocess.from_recipe(recipe)

    def floats(paths: Sequence[Path]) -> Sequence[np.ndarray]:
        from engine.dataset import dataset_from_paths, samples

        if path is not None and recipe.source.model is None:
            return ()
        runnable = float_runnable(pipeline())
        dataset = dataset_from_paths(paths, len(runnable.inputs))
        feed = next(samples(dataset, runnable.inputs, preprocess, reporter))
        return tuple(runnable.run(feed).values())

    name = Path(recipe.source.model or "build").name
    return ModelSource(path, content, preprocess, layers, name, floats)


def _layers_of_build(pipeline: Pipeline) -> LayerMap:
    """The layers of a build; those of the optimised graph where it is not quantized yet.

    They have the same names: a table of a board needs no calibration.
    """
    if pipeline.quantized_build and pipeline.samples.is_named:
        try:
            if pipeline.has("quantize"):
                return pipeline.quantized.layers
        except DatasetError:
            pass  # the samples are gone, the names are not
    return _layers_of_graph(pipeline.optimised.graph.graph)


def _layers_of_graph(graph: Graph) -> LayerMap:
    from engine.quantize import is_quantized_source, layers_of, plan

    return layers_of(graph) if is_quantized_source(graph) else plan(graph).layers


def _kind(path: Path) -> str:
    """``rknn`` for a container of ours, ``rknn_vendor`` for a compiled model.

    Raises:
        ContainerError: it is neither.
    """
    from engine.devices.board.model_file import model_file
    from engine.frontends.sniff import sniff

    kind = sniff(path).kind
    if kind not in ("rknn", "rknn_vendor"):
        model_file(path)  # which says what it is, before a board is looked for
    return kind


def _preprocess_of(path: Path) -> Preprocess:
    """How a container of ours has its pictures prepared."""
    from engine.dataset import Preprocess
    from engine.pipeline.runner import does_not_run, load_packed
    from engine.recipe import portable_recipe

    container = load_packed(path)
    with reading(lambda why: does_not_run(path, why)):
        return Preprocess.from_recipe(portable_recipe(container.recipe))


def _layers_of_container(path: Path) -> LayerMap | None:
    from engine.pipeline.runner import load_packed

    container = load_packed(path)
    return container.layers or _layers_of_graph(container.graph)
