"""Golden, simulator and board, layer by layer on one sample, and the first layer that diverges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from engine.accuracy.analyse import Runner, chunks
from engine.accuracy.deviation import deviation, difference_of
from engine.accuracy.rows import Row, layer_rows
from engine.accuracy.runners import (
    GoldenRunner,
    IsolatedLayerRunner,
    SimulatedRunner,
    needed_later,
)
from engine.base.events import NullReporter, Progress, Reporter
from engine.graph.ir import Graph
from engine.graph.layers import Layer, LayerMap
from engine.graph.metrics import error_sums
from engine.quantize import Quantized
from engine.wire.build import Distance
from engine.wire.compare import ComparedLayer
from engine.wire.record import record


class BoardSink(Protocol):
    """Who takes the tensors of the three sides: the snapshot."""

    def add_board(
        self, row: Row, golden: np.ndarray, simulated: np.ndarray, board: np.ndarray
    ) -> None:
        """Take one row's tensors, float32."""


@record(kw_only=True)
class LayerOnBoard(ComparedLayer):
    """A layer's tensor on the three sides.

    Attributes:
        row: which tensor of which layer.
        distances: board against simulator from the model's input on, and of this layer alone, as
            error tables have them.
    """

    row: Row
    distances: tuple[Distance, Distance]


def board_rows(build: Quantized) -> tuple[Row, ...]:
    """The tensors of a build that a board can be asked for: the results of its layers."""
    return tuple(
        row
        for row in layer_rows(build)
        if row.computed and row.result_of is not None and row.golden in row.result_of.outputs
    )


def first_divergence(layers: Sequence[LayerOnBoard]) -> LayerOnBoard | None:
    """The first layer in the graph's order that makes something else of what it was given."""
    return next((layer for layer in layers if layer.diverges), None)


def compare_sides(
    build: Quantized,
    feeds: Mapping[str, np.ndarray],
    groups: Sequence[Sequence[Row]],
    board: Runner,
    *,
    sink: BoardSink | None = None,
    threads: int = 1,
    reporter: Reporter | None = None,
) -> tuple[LayerOnBoard, ...]:
    """Compare one sample three ways.

    Args:
        build: its float graph, its quantized one, and its layers.
        feeds: what all sides are given.
        groups: rows of :func:`board_rows` in their order; each group is one run of the board,
            whose tensors are held at the same time.
        board: gives tensors by the names of ``Row.golden``, float32.
        sink: gets the tensors.
        threads: of the sessions.
        reporter: told of the progress, asked whether to stop.

    Returns:
        One for each row, in their order.

    Raises:
        DeviceError: the board fails.
        SimulationError: a graph does not run, or a tensor of the board has another shape.
    """
    reporter = reporter or NullReporter()
    parts = [part for group in groups for part in chunks(group)]
    runs = [number for number, group in enumerate(groups) for _ in chunks(group)]
    sides = _Sides(build, parts, threads)
    results: Mapping[str, np.ndarray] = {}
    layers_on_board: list[LayerOnBoard] = []
    total = sum(map(len, groups))
    for index, part in enumerate(parts):
        reporter.check_cancelled()
        if index == 0 or runs[index] != runs[index - 1]:
            results = {}  # before the next ones are fetched
            results = board.run(feeds, [row.golden for row in groups[runs[index]]])
        layers_on_board += sides.compare(index, part, feeds, results, sink)
        reporter.emit(Progress("compare", len(layers_on_board), total))
    return tuple(layers_on_board)


class _Sides:
    """The graphs of a comparison, part by part."""

    def __init__(self, build: Quantized, parts: Sequence[Sequence[Row]], threads: int) -> None:
        self._golden = GoldenRunner(build.reference, parts, threads)
        self._golden.keep_for(None)
        self._simulated = SimulatedRunner(build.graph, build.layers, parts, threads)
        self._alone = IsolatedLayerRunner(self._simulated, parts, threads)
        self._keep = needed_later([self._alone.golden(index) for index in range(len(parts))])
        tensors = {row.golden for part in parts for row in part}
        self._inside = _Inside(build.reference, build.layers, tensors)
        self._held: list[dict[str, np.ndarray]] = [{}, {}, {}]

    def compare(
        self,
        index: int,
        rows: Sequence[Row],
        feeds: Mapping[str, np.ndarray],
        board: Mapping[str, np.ndarray],
        sink: BoardSink | None,
    ) -> Iterator[LayerOnBoard]:
        """The rows of a part."""
        golden_held, simulated_held, board_held = self._held
        golden = self._golden.run(index, feeds, golden_held)
        simulated = self._simulated.run(index, feeds, simulated_held)
        known = {**board_held, **feeds, **board}
        alone = self._alone.run(index, known)
        board_held.clear()
        board_held.update({name: known[name] for name in self._keep[index] if name in known})
        for row in rows:
            ours = np.asarray(board[row.golden], np.float32)
            expected = golden[row.golden]
            simulator = simulated[row.simulated or ""]
            own = alone.get(row.simulated or "", simulator)
            if sink is not None:
                sink.add_board(row, expected, simulator, ours)
            yield self._layer(row, expected, simulator, ours, own)

    def _layer(
        self,
        row: Row,
        golden: np.ndarray,
        simulator: np.ndarray,
        board: np.ndarray,
        own: np.ndarray,
    ) -> LayerOnBoard:
        quantized = self._simulated.quantized_tensors[row.simulated or ""]
        between, single = (deviation(board, other, quantized) for other in (simulator, own))
        inside = self._inside.of(row.result_of)
        (lost,) = error_sums(golden, simulator)
        return LayerOnBoard(
            row=row,
            id=row.layer,
            tensor=row.label,
            op=row.shown_op,
            dtype=row.dtype,
            simulator=difference_of(golden, simulator),
            board=difference_of(golden, board),
            between=between.difference,
            steps=between.steps,
            diverges=single.is_more_than_rounding(1 + len(inside), lost),
            own=single.difference,
            own_steps=single.steps,
            moved=None if single.steps is None else single.moved,
            inside=inside,
            distances=(between.distance, single.distance),
        )


class _Inside:
    """Which layers lie between the tensors that are given."""

    def __init__(self, graph: Graph, layers: LayerMap, tensors: Collection[str]) -> None:
        self._graph, self._layers, self._given = graph, layers, tensors

    def of(self, layer: Layer | None) -> tuple[str, ...]:
        """Ids of the layers before this one whose tensors are not given, in no order."""
        names: dict[str, None] = {}
        waiting = [] if layer is None else [layer]
        while waiting:
            for name in waiting.pop().nodes:
                for value in self._graph.node(name).inputs:
                    tensor = "" if value is None else value.name or ""
                    before = self._layers.by_tensor.get(tensor)
                    if before is None or before == layer or tensor in self._given:
                        continue
                    if before.id not in names:
                        names[before.id] = None
                        waiting.append(before)
        return tuple(names)
