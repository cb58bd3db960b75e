"""Error analysis: float results against simulated ones, layer by layer, entire and single."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.accuracy.distances import Distance, RowSums, Saturation, mean_distance
from engine.accuracy.rows import INPUT, Row, layer_rows
from engine.accuracy.runners import GoldenRunner, IsolatedLayerRunner, SimulatedRunner
from engine.base.errors import UsageError
from engine.base.events import NullReporter, Progress, Reporter
from engine.build import ErrorFigure, SingleError
from engine.graph.metrics import ErrorSums
from engine.quantize import Quantized
from engine.wire import build as wire
from engine.wire.rounding import RoundingSensitivity

__all__ = [
    "AccuracyReport",
    "Distance",
    "LayerAccuracy",
    "Runner",
    "Sink",
    "analyse",
    "chunks",
    "noisiest",
]

CHUNK_BYTES = 16 << 20
"""Tensors of one side that are held at the same time; larger graphs are taken in parts."""
LAYERS = 128
"""Rows of one part: ONNX Runtime's set-up grows with the square of a session's outputs."""


class Runner(Protocol):
    """Anything that runs a graph: a float session, the simulator, a board."""

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None, /
    ) -> dict[str, np.ndarray]:
        """The tensors of that names for one sample, float32."""


class Sink(Protocol):
    """Who takes the tensors of the first sample: the snapshot."""

    def add(self, row: Row, golden: np.ndarray, simulated: np.ndarray | None) -> None:
        """Take one row's results."""


@dataclass(frozen=True)
class LayerAccuracy:
    """One row of an error analysis; simulated.

    Attributes:
        row: which tensor of which layer it is about.
        entire: against the float graph with all errors of the layers before, the mean over the
            samples; None for a tensor that was fused into the next layer.
        single: of this layer alone, on golden inputs.
        error: of ``entire``, all samples together; the figure that a build's summary has.
        single_error: of ``single``, all samples together.
        own_share: how much of the tensor's error this layer makes by itself, 0 to 1; the rest is
            inherited. None without any error.
        saturation: how many float values the quantized tensor cannot hold.
        output_sensitivity: share of the error at the outputs that this layer alone causes; None
            where it was not measured (see
            :func:`engine.accuracy.output_sensitivity.with_output_sensitivity`).
    """

    row: Row
    entire: Distance | None
    single: Distance | None
    error: ErrorFigure | None = None
    single_error: SingleError | None = None
    own_share: float | None = None
    saturation: Saturation | None = None
    output_sensitivity: float | None = None

    @property
    def layer(self) -> str:
        """The layer's id, or the node of an input or of a tensor inside a layer."""
        return self.row.layer

    @property
    def op(self) -> str:
        """The layer's operator."""
        return self.row.shown_op

    @property
    def tensor(self) -> str:
        """The tensor's name as files and tables show it."""
        return self.row.label

    def told(self) -> wire.LayerAccuracy:
        """As the wire has it."""
        row, own = self.row, self.row.result_of
        return wire.LayerAccuracy(
            name=row.layer,
            op=row.shown_op,
            tensor=row.label,
            node=row.node,
            inner=row.inner,
            aliases=(row.node, row.label) if row.of is None else row.of.aliases,
            entire=_told(self.entire),
            single=_told(self.single),
            sqnr=None if self.error is None else self.error.sqnr_db,
            own_sqnr=None if self.single_error is None else self.single_error.sqnr_db,
            own_share=self.own_share,
            saturation=self.saturation,
            dtype=row.dtype,
            sources=row.sources if own is None else own.sources,
            damage=self.output_sensitivity,
        )


def _told(distance: Distance | None) -> wire.Distance | None:
    return None if distance is None else wire.Distance(distance.cosine, distance.euclidean)


@dataclass(frozen=True)
class AccuracyReport:
    """All rows in the float graph's order.

    Attributes:
        layers: one per row.
        samples: how many were analysed; distances are their means, SQNR pools their values.
        rounding: how far other roundings move the net; None where that was not measured.
    """

    layers: tuple[LayerAccuracy, ...]
    samples: int
    rounding: RoundingSensitivity | None = None


def noisiest(report: AccuracyReport, count: int) -> list[LayerAccuracy]:
    """The layers with the lowest SQNR by themselves, at most ``count`` of those with any noise."""
    noisy = [
        (layer.single_error.sqnr_db, place, layer)
        for place, layer in enumerate(report.layers)
        if layer.single_error is not None and layer.single_error.sqnr_db is not None and layer.layer
    ]
    return [layer for _, _, layer in sorted(noisy)[:count]]


def analyse(
    build: Quantized,
    samples: Iterable[Mapping[str, np.ndarray]],
    *,
    rows: Sequence[Row] | None = None,
    golden: Runner | None = None,
    simulator: Runner | None = None,
    sink: Sink | None = None,
    threads: int = 1,
    reporter: Reporter | None = None,
) -> AccuracyReport:
    """Compare every layer of a quantized build with the float graph.

    Args:
        build: its float graph, its quantized one, and its layers.
        samples: feeds, one sample at a time; the vendor takes one, several are averaged.
        rows: of the build, where the caller has them.
        golden, simulator: run the two graphs in the place of ONNX Runtime here.
        sink: gets the tensors of the first sample.
        threads: of the sessions made here.
        reporter: told of the progress, asked whether to stop.

    Raises:
        SimulationError: a graph does not run.
        UsageError: no sample.
    """
    reporter = reporter or NullReporter()
    rows = layer_rows(build) if rows is None else rows
    work = _Work(build, chunks(rows), golden, simulator, threads)
    count = 0
    total = len(samples) if isinstance(samples, Sized) else 0
    for feeds in samples:
        work.add_sample(feeds, sink if count == 0 else None, reporter.check_cancelled)
        count += 1
        reporter.emit(Progress("accuracy", count, total))
    if count == 0:
        raise UsageError("There is no sample to analyse.", remedy="Give the inputs of one sample.")
    return AccuracyReport(tuple(_layer(row, work.sums[row]) for row in rows), count)


def _layer(row: Row, sums: RowSums) -> LayerAccuracy:
    whole, own = (sum(side, ErrorSums()) for side in (sums.entire, sums.single))
    return LayerAccuracy(
        row,
        mean_distance(sums.entire),
        mean_distance(sums.single),
        ErrorFigure(whole.sqnr, whole.cosine, whole.samples) if whole.samples else None,
        SingleError(own.sqnr, own.cosine, own.samples) if own.samples else None,
        min(1.0, own.noise / whole.noise) if whole.noise else None,
        sums.outside.saturation,
    )


def chunks(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows in parts of at most ``LAYERS`` and ``CHUNK_BYTES``, at least one row each."""
    chunks: list[list[Row]] = []
    room = 0
    for row in rows:
        if not chunks or row.size > room or len(chunks[-1]) == LAYERS:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(row)
        room -= row.size
    return chunks


class _Work:
    """The sides of an analysis, part by part, and the sums over its samples."""

    def __init__(
        self,
        build: Quantized,
        parts: Sequence[Sequence[Row]],
        golden: Runner | None,
        simulator: Runner | None,
        threads: int,
    ) -> None:
        self._parts = parts
        self._table = build.table
        self._golden_runner, self._simulator_runner = golden, simulator
        self._golden = GoldenRunner(build.reference, parts, threads)
        self._simulated = SimulatedRunner(build.graph, build.layers, parts, threads)
        self._alone = IsolatedLayerRunner(self._simulated, parts, threads)
        self._golden.keep_for(self._alone)
        self.sums = {row: RowSums() for rows in parts for row in rows}

    def add_sample(
        self, feeds: Mapping[str, np.ndarray], sink: Sink | None, check: Callable[[], None]
    ) -> None:
        """Analyse one sample."""
        known: dict[str, np.ndarray] = {}
        between: dict[str, np.ndarray] = {}
        for index, rows in enumerate(self._parts):
            check()
            if self._golden_runner is None:
                expected = self._golden.run(index, feeds, known)
            else:
                names = [*(row.golden for row in rows), *self._alone.golden(index)]
                expected = _run(self._golden_runner, feeds, names)
            if self._simulator_runner is None:
                found = self._simulated.run(index, feeds, between)
            else:
                names = [row.simulated for row in rows if row.simulated and row.op != INPUT]
                found = _run(self._simulator_runner, feeds, names)
            alone = self._alone.run(index, expected)
            for row in rows:
                self._compare(row, expected, found, alone, sink)

    def _compare(
        self,
        row: Row,
        expected: Mapping[str, np.ndarray],
        found: Mapping[str, np.ndarray],
        alone: Mapping[str, np.ndarray],
        sink: Sink | None,
    ) -> None:
        golden = expected[row.golden]
        simulated = None
        if row.simulated is not None:
            simulated = golden if row.op == INPUT else found[row.simulated]
            params = None if row.op == INPUT else self._table.get(row.golden)
            single = alone.get(row.simulated, simulated)
            span = None if params is None else params.representable_range
            self.sums[row].add(golden, simulated, single, span)
        if sink is not None:
            sink.add(row, golden, simulated)


def _run(
    runner: Runner, feeds: Mapping[str, np.ndarray], tensors: Sequence[str]
) -> dict[str, np.ndarray]:
    """Tensors of one run; inputs stand for themselves."""
    asked = [name for name in dict.fromkeys(tensors) if name not in feeds]
    results = runner.run(feeds, asked) if asked else {}
    return {**feeds, **results}
