"""Error analysis of a build: layers entire and single, snapshot files where asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.accuracy.analyse import AccuracyReport, analyse
from engine.accuracy.damage import with_damage
from engine.accuracy.rows import layer_rows
from engine.accuracy.snapshot import SnapshotWriter, error_table
from engine.base.errors import UsageError
from engine.base.events import ArtifactWritten, StageFinished, StageStarted
from engine.dataset import dataset_from_paths
from engine.quantize import is_quantized_source

if TYPE_CHECKING:
    from engine.jobs.pipeline import Pipeline

__all__ = ["Analysis", "analyse_build"]


class Analysis:
    """The report of an analysis and the parts of the snapshot that were written."""

    def __init__(self, report: AccuracyReport, files: Sequence[Path]) -> None:
        self.report = report
        self.files = tuple(files)

    def to_json(self) -> dict[str, Any]:
        """For the worker protocol: ``samples``, ``layers``, ``files``."""
        return {**self.report.to_json(), "files": [str(path) for path in self.files]}

    def table(self, generation: int = 2) -> str:
        """The text of ``error_analysis.txt``."""
        return error_table(self.report, generation=generation)


def analyse_build(
    pipeline: Pipeline,
    inputs: Sequence[Path] | None = None,
    folder: Path | None = None,
    *,
    force: bool = False,
    damage: bool = False,
    errors: bool = True,
) -> Analysis:
    """Analyse a quantized build over one sample or several.

    Args:
        pipeline: of the build; stages that are missing run.
        inputs: one file per input, several samples one after the other; None: the first
            calibration sample.
        folder: where the snapshot goes; None writes nothing.
        force: whether a snapshot in ``folder`` may be replaced.
        damage: whether to measure what the worst layers alone do to the outputs.
        errors: whether the snapshot holds the table of errors.

    Raises:
        UsageError: the build is not quantized, or the model came quantized: there is no float
            model to compare it with (000:1319, 002:1501).
        EngineError: an input does not fit, a graph does not run, the folder cannot be written.
    """
    _require_comparable(pipeline)
    float_graph = pipeline.reference
    qdq_graph = pipeline.quantized.graph.graph
    if inputs is None:
        dataset = pipeline.dataset.first(1)
    else:
        dataset = dataset_from_paths(list(inputs), len(float_graph.inputs))
    reporter = pipeline.reporter
    count = len(pipeline.stages)
    begun = time.perf_counter()
    reporter.emit(StageStarted("accuracy", "Compare layer by layer", count - 1, count))
    feeds = pipeline.feeds(dataset)
    files: tuple[Path, ...] = ()
    if folder is None:
        report = analyse(float_graph, qdq_graph, feeds, reporter=reporter)
    else:
        rows = layer_rows(float_graph, qdq_graph)
        generation = pipeline.generation
        with SnapshotWriter(folder, rows, force=force, generation=generation) as snapshot:
            report = analyse(
                float_graph, qdq_graph, feeds, rows=rows, sink=snapshot, reporter=reporter
            )
            files = snapshot.finish(report if errors else None)
    if damage:
        first = pipeline.feeds(dataset.first(1))
        report = with_damage(report, float_graph, qdq_graph, first, reporter=reporter)
    for path in files:
        size = path.stat().st_size if path.is_file() else 0
        reporter.emit(ArtifactWritten(str(path), "snapshot", size))
    reporter.emit(StageFinished("accuracy", round(time.perf_counter() - begun, 4)))
    return Analysis(report, files)


def _require_comparable(pipeline: Pipeline) -> None:
    """Is there a float model that the build can be compared with?

    Raises:
        UsageError: there is none.
    """
    if not pipeline.quantized_build:
        raise UsageError(
            "The build is not quantized: there is no error to analyse.",
            remedy="Build with quantization.",
        )
    if is_quantized_source(pipeline.optimised.graph.graph):
        raise UsageError(
            "The model came with its own quantization: there is no float model to compare it with.",
            cause="Both manuals ask for a model that was not quantized.",
            remedy="Analyse the float model that it was made from.",
        )
