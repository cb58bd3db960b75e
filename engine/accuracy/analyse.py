"""Error analysis: float against simulated results, by layer, cumulative and isolated; distances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from engine.accuracy.rows import INPUT, Row, layer_rows
from engine.accuracy.runners import GoldenRunner, IsolatedLayerRunner, SimulatedRunner
from engine.base.errors import UsageError
from engine.base.events import NullReporter, Progress, Reporter
from engine.graph.metrics import ErrorSums, error_sums
from engine.quantize import Quantized
from engine.wire.accuracy import RoundingSensitivity
from engine.wire.build import Distance, LayerAccuracy
from engine.wire.model import Saturation

# Distances of a row's tensors, and how much of them the integers cannot hold, over samples.


@dataclass
class Outside:
    """Counts of values that lie below and above what a tensor's integers hold.

    Attributes:
        low, high: how many.
        values: how many were looked at.
    """

    low: int = 0
    high: int = 0
    values: int = 0

    def add(self, array: np.ndarray, span: tuple[float, float] | None) -> None:
        """Count an array's values; None: the tensor has no integers, or a range per channel."""
        if span is not None:
            self.low += int(np.count_nonzero(array < span[0]))
            self.high += int(np.count_nonzero(array > span[1]))
            self.values += array.size

    @property
    def saturation(self) -> Saturation | None:
        """The shares; None where nothing was looked at."""
        if not self.values:
            return None
        return Saturation(self.low / self.values, self.high / self.values)


@dataclass
class RowSums:
    """Of one row over the samples.

    Attributes:
        cumulative, isolated: sums of each sample, of the whole run and of the layer alone.
        outside: of the golden values.
    """

    cumulative: list[ErrorSums] = field(default_factory=list)
    isolated: list[ErrorSums] = field(default_factory=list)
    outside: Outside = field(default_factory=Outside)

    def add(
        self,
        golden: np.ndarray,
        whole: np.ndarray,
        alone: np.ndarray,
        span: tuple[float, float] | None,
    ) -> None:
        """Take one sample's tensors: float32, of one shape."""
        sums = error_sums(golden, *((whole,) if alone is whole else (whole, alone)))
        self.cumulative.append(sums[0])
        self.isolated.append(sums[-1])
        self.outside.add(golden, span)


def mean_distance(sums: Sequence[ErrorSums]) -> Distance | None:
    """The mean over samples; None where there is none."""
    if not sums:
        return None
    cosine = sum(one.cosine for one in sums) / len(sums) if all(s.finite for s in sums) else None
    return Distance(cosine, sum(one.euclidean for one in sums) / len(sums))


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

    def add(
        self,
        row: Row,
        golden: np.ndarray,
        simulated: np.ndarray | None,
        board: np.ndarray | None = None,
    ) -> None:
        """Take one row's results, float32."""


@dataclass(frozen=True)
class AccuracyReport:
    """All rows in the float graph's order.

    Attributes:
        layers: one per row.
        rows: which tensor of which graph each of them is about.
        samples: how many were analysed; distances are their means, SQNR pools their values.
        rounding: how far other roundings move the net; None where that was not measured.
    """

    layers: tuple[LayerAccuracy, ...]
    rows: tuple[Row, ...]
    samples: int
    rounding: RoundingSensitivity | None = None


def noisiest(report: AccuracyReport, count: int) -> list[LayerAccuracy]:
    """The layers with the lowest SQNR by themselves, at most ``count`` of those with any noise."""
    noisy = [
        (layer.isolated_sqnr, place, layer)
        for place, layer in enumerate(report.layers)
        if layer.isolated_sqnr is not None and layer.id
    ]
    return [layer for _, _, layer in sorted(noisy)[:count]]


def analyse(
    build: Quantized,
    samples: Iterable[Mapping[str, np.ndarray]],
    *,
    rows: Sequence[Row] | None = None,
    sink: Sink | None = None,
    reporter: Reporter | None = None,
) -> AccuracyReport:
    """Compare every layer of a quantized build with the float graph.

    Args:
        build: its float graph, its quantized one, and its layers.
        samples: feeds, one sample at a time; the vendor takes one, several are averaged.
        rows: of the build, where the caller has them.
        sink: gets the tensors of the first sample.
        reporter: told of the progress, asked whether to stop.

    Raises:
        SimulationError: a graph does not run.
        UsageError: no sample.
    """
    reporter = reporter or NullReporter()
    rows = layer_rows(build) if rows is None else rows
    work = _Work(build, chunks(rows))
    count = 0
    total = len(samples) if isinstance(samples, Sized) else 0
    for feeds in samples:
        work.add_sample(feeds, sink if count == 0 else None, reporter.check_cancelled)
        count += 1
        reporter.emit(Progress("accuracy", count, total))
    if count == 0:
        raise UsageError("There is no sample to analyse.", remedy="Give the inputs of one sample.")
    layers = tuple(_layer(row, work.sums[row]) for row in rows)
    return AccuracyReport(layers, tuple(rows), count)


def _layer(row: Row, sums: RowSums) -> LayerAccuracy:
    whole, alone = (sum(side, ErrorSums()) for side in (sums.cumulative, sums.isolated))
    layer = row.result_of
    return LayerAccuracy(
        id=row.layer,
        op=row.shown_op,
        tensor=row.label,
        node=row.node,
        inner=row.inner,
        aliases=(row.node, row.label) if row.of is None else row.of.aliases,
        dtype=row.dtype,
        sources=row.sources if layer is None else layer.sources,
        cumulative=mean_distance(sums.cumulative),
        isolated=mean_distance(sums.isolated),
        sqnr=whole.sqnr if whole.samples else None,
        isolated_sqnr=alone.sqnr if alone.samples else None,
        added_share=min(1.0, alone.noise / whole.noise) if whole.noise else None,
        saturation=sums.outside.saturation,
    )


def chunks(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows in parts of at most ``LAYERS`` and ``CHUNK_BYTES``, at least one row each."""
    return parts_of(rows, CHUNK_BYTES, LAYERS)


def parts_of(rows: Sequence[Row], most_bytes: int, most_rows: int) -> list[list[Row]]:
    """Rows in parts of at most so many and so large, at least one row each."""
    parts: list[list[Row]] = []
    room = 0
    for row in rows:
        if not parts or row.size > room or len(parts[-1]) == most_rows:
            parts.append([])
            room = most_bytes
        parts[-1].append(row)
        room -= row.size
    return parts


class _Work:
    """The sides of an analysis, part by part, and the sums over its samples."""

    def __init__(self, build: Quantized, parts: Sequence[Sequence[Row]]) -> None:
        self._parts = parts
        self._table = build.table
        self._golden = GoldenRunner(build.reference, parts)
        self._simulated = SimulatedRunner(build.graph, build.layers, parts)
        self._alone = IsolatedLayerRunner(self._simulated, parts)
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
            expected = self._golden.run(index, feeds, known)
            simulated = self._simulated.run(index, feeds, between)
            alone = self._alone.run(index, expected)
            for row in rows:
                self._compare(row, expected, simulated, alone, sink)

    def _compare(
        self,
        row: Row,
        expected: Mapping[str, np.ndarray],
        results: Mapping[str, np.ndarray],
        alone: Mapping[str, np.ndarray],
        sink: Sink | None,
    ) -> None:
        golden = expected[row.golden]
        simulated = None
        if row.simulated is not None:
            simulated = golden if row.op == INPUT else results[row.simulated]
            params = None if row.op == INPUT else self._table.get(row.golden)
            single = alone.get(row.simulated, simulated)
            span = None if params is None else params.representable_range
            self.sums[row].add(golden, simulated, single, span)
        if sink is not None:
            sink.add(row, golden, simulated)
