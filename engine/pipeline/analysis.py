"""Error analysis of a build: layers cumulative and isolated, snapshot files where asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.accuracy.analyse import AccuracyReport, analyse
from engine.accuracy.output_impact import with_output_impact
from engine.accuracy.rounding import MOST_SAMPLES, rounding_where_it_runs
from engine.accuracy.rows import layer_rows
from engine.accuracy.snapshot import SnapshotWriter, error_table
from engine.base.errors import UsageError
from engine.base.events import ArtifactWritten, Reporter
from engine.dataset import Dataset, dataset_from_paths
from engine.pipeline.board import BoardChoice, OnBoard, compare_on_board
from engine.pipeline.layers import quantized_of, require_comparable
from engine.report import samples_text
from engine.wire import build as wire

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class Analysis:
    """The report of an analysis, which samples it is over in words, the parts of the snapshot that
    were written, and what a board gave.
    """

    report: AccuracyReport
    over: str
    files: tuple[Path, ...]
    board: OnBoard | None = None

    def told(self) -> wire.Analysis:
        """As the wire has it."""
        return wire.Analysis(
            samples=self.report.samples,
            over=self.over,
            layers=self.report.layers,
            files=tuple(map(str, self.files)),
            rounding=self.report.rounding,
        )

    def table(self, generation: int = 2) -> str:
        """The text of ``error_analysis.txt``."""
        layers = None if self.board is None else self.board.layers
        return error_table(self.report, generation=generation, runtime=layers)


def analyse_build(
    pipeline: Pipeline,
    inputs: Sequence[Path] | None = None,
    folder: Path | None = None,
    *,
    force: bool = False,
    output_impact: bool = False,
    rounding: bool = False,
    errors: bool = True,
    board: BoardChoice | None = None,
) -> Analysis:
    """Analyse a quantized build over one sample or several.

    Args:
        pipeline: of the build; stages that are missing run.
        inputs: one file per input, several samples one after the other; None: the first
            calibration sample.
        folder: where the snapshot goes; None writes nothing.
        force: whether a snapshot in ``folder`` may be replaced.
        output_impact: whether to measure what the worst layers alone do to the outputs.
        rounding: whether to measure how far other roundings move the net.
        errors: whether the snapshot holds the table of errors.
        board: also compares with this board, on the first sample.

    Raises:
        UsageError: the build is not quantized, or the model came quantized: there is no float
            model to compare it with [RKNN-T1 1.3.2, 3.6.13; RKNN-T2 2.3.0, 2.13].
        EngineError: an input does not fit, a graph does not run, the folder cannot be written.
    """
    require_comparable(pipeline)
    build = quantized_of(pipeline)
    dataset = _samples(pipeline, inputs)
    reporter = pipeline.reporter
    files: tuple[Path, ...] = ()
    ran: OnBoard | None = None
    with pipeline.step("accuracy", "Compare layer by layer"):
        feeds = pipeline.feeds(dataset)
        if folder is None:
            report = analyse(build, feeds, reporter=reporter)
        else:
            rows = layer_rows(build)
            generation = pipeline.generation
            with SnapshotWriter(folder, rows, force=force, generation=generation) as snapshot:
                if board is not None:  # first: what can be wrong with it is known before long
                    feed = next(iter(pipeline.feeds(dataset.first(1))))
                    ran = compare_on_board(pipeline, feed, board, sink=snapshot)
                report = analyse(build, feeds, rows=rows, sink=snapshot, reporter=reporter)
                layers = None if ran is None else ran.layers
                files = snapshot.finish(report if errors else None, layers)
        if output_impact:
            first = pipeline.feeds(dataset.first(1))
            report = with_output_impact(report, build, first, reporter=reporter)
        if rounding:
            some = pipeline.feeds(dataset.first(MOST_SAMPLES))
            report = replace(report, rounding=rounding_where_it_runs(build, some, reporter))
        _tell(reporter, files)
    over = f"{report.samples} sample{'s' if report.samples != 1 else ''} of yours"
    if inputs is None:
        over = samples_text(report.samples, pipeline.calibration.samples)
    return Analysis(report, over, files, ran)


def compare_build(
    pipeline: Pipeline,
    board: BoardChoice,
    inputs: Sequence[Path] | None = None,
    folder: Path | None = None,
    *,
    layers: Sequence[str] | None = None,
    force: bool = False,
    rounding: bool = False,
) -> tuple[OnBoard, tuple[Path, ...]]:
    """Compare a quantized build with a board on one sample, and write the tensors.

    Args:
        pipeline: of the build; stages that are missing run.
        board: to run on.
        inputs: one file per input; None: the first calibration sample.
        folder: where the tensors of the three sides go; None writes nothing.
        layers: to compare, by any of their names; None for all.
        force: whether a snapshot in ``folder`` may be replaced.
        rounding: whether to measure how far other roundings move the net.

    Returns:
        What was found, and the parts of the snapshot.

    Raises:
        UsageError, DeviceError: see :func:`engine.pipeline.board.compare_on_board`.
        EngineError: an input does not fit, or the folder cannot be written.
    """
    require_comparable(pipeline)
    dataset = _samples(pipeline, inputs)
    if len(dataset) != 1:
        raise UsageError(
            f"{len(dataset)} samples were given; a comparison takes one.",
            remedy="Give one file for each input of the model.",
        )
    with pipeline.step("board", "Compare with the board"):
        feed = next(iter(pipeline.feeds(dataset)))
        if folder is None:
            comparison = compare_on_board(pipeline, feed, board, layers=layers, rounding=rounding)
            return comparison, ()
        rows = layer_rows(quantized_of(pipeline))
        with SnapshotWriter(folder, rows, force=force) as snapshot:
            comparison = compare_on_board(
                pipeline, feed, board, layers=layers, sink=snapshot, rounding=rounding
            )
            files = snapshot.finish(None)
        _tell(pipeline.reporter, files)
    return comparison, files


def _samples(pipeline: Pipeline, inputs: Sequence[Path] | None) -> Dataset:
    """The samples that a user names, else the first of the calibration."""
    if inputs is None:
        return pipeline.dataset.first(1)
    return dataset_from_paths(list(inputs), len(quantized_of(pipeline).reference.inputs))


def _tell(reporter: Reporter, files: Sequence[Path]) -> None:
    for path in files:
        size = path.stat().st_size if path.is_file() else 0
        reporter.emit(ArtifactWritten(str(path), "snapshot", size))
