"""Simulated against float over the calibration samples, one sample in memory at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.accuracy.rows import layer_rows
from engine.base.errors import SimulationError, UsageError
from engine.base.events import Progress, Reporter
from engine.base.text import did_you_mean, printable
from engine.build import LayerError, OutputFidelity
from engine.graph.execute import Session, dot

if TYPE_CHECKING:
    from engine.graph.ir import Graph, QuantParams
    from engine.jobs.pipeline import Pipeline

__all__ = ["evaluate", "tensor_histograms"]

CHUNK_BYTES = 32 << 20
"""Intermediate tensors of one graph that are held at the same time; a larger graph runs in
parts.
"""


@dataclass
class _Sums:
    """Sums over all samples, of which SQNR and cosine follow; float64."""

    signal: float = 0.0  # of r*r, r the float values
    noise: float = 0.0  # of (r-q)*(r-q), q the simulated ones
    product: float = 0.0  # of r*q
    power: float = 0.0  # of q*q

    def add_exactly(self, reference: np.ndarray, simulated: np.ndarray) -> None:
        """Take one sample, in float64 as `bench/metrics.py` does."""
        r: np.ndarray = np.ravel(reference).astype(np.float64)
        q: np.ndarray = np.ravel(simulated).astype(np.float64)
        difference: np.ndarray = r - q
        self.signal += dot(r, r)
        self.noise += dot(difference, difference)
        self.product += dot(r, q)
        self.power += dot(q, q)

    def add(self, reference: np.ndarray, simulated: np.ndarray, scratch: np.ndarray) -> None:
        """Take one sample by float32 dot products, good to about 1e-5; fresh memory is dear.

        Args:
            reference, simulated: float32, of one shape.
            scratch: float32, at least as many elements.
        """
        r, q = np.ravel(reference), np.ravel(simulated)
        difference = np.subtract(r, q, out=scratch[: r.size])
        signal, power = dot(r, r), dot(q, q)
        noise = dot(difference, difference)
        self.signal += signal
        self.power += power
        self.noise += noise
        self.product += (signal + power - noise) / 2

    @property
    def sqnr(self) -> float | None:
        """10 log10(signal / noise) in dB; None without noise; very low without signal, and where
        values are infinite.
        """
        if self.noise == 0:
            return None
        finite = math.isfinite(self.noise + self.signal)
        return 10 * math.log10(max(self.signal / self.noise if finite else 0.0, 1e-30))

    @property
    def cosine(self) -> float:
        """Of the angle between all values as vectors; 1 where both are zero, 0 where one is, and
        where values are infinite.
        """
        if not math.isfinite(self.noise + self.signal + self.power):
            return 0.0
        norms = math.sqrt(self.signal * self.power)
        if norms == 0:
            return 1.0 if self.noise == 0 else 0.0
        return min(1.0, self.product / norms)


@dataclass(frozen=True)
class _Layer:
    name: str
    op: str
    tensor: str
    size: int
    sums: _Sums = field(default_factory=_Sums)


def _layers(float_graph: Graph, qdq_graph: Graph) -> list[_Layer]:
    """What nodes compute and both graphs have, in the float graph's order.

    Tensors inside a fused integer kernel (a convolution before its Relu) are left out: they exist
    nowhere, and asking for one would take the kernel apart.
    """
    return [
        _Layer(row.layer, row.op, row.golden, row.size)
        for row in layer_rows(float_graph, qdq_graph)
        if row.simulated == row.golden and row.op != "Input"
    ]


def _chunks(layers: Sequence[_Layer]) -> list[list[_Layer]]:
    chunks: list[list[_Layer]] = []
    room = 0
    for layer in layers:
        if not chunks or layer.size > room:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(layer)
        room -= layer.size
    return chunks


def evaluate(
    float_graph: Graph,
    qdq_graph: Graph,
    feeds: Iterable[Mapping[str, np.ndarray]],
    reporter: Reporter,
) -> tuple[tuple[OutputFidelity, ...], tuple[LayerError, ...]]:
    """Run both graphs over the samples and compare every output and every layer (entire error).

    Sums are pooled over all samples, so that SQNR is that of all samples' values together.

    Raises:
        SimulationError: a graph does not run, or an output of the float graph is NaN.
        DatasetError: a sample cannot be read.
    """
    chunks = _chunks(_layers(float_graph, qdq_graph))
    tensors = [layer.tensor for chunk in chunks for layer in chunk]
    outputs = [spec.name for spec in float_graph.outputs if spec.dtype.startswith("float")]
    golden = Session(float_graph, outputs=tensors)
    simulator = Session(qdq_graph, outputs=tensors)
    exact = {name: _Sums() for name in outputs}
    most = max((layer.size for chunk in chunks for layer in chunk), default=4)
    scratch = np.empty(most // 4, dtype=np.float32)
    total = len(feeds) if isinstance(feeds, Sized) else 0
    for done, feed in enumerate(feeds, 1):
        for index, chunk in enumerate(chunks or [[]]):
            reporter.check_cancelled()
            wanted = [layer.tensor for layer in chunk]
            if index == 0:
                wanted += [name for name in outputs if name not in wanted]
            expected = golden.run(feed, wanted)
            found = simulator.run(feed, wanted)
            for layer in chunk:
                layer.sums.add(expected[layer.tensor], found[layer.tensor], scratch)
            if index == 0:
                for name, sums in exact.items():
                    sums.add_exactly(expected[name], found[name])
            # not beside those of the next run: they are most of a build's memory
            del expected, found
        reporter.emit(Progress("evaluate", done, total))
    for name, sums in exact.items():
        if math.isnan(sums.signal):
            raise SimulationError(
                f"The float model gives values of output {printable(name, 120)!r} that are not a "
                "number (NaN), so nothing can be compared with it.",
                cause="The logarithm or root of a negative number, or 0 / 0, on a calibration "
                "sample: wrong mean and std, or a damaged model.",
                remedy="Check mean and std, or cut the model before that operator (outputs).",
            )
    return (
        tuple(OutputFidelity(name, sums.sqnr, sums.cosine) for name, sums in exact.items()),
        tuple(
            LayerError(layer.name, layer.op, layer.tensor, layer.sums.sqnr, layer.sums.cosine)
            for chunk in chunks
            for layer in chunk
        ),
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
    layer = _layer_of(tensor, _layers(float_graph, qdq_graph))
    golden = Session(float_graph, outputs=[tensor])
    simulator = Session(qdq_graph, outputs=[tensor])
    sums = _Sums()
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
        "layer": layer.name,
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


def _layer_of(tensor: str, layers: Iterable[_Layer]) -> _Layer:
    known = {layer.tensor: layer for layer in layers}
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
