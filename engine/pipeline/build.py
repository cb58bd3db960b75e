"""A whole build: every stage of a recipe, and the summary that ends it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.events import LogLine
from engine.build import BuildSummary
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.summary import summarise

__all__ = ["BuildResult", "build"]


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
