"""The worker's job ``evaluate``: float against simulated over labelled samples."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from engine.accuracy.labelled import read_labelled
from engine.accuracy.score import TopK, evaluate_labelled, metric_of
from engine.base.errors import UsageError
from engine.base.events import Reporter
from engine.base.text import did_you_mean, sanitize
from engine.base.trust import trusted_code
from engine.dataset import Preprocess, require_files
from engine.pipeline.trusted_code import named_object
from engine.services.registry import runs
from engine.services.state import get_pipeline, recipe_of
from engine.simulate import Simulator, open_arithmetic
from engine.wire.accuracy import (
    EVALUATE,
    Evaluated,
    EvaluateParams,
    RoundedScore,
    Score,
)

if TYPE_CHECKING:
    from engine.accuracy.labelled import LabelledDataset
    from engine.accuracy.score import Evaluated as Figures
    from engine.accuracy.score import Metric
    from engine.graph.execute import Session
    from engine.graph.ir import TensorSpec
    from engine.pipeline.pipeline import Pipeline


@runs(EVALUATE)
def evaluate(params: EvaluateParams, reporter: Reporter) -> Evaluated:
    """Top-k, or a scoring function of the user's, over labelled samples.

    Raises:
        UsageError: the build is not quantized, or no output can be meant.
        DatasetError: the samples do not fit.
        RecipeError: the scoring function may not run, or does not.
    """
    return evaluate_build(
        get_pipeline(recipe_of(params.recipe), reporter, last="quantize", then=("score",)),
        Path(params.labels),
        top=params.top,
        output=params.output,
        offset=params.label_offset,
        code=params.score,
        rounding=params.rounding,
        allowed=trusted_code(),
    )


def evaluate_build(
    pipeline: Pipeline,
    labels: Path,
    *,
    top: int = 5,
    output: str | None = None,
    offset: int = 0,
    code: str | None = None,
    rounding: bool = False,
    allowed: Collection[Path] = (),
) -> Evaluated:
    """Evaluate a quantized build; arguments and result as of :func:`evaluate`."""
    if not pipeline.quantized_build:
        raise UsageError(
            "A build without quantization has nothing to compare.",
            remedy="Build with quantization.",
        )
    labelled = read_labelled(labels)
    if labelled.dataset is not None:  # else the whole build would come before
        require_files(labelled.dataset, pipeline.reporter)

    def metric() -> Metric:
        if code is None:
            return TopK(_output(pipeline.loaded.graph.graph.outputs, output), (top,), offset)
        return metric_of(named_object(code, allowed, "score", callable, "function"), code)

    begun = time.perf_counter()
    result = _run_metric(pipeline, labelled, metric())
    other = _run_metric(pipeline, labelled, metric(), rounding=True) if rounding else None
    seconds = round(time.perf_counter() - begun, 4)
    return Evaluated(
        samples=result.samples,
        scores=result.scores,
        agreement=result.agreement,
        note=result.note,
        label="simulated",
        classes=tuple(labelled.classes),
        seconds=seconds,
        rounding=() if other is None else tuple(map(_rounded, other.scores)),
        rounding_agreement=None if other is None else other.agreement,
    )


def _rounded(score: Score) -> RoundedScore:
    """A figure whose two sides are the arithmetics."""
    return RoundedScore(
        score.name, score.golden, score.simulated, score.difference, score.difference_interval
    )


def _run_metric(
    pipeline: Pipeline, labelled: LabelledDataset, metric: Metric, *, rounding: bool = False
) -> Figures:
    """Run a metric over the float graph and the quantized one of a pipeline; with ``rounding``
    over the quantized one in both arithmetics, integer and reference.
    """
    graph = pipeline.optimised.graph.graph
    done = pipeline.quantized
    first: Simulator | Session = Simulator(graph)
    second: Simulator | Session = Simulator(graph, done.graph.graph, layers=done.layers)
    if rounding:
        first, second = second, open_arithmetic(done.graph.graph, "reference")
    title = "Score the other arithmetic" if rounding else "Score labelled samples"
    with pipeline.step("score", title):
        return evaluate_labelled(
            first.run,
            second.run,
            labelled,
            graph.inputs,
            Preprocess.from_recipe(pipeline.recipe, pipeline.generation),
            metric,
            pipeline.reporter,
        )


def _output(specs: tuple[TensorSpec, ...], output: str | None) -> str:
    """The output with the scores of the classes: the named one, else the only float one."""
    names = [spec.name for spec in specs if spec.dtype.startswith("float")]
    if output is not None:
        if output in names:
            return output
        raise UsageError(
            f"The model has no float output {sanitize(output, 80)!r}.",
            remedy=did_you_mean(output, names) or f"It has {', '.join(names)}.",
        )
    if len(names) != 1:
        raise UsageError(
            f"The model has {len(names)} float outputs; top-k needs one of them.",
            remedy=f"Name it with --output; it has {', '.join(names[:8])}."
            if names
            else "Give a scoring function.",
        )
    return names[0]
