"""The worker's jobs ``evaluate`` and ``score``: float against simulated over labelled samples."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.base.errors import UsageError
from engine.base.events import Reporter, StageFinished, StageStarted
from engine.base.text import did_you_mean, printable
from engine.jobs.confirmed import allowed_code
from engine.jobs.queries import text_of, whole_of
from engine.jobs.usercode import named_object
from engine.jobs.warm import pipeline_of, recipe_of

if TYPE_CHECKING:
    from engine.accuracy.score import Evaluated, Metric
    from engine.graph.ir import TensorSpec
    from engine.jobs.pipeline import Pipeline

__all__ = ["evaluate", "evaluate_build", "score"]

_STAGES = ("load", "optimise", "calibrate", "quantize", "score")


def evaluate(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Top-k, or a scoring function of the user's, over labelled samples.

    Args:
        params: ``recipe``; ``labels``: a folder, list or npz (see
            :mod:`engine.accuracy.labelled`); ``top``: a further k beside 1, 5 by default;
            ``output``: with the scores of the classes; ``label_offset``: added to labels;
            ``score``: ``FILE.py:Name`` in the place of top-k.
        reporter: told of the progress.

    Returns:
        As :meth:`engine.accuracy.score.Evaluated.to_json`, with ``seconds`` and ``classes``.

    Raises:
        UsageError: the build is not quantized, or no output can be meant.
        DatasetError: the samples do not fit.
        RecipeError: the scoring function may not run, or does not.
    """
    recipe = recipe_of(params)
    pipeline = pipeline_of(recipe, reporter, stages=_STAGES)
    code = None if params.get("score") is None else text_of(params, "score")
    return evaluate_build(
        pipeline,
        Path(text_of(params, "labels")),
        top=whole_of(params, "top", 5, 1, 1_000_000),
        output=None if params.get("output") is None else text_of(params, "output"),
        offset=whole_of(params, "label_offset", 0, -1_000_000, 1_000_000),
        code=code,
        allowed=allowed_code(),
    )


def evaluate_build(
    pipeline: Pipeline,
    labels: Path,
    *,
    top: int = 5,
    output: str | None = None,
    offset: int = 0,
    code: str | None = None,
    allowed: Collection[Path] = (),
) -> dict[str, Any]:
    """Evaluate a quantized build; arguments and result as of :func:`evaluate`."""
    from engine.accuracy.labelled import read_labelled
    from engine.accuracy.score import TopK, metric_of

    if not pipeline.quantized_build:
        raise UsageError(
            "A build without quantization has nothing to compare.",
            remedy="Build with quantization.",
        )
    labelled = read_labelled(labels)
    metric: Metric
    if code is None:
        metric = TopK(_output(pipeline.loaded.graph.graph.outputs, output), (top,), offset)
    else:
        metric = metric_of(named_object(code, allowed, "score", callable, "function"), code)
    begun = time.perf_counter()
    result = run_metric(pipeline, labelled, metric)
    data = result.to_json()
    data["classes"] = list(labelled.classes)
    data["seconds"] = round(time.perf_counter() - begun, 4)
    return data


def run_metric(pipeline: Pipeline, labelled: Any, metric: Metric) -> Evaluated:
    """Run a metric over the float graph and the quantized one of a pipeline."""
    from engine.accuracy.score import evaluate_labelled
    from engine.dataset import Preprocess
    from engine.simulate import Simulator

    graph = pipeline.optimised.graph.graph
    golden, simulated = Simulator(graph), Simulator(graph, pipeline.quantized.graph.graph)
    reporter, stages = pipeline.reporter, pipeline.stages
    reporter.emit(StageStarted("score", "Score labelled samples", len(stages) - 1, len(stages)))
    begun = time.perf_counter()
    result = evaluate_labelled(
        _outputs(golden),
        _outputs(simulated),
        labelled,
        graph.inputs,
        Preprocess.from_recipe(pipeline.recipe, pipeline.generation),
        metric,
        reporter,
    )
    reporter.emit(StageFinished("score", round(time.perf_counter() - begun, 4)))
    return result


def score(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Top-1 of ``samples`` (an npz) on the build of a recipe, in short: what the demo shows.

    Raises:
        UsageError: the model has several outputs, or the build is not quantized.
        DatasetError: the samples do not fit.
    """
    pipeline = pipeline_of(recipe_of(params), reporter, stages=_STAGES)
    data = evaluate_build(pipeline, Path(text_of(params, "samples")), top=1)
    (first,) = data["scores"]
    return {
        "samples": data["samples"],
        "float_top1": first["float"],
        "simulated_top1": first["simulated"],
        "agreement": data["agreement"],
    }


def _output(specs: tuple[TensorSpec, ...], wanted: str | None) -> str:
    """The output with the scores of the classes: the named one, else the only float one."""
    names = [spec.name for spec in specs if spec.dtype.startswith("float")]
    if wanted is not None:
        if wanted in names:
            return wanted
        raise UsageError(
            f"The model has no float output {printable(wanted, 80)!r}.",
            remedy=did_you_mean(wanted, names) or f"It has {', '.join(names)}.",
        )
    if len(names) != 1:
        raise UsageError(
            f"The model has {len(names)} float outputs; top-k needs one of them.",
            remedy=f"Name it with --output; it has {', '.join(names[:8])}."
            if names
            else "Give a scoring function.",
        )
    return names[0]


def _outputs(simulator: Any) -> Any:
    def predict(feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        found: Mapping[str, np.ndarray] = simulator.run(feeds)
        return found

    return predict
