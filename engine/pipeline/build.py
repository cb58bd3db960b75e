"""A whole build: every stage of a recipe, and the one summary that ends it in every front end."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.events import LogLine
from engine.build import BuildSummary
from engine.options import OPTIONS
from engine.pipeline.pipeline import Pipeline
from engine.report import sqnr_rank

if TYPE_CHECKING:
    from engine.recipe import Recipe

_WORST = 3
"""Layers that a summary names."""


@dataclass(frozen=True)
class BuildResult:
    """A whole build: the pipeline with every stage done, the container, and the summary."""

    pipeline: Pipeline
    container: bytes
    summary: BuildSummary


def build(pipeline: Pipeline) -> BuildResult:
    """Run every stage of a recipe and sum up.

    Raises:
        EngineError: whatever a stage could not do.
    """
    container = pipeline.packed.data
    summary = summarise(pipeline, len(container))
    for finding in summary.findings:
        if finding.severity != "info":
            pipeline.reporter.emit(LogLine(f"{finding.where}: {finding.what}", "warning"))
    return BuildResult(pipeline, container, summary)


def summarise(pipeline: Pipeline, container_bytes: int) -> BuildSummary:
    """Sum up a pipeline whose stages are done.

    Args:
        pipeline: of the build.
        container_bytes: size of its container.
    """
    recipe = pipeline.recipe
    options = recipe.quantization
    quantized = pipeline.quantized_build
    evaluation = pipeline.evaluation if quantized else None
    layers = () if evaluation is None else evaluation.layers
    return BuildSummary(
        key=pipeline.key("container"),
        name=pipeline.source.path.name,
        quantized=quantized,
        quantized_dtype=options.quantized_dtype,
        quantized_algorithm=options.quantized_algorithm,
        quantized_method=options.quantized_method,
        samples=pipeline.calibration.samples if quantized else 0,
        float_bytes=len(pipeline.optimised.graph.data),
        quantized_bytes=len(pipeline.quantized.graph.data) if quantized else None,
        container_bytes=container_bytes,
        nodes=len(pipeline.optimised.graph.graph),
        layers=() if evaluation is None else evaluation.coverage,
        outputs=() if evaluation is None else evaluation.outputs,
        worst=tuple(sorted(layers, key=lambda error: sqnr_rank(error.sqnr_db))[:_WORST]),
        findings=pipeline.findings,
        stages=tuple(pipeline.times),
        next_command=next_command(recipe),
    )


def next_command(recipe: Recipe) -> str:
    """The command line that exports this build, with every option that is not a default."""
    words = ["rknntui", "export", recipe.source.model or "MODEL"]
    values = recipe.to_values()
    for declared in OPTIONS:
        if declared.name == "model" or declared.name not in values:
            continue
        if declared.name == "do_quantization":
            words.append("--no-quantize")
        else:
            words += [declared.flag, declared.render(values[declared.name])]
    stem = (recipe.source.model or "model").rpartition("/")[2].rpartition(".")[0] or "model"
    return shlex.join([*words, "-o", f"{stem}.rknn"])
