"""Simulated against float over the calibration samples, a part of a sample in memory at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from engine.accuracy.entire import EntireRun, ErrorSums
from engine.accuracy.rows import Row, layer_rows
from engine.base.errors import SimulationError, UsageError
from engine.base.events import Progress, Reporter
from engine.base.text import did_you_mean, printable
from engine.build import LayerError, OutputFidelity
from engine.graph.execute import Session, release_pool
from engine.quantize import layer_names

if TYPE_CHECKING:
    from engine.graph.ir import Graph, QuantParams
    from engine.jobs.pipeline import Pipeline

__all__ = ["evaluate", "tensor_histograms"]

VALUE_BYTES = 1 << 30
"""Float values of layers that are compared in all; a larger graph is taken over fewer samples."""
LEAST_SAMPLES = 6
"""Samples that are taken however large the graph is."""


class Samples(Protocol):
    """Feeds by their number: a list, or a stream over files."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, index: int, /) -> Mapping[str, np.ndarray]:
        """One of them."""


def _rows(float_graph: Graph, qdq_graph: Graph) -> list[Row]:
    """What nodes compute and both graphs have, in the float graph's order.

    Tensors inside a fused integer kernel (a convolution before its Relu) are left out: they exist
    nowhere, and asking for one would take the kernel apart.
    """
    names = {named.tensor: (named.name, named.op) for named in layer_names(float_graph)}
    return [
        replace(row, layer=layer, op=op)
        for row in layer_rows(float_graph, qdq_graph)
        if row.simulated == row.golden and row.op != "Input"
        for layer, op in (names.get(row.golden, (row.layer, row.op)),)
    ]


def evaluate(
    float_graph: Graph,
    qdq_graph: Graph,
    feeds: Samples,
    reporter: Reporter,
    *,
    layers: bool = True,
) -> tuple[tuple[OutputFidelity, ...], tuple[LayerError, ...]]:
    """Compare every output and every layer (entire error) over the samples, or some of them.

    Large graphs are run over at least ``LEAST_SAMPLES`` samples, spread evenly; ``samples`` of the
    results says how many. Sums are pooled over them, so that SQNR is that of all their values
    together.

    Args:
        float_graph, qdq_graph: of one build.
        feeds: the samples.
        reporter: told of the progress, asked whether to stop.
        layers: whether to compare layers; without, outputs are compared over all samples.

    Raises:
        SimulationError: a graph does not run, or an output of the float graph is NaN.
        DatasetError: a sample cannot be read.
    """
    rows = _rows(float_graph, qdq_graph) if layers else []
    chosen = _spread(len(feeds), sum(row.size for row in rows))
    work = _Evaluation(float_graph, qdq_graph, reporter, len(chosen))
    sums = work.compare_layers(rows, feeds, chosen) if rows else {}
    release_pool()
    work.compare_outputs(feeds, chosen)
    return work.outputs(), tuple(
        LayerError(
            row.layer,
            row.op,
            row.golden,
            sums[row.golden].sqnr,
            sums[row.golden].cosine,
            len(chosen),
        )
        for row in rows
    )


def _spread(count: int, nbytes: int) -> list[int]:
    """Which of ``count`` samples are taken of a graph whose layers have so many bytes."""
    some = min(count, max(LEAST_SAMPLES, VALUE_BYTES // max(nbytes, 1)))
    return [(2 * place + 1) * count // (2 * some) for place in range(some)]


class _Evaluation:
    """Two graphs, and the sums of their outputs over the samples so far."""

    def __init__(
        self, float_graph: Graph, qdq_graph: Graph, reporter: Reporter, total: int
    ) -> None:
        self._float_graph, self._qdq_graph = float_graph, qdq_graph
        self._reporter = reporter
        self._total = total
        names = [spec.name for spec in float_graph.outputs if spec.dtype.startswith("float")]
        self._exact = {name: ErrorSums() for name in names}
        self._open = set(names)  # those that no layer gave

    def compare_layers(
        self, rows: Sequence[Row], feeds: Samples, chosen: Sequence[int]
    ) -> dict[str, ErrorSums]:
        """The sums of layers; outputs that are among them are done then."""
        run = EntireRun(self._float_graph, self._qdq_graph, rows)
        sums = {row.golden: ErrorSums() for row in rows}
        self._open -= sums.keys()
        for done, index in enumerate(chosen, 1):
            for name, expected, stored, carrier in run.run(feeds[index]):
                self._reporter.check_cancelled()
                sums[name].add(expected, stored, carrier)
                if name in self._exact:
                    self._exact[name].add_exactly(expected, carrier.values(stored))
            self._reporter.emit(Progress("evaluate", done, self._total))
        return sums

    def compare_outputs(self, feeds: Samples, chosen: Sequence[int]) -> None:
        """Take the outputs that no layer gives: an input that is one, or all, without layers."""
        names = [name for name in self._exact if name in self._open]
        if not names:
            return
        golden, simulator = Session(self._float_graph), Session(self._qdq_graph)
        for done, index in enumerate(chosen, 1):
            self._reporter.check_cancelled()
            feed = feeds[index]
            expected, found = golden.run(feed, names), simulator.run(feed, names)
            for name in names:
                self._exact[name].add_exactly(expected[name], found[name])
            self._reporter.emit(Progress("evaluate", done, self._total))

    def outputs(self) -> tuple[OutputFidelity, ...]:
        """The figures of the outputs.

        Raises:
            SimulationError: a float output was NaN.
        """
        for name, sums in self._exact.items():
            if math.isnan(sums.signal):
                raise SimulationError(
                    f"The float model gives values of output {printable(name, 120)!r} that are not "
                    "a number (NaN), so nothing can be compared with it.",
                    cause="The logarithm or root of a negative number, or 0 / 0, on a calibration "
                    "sample: wrong mean and std, or a damaged model.",
                    remedy="Check mean and std, or cut the model before that operator (outputs).",
                )
        return tuple(
            OutputFidelity(name, sums.sqnr, sums.cosine, self._total)
            for name, sums in self._exact.items()
        )


def tensor_histograms(pipeline: Pipeline, tensor: str, bins: int) -> dict[str, Any]:
    """How the values of one tensor are spread over the calibration samples, float and simulated.

    Returns:
        ``tensor``, ``layer``, ``op``, ``samples``; ``low``, ``high`` and counts ``golden`` and
        ``simulated`` of equal bins between them; ``range``: the observed [minimum, maximum] of the
        float values; ``quant``: dtype, scale, zero_point, minimum, maximum, or None;
        ``saturation``: shares ``low`` and ``high`` of the float values that the integers cannot
        hold, or None; ``sqnr_db`` and ``cosine`` (simulated).

    Raises:
        UsageError: the float graph computes no such tensor.
    """
    float_graph, qdq_graph = pipeline.reference, pipeline.quantized.graph.graph
    layer = _layer_of(tensor, _rows(float_graph, qdq_graph))
    golden = Session(float_graph, outputs=[tensor])
    simulator = Session(qdq_graph, outputs=[tensor])
    sums = ErrorSums()
    low, high = math.inf, -math.inf
    lows, highs = math.inf, -math.inf
    for feed in pipeline.feeds():
        expected = golden.run(feed, [tensor])[tensor]
        found = simulator.run(feed, [tensor])[tensor]
        sums.add_exactly(expected, found)
        low, high = min(low, float(expected.min())), max(high, float(expected.max()))
        lows, highs = min(lows, float(found.min())), max(highs, float(found.max()))
    edges = np.linspace(min(low, lows), max(high, highs), bins + 1, dtype=np.float64)
    if edges[0] == edges[-1]:
        edges = np.linspace(edges[0] - 0.5, edges[0] + 0.5, bins + 1)
    counts = np.zeros((2, bins), dtype=np.int64)
    span = _span(pipeline.quantized.table.get(tensor))
    outside = [0, 0]
    for feed in pipeline.feeds():
        expected = golden.run(feed, [tensor])[tensor]
        counts[0] += _counted(expected, edges)
        if span is not None:
            outside[0] += int(np.count_nonzero(expected < span[0]))
            outside[1] += int(np.count_nonzero(expected > span[1]))
        counts[1] += _counted(simulator.run(feed, [tensor])[tensor], edges)
    return {
        "tensor": tensor,
        "layer": layer.layer,
        "op": layer.op,
        "samples": pipeline.calibration.samples,
        "low": float(edges[0]),
        "high": float(edges[-1]),
        "golden": counts[0].tolist(),
        "simulated": counts[1].tolist(),
        "range": [low, high],
        "quant": _quant(pipeline, tensor),
        "saturation": None
        if span is None
        else {
            end: n / max(1, int(counts[0].sum()))
            for end, n in zip(("low", "high"), outside, strict=True)
        },
        "sqnr_db": sums.sqnr,
        "cosine": sums.cosine,
    }


def _layer_of(tensor: str, rows: Iterable[Row]) -> Row:
    known = {row.golden: row for row in rows}
    if tensor not in known:
        raise UsageError(
            f"No layer of the build computes {printable(tensor)!r}.",
            cause="It is an input or a constant, or a pass merged its layer into another one.",
            remedy=did_you_mean(tensor, known) or "Choose a tensor of the layer list.",
        )
    return known[tensor]


def _counted(array: np.ndarray, edges: np.ndarray) -> np.ndarray:
    span = (float(edges[0]), float(edges[-1]))
    return np.histogram(array.astype(np.float64), bins=len(edges) - 1, range=span)[0]


def _span(params: QuantParams | None) -> tuple[float, float] | None:
    """The values that a tensor's integers hold, half a step beyond their ends."""
    if params is None or not params.dtype.startswith(("int", "uint")) or len(params.scale) != 1:
        return None
    (scale,), (zero,), (low, high) = params.scale, params.zero_point, params.limits
    return (low - zero - 0.5) * scale, (high - zero + 0.5) * scale


def _quant(pipeline: Pipeline, tensor: str) -> dict[str, Any] | None:
    params = pipeline.quantized.table.get(tensor)
    if params is None:
        return None
    return {
        "dtype": params.dtype,
        "scale": list(params.scale),
        "zero_point": list(params.zero_point),
        "minimum": None if params.minimum is None else list(params.minimum),
        "maximum": None if params.maximum is None else list(params.maximum),
    }
