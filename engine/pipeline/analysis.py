"""Error analysis of a build: layers entire and single, snapshot files where asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.accuracy.analyse import AccuracyReport, analyse
from engine.accuracy.output_sensitivity import with_output_sensitivity
from engine.accuracy.rows import layer_rows
from engine.accuracy.snapshot import SnapshotWriter, error_table
from engine.base.errors import UsageError
from engine.base.events import ArtifactWritten
from engine.dataset import dataset_from_paths
from engine.pipeline.layers import quantized_of
from engine.quantize import is_quantized_source
from engine.report import samples_text
from engine.wire import build as wire

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline

__all__ = ["Analysis", "analyse_build"]


class Analysis:
    """The report of an analysis, which samples it is over in words, and the parts of the snapshot
    that were written.
    """

    def __init__(self, report: AccuracyReport, over: str, files: Sequence[Path]) -> None:
        self.report = report
        self.over = over
        self.files = tuple(files)

    def told(self) -> wire.Analysis:
        """As the wire has it."""
        return wire.Analysis(
            samples=self.report.samples,
            over=self.over,
            layers=tuple(layer.told() for layer in self.report.layers),
            files=tuple(map(str, self.files)),
        )

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
            model to compare it with [RKNN-T1 1.3.2, 3.6.13; RKNN-T2 2.3.0, 2.13].
        EngineError: an input does not fit, a graph does not run, the folder cannot be written.
    """
    _require_comparable(pipeline)
    build = quantized_of(pipeline)
    if inputs is None:
        dataset = pipeline.dataset.first(1)
    else:
        dataset = dataset_from_paths(list(inputs), len(build.reference.inputs))
    reporter = pipeline.reporter
    files: tuple[Path, ...] = ()
    with pipeline.step("accuracy", "Compare layer by layer"):
        feeds = pipeline.feeds(dataset)
        if folder is None:
            report = analyse(build, feeds, reporter=reporter)
        else:
            rows = layer_rows(build)
            generation = pipeline.generation
            with SnapshotWriter(folder, rows, force=force, generation=generation) as snapshot:
                report = analyse(build, feeds, rows=rows, sink=snapshot, reporter=reporter)
                files = snapshot.finish(report if errors else None)
        if damage:
            first = pipeline.feeds(dataset.first(1))
            report = with_output_sensitivity(report, build, first, reporter=reporter)
        for path in files:
            size = path.stat().st_size if path.is_file() else 0
            reporter.emit(ArtifactWritten(str(path), "snapshot", size))
    over = f"{report.samples} sample{'s' if report.samples != 1 else ''} of yours"
    if inputs is None:
        over = samples_text(report.samples, pipeline.calibration.samples)
    return Analysis(report, over, files)


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
            "The model was already quantized: there is no float model to compare with.",
            cause="Both manuals ask for a model that was not quantized.",
            remedy="Analyse the float model that it was made from.",
        )
