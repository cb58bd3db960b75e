"""The worker's job ``score``: top-1 before and after quantization over labelled samples."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.base.errors import UsageError
from engine.base.events import Reporter, StageFinished, StageStarted
from engine.jobs.queries import text_of
from engine.jobs.warm import pipeline_of, recipe_of

if TYPE_CHECKING:
    from engine.simulate import Simulator

__all__ = ["score"]


def score(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Score ``samples`` (an npz, see :mod:`engine.accuracy.score`) on the build of a recipe.

    Raises:
        UsageError: the model has several inputs or outputs, or the build is not quantized.
        DatasetError: the samples do not fit.
    """
    from engine.accuracy.score import read_labelled, top1
    from engine.dataset import Preprocess
    from engine.simulate import Simulator

    recipe = recipe_of(params)
    stages = ("load", "optimise", "calibrate", "quantize", "score")
    pipeline = pipeline_of(recipe, reporter, stages=stages)
    if not pipeline.quantized_build:
        raise UsageError("A build without quantization has nothing to compare.")
    labelled = read_labelled(Path(text_of(params, "samples")))
    graph = pipeline.optimised.graph.graph
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise UsageError("Top-1 needs a model with one input and one output.")
    golden, simulated = Simulator(graph), Simulator(graph, pipeline.quantized.graph.graph)
    reporter.emit(StageStarted("score", "Score the test samples", len(stages) - 1, len(stages)))
    begun = time.perf_counter()
    plan = Preprocess.from_recipe(recipe).plans(graph.inputs)[0]
    result = top1(_answers(golden), _answers(simulated), labelled, plan, reporter)
    reporter.emit(StageFinished("score", round(time.perf_counter() - begun, 4)))
    return result.to_json()


def _answers(simulator: Simulator) -> Any:
    name = simulator.outputs[0].name

    def predict(feeds: Mapping[str, np.ndarray]) -> np.ndarray:
        return simulator.run(feeds)[name]

    return predict
