"""Golden, simulator and board, layer by layer: what diverges by more than rounding explains.

A layer is judged by what it makes of the inputs that it was given on the board.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.accuracy.analyse import Runner, Sink, chunks
from engine.accuracy.guide import GOOD
from engine.accuracy.rows import Row, layer_rows
from engine.accuracy.runners import (
    GoldenRunner,
    IsolatedLayerRunner,
    QuantizedTensor,
    SimulatedRunner,
    needed_later,
)
from engine.base.events import NullReporter, Progress, Reporter
from engine.graph.ir import Graph
from engine.graph.ir.spec import name_of
from engine.graph.layers import Layer, LayerMap
from engine.graph.metrics import ErrorSums, error_sums
from engine.quantize import Quantized
from engine.wire.build import Distance
from engine.wire.compare import ComparedLayer, Difference
from engine.wire.record import record

# Whether a board computes a layer otherwise than the simulator: more than rounding explains.
#
# A layer is judged by what it makes of the inputs that it was given on the board: the simulator
# computes it on the board's own tensors, and the two results are compared. Errors of earlier layers
# are in both of them and play no part. The limits, with their reasons, are in docs/devices.md.

FAR = 0.001
"""Share of the values that may be more than one step off: of sums that are rounded twice."""
MOVED = 0.5
"""Share of the values that may be one step off: truncated or rounded, half of them differ, in a
tensor of n values by chance up to ``1.5 / sqrt(n)`` more (three standard deviations)."""
LEAST_SQNR = 40.0
"""In dB, for tensors of 16 bits and more: a rounding to half precision gives 73 dB, and the sum of
a thousand of them 43."""
ROUNDINGS = 4.0
"""Times the noise of quantization that two ways of rounding may be apart: each has that noise, and
where they are opposed the difference is twice as large, its square four times."""
SEEN = 2 * (1 - GOOD)
"""Of the signal's power: less is not held against several layers, as of one sample the noise of
quantization can be small by chance. It is the manual's cosine for two vectors of one length."""

_FAR_STEPS = 1.5
_MOVED_STEPS = 0.5
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Deviation:
    """How far a tensor of a board is from another one of the same layer.

    Attributes:
        sums: against the other one.
        maximum: the greatest difference of two values; NaN where one is no number.
        steps: the greatest difference in steps; None where the tensor is not quantized.
        moved: share of the values that are another integer.
        far: share of the values that are more than one integer off.
        count: of values.
        fine: whether a step is that of 16 bits: chips compute parts of such a layer in half
            precision, and its steps say nothing.
    """

    sums: ErrorSums
    maximum: float
    steps: float | None = None
    moved: float = 0.0
    far: float = 0.0
    count: int = 0
    fine: bool = False

    @property
    def difference(self) -> Difference:
        """As the wire has it."""
        sums, finite = self.sums, self.sums.finite
        return Difference(
            sums.cosine if finite else None,
            sums.sqnr,
            self.maximum if math.isfinite(self.maximum) else None,
        )

    @property
    def distance(self) -> Distance:
        """As error tables have it."""
        return Distance(self.sums.cosine if self.sums.finite else None, self.sums.euclidean)

    def is_more_than_rounding(self, layers: int = 1, quantization: ErrorSums | None = None) -> bool:
        """Whether rounding does not explain it.

        Args:
            layers: that were computed one after the other; 1 for a layer alone.
            quantization: of this tensor in the simulator against the float one: what rounding
                costs. Needed for several layers, whose steps add up in a way that nobody knows.
        """
        if not self.sums.finite or not math.isfinite(self.maximum):
            return True
        if self.steps is None or self.fine:
            sqnr = self.sums.sqnr
            apart = sqnr is not None and sqnr < LEAST_SQNR
        else:
            apart = self.far > FAR or self.moved > MOVED + 1.5 / math.sqrt(max(1, self.count))
        if layers > 1 and apart and quantization is not None:
            bound = max(ROUNDINGS * quantization.noise, SEEN * self.sums.signal)
            return self.sums.noise > bound
        return apart


def deviation(board: np.ndarray, other: np.ndarray, quantized: QuantizedTensor) -> Deviation:
    """Compare a tensor of a board with another one.

    Args:
        board: float32, dequantized.
        other: of the same shape and kind.
        quantized: what its steps are.

    Raises:
        SimulationError: the shapes differ.
    """
    (sums,) = error_sums(other, board)
    scale = quantized.scale
    low, high = quantized.limits
    step = None if scale is None else np.broadcast_to(scale, board.shape).reshape(-1)
    ours, theirs = np.ravel(board), np.ravel(other)
    greatest = most_steps = 0.0
    moved = far = 0
    for start in range(0, ours.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        a, b = ours[block], theirs[block]
        with np.errstate(invalid="ignore"):
            apart = np.where(a == b, np.float32(0), np.abs(a - b))
        greatest = max(greatest, float(apart.max())) if not np.isnan(apart).any() else math.nan
        if math.isnan(greatest):
            break
        if step is not None:
            steps = apart / step[block]
            most_steps = max(most_steps, float(steps.max()))
            moved += int(np.count_nonzero(steps > _MOVED_STEPS))
            far += int(np.count_nonzero(steps > _FAR_STEPS))
    count = max(1, ours.size)
    if step is None:
        return Deviation(sums, greatest)
    fine = high - low > 255
    return Deviation(sums, greatest, most_steps, moved / count, far / count, count, fine)


def difference_of(reference: np.ndarray, other: np.ndarray) -> Difference:
    """How far a tensor is from its reference, both float32 of one shape."""
    return deviation(other, reference, QuantizedTensor("", "", "")).difference


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
    sink: Sink | None = None,
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
    sides = _Sides(build, parts)
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

    def __init__(self, build: Quantized, parts: Sequence[Sequence[Row]]) -> None:
        self._golden = GoldenRunner(build.reference, parts)
        self._golden.keep_for(None)
        self._simulated = SimulatedRunner(build.graph, build.layers, parts)
        self._alone = IsolatedLayerRunner(self._simulated, parts)
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
        sink: Sink | None,
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
                sink.add(row, expected, simulator, ours)
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
                    tensor = name_of(value)
                    before = self._layers.by_tensor.get(tensor)
                    if before is None or before == layer or tensor in self._given:
                        continue
                    if before.id not in names:
                        names[before.id] = None
                        waiting.append(before)
        return tuple(names)
