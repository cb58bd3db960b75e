"""Error analysis: float results against simulated ones, layer by layer, entire and single."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from engine.accuracy.rows import Row, layer_rows
from engine.accuracy.single import CutGraph
from engine.base.errors import UsageError
from engine.base.events import NullReporter, Progress, Reporter
from engine.graph.execute import Session, dot
from engine.graph.ir import Graph

__all__ = ["AccuracyReport", "Distance", "LayerAccuracy", "Runner", "Sink", "analyse"]

CHUNK_BYTES = 192 << 20
"""Tensors of one side that are held at the same time; larger graphs are taken in parts."""
_BLOCK = 8192
# layers of one session that run alone: loading takes time by the square of inputs and outputs
_LAYERS = 128


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
class Distance:
    """Of two tensors: cosine of their angle, and Euclidean distance in units of the tensor."""

    cosine: float
    euclidean: float


@dataclass(frozen=True)
class LayerAccuracy:
    """One row of an error analysis; simulated.

    Attributes:
        layer, op, tensor: node of the float graph, its operator, the tensor's name as shown.
        entire: against the float graph with all errors of the layers before; None for a tensor
            that was fused into the next layer.
        single: of this layer alone, on golden inputs.
        sqnr_db: signal to noise of ``entire`` over all samples; None without noise, or fused.
    """

    layer: str
    op: str
    tensor: str
    entire: Distance | None
    single: Distance | None
    sqnr_db: float | None

    def to_json(self) -> dict[str, Any]:
        """As the worker protocol carries it."""
        return {
            "name": self.layer,
            "op": self.op,
            "tensor": self.tensor,
            "entire": None if self.entire is None else vars(self.entire).copy(),
            "single": None if self.single is None else vars(self.single).copy(),
            "sqnr": self.sqnr_db,
        }


@dataclass(frozen=True)
class AccuracyReport:
    """All rows in the float graph's order.

    Attributes:
        layers: one per row.
        samples: how many were analysed; distances are their means, SQNR pools their values.
    """

    layers: tuple[LayerAccuracy, ...]
    samples: int

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"samples": self.samples, "layers": [layer.to_json() for layer in self.layers]}


@dataclass
class _Sums:
    """Of one row over the samples."""

    entire: list[Distance] = field(default_factory=list)
    single: list[Distance] = field(default_factory=list)
    signal: float = 0.0
    noise: float = 0.0

    def sqnr(self) -> float | None:
        """10 log10(signal / noise) in dB; None without noise, very low without signal."""
        if self.noise == 0:
            return None
        return 10 * math.log10(max(self.signal / self.noise, 1e-30))


def analyse(
    float_graph: Graph,
    qdq_graph: Graph,
    samples: Iterable[Mapping[str, np.ndarray]],
    *,
    golden: Runner | None = None,
    simulator: Runner | None = None,
    sink: Sink | None = None,
    threads: int = 1,
    reporter: Reporter | None = None,
) -> AccuracyReport:
    """Compare every layer of a quantized build with the float graph.

    Args:
        float_graph, qdq_graph: of one build.
        samples: feeds, one sample at a time; the vendor takes one, several are averaged.
        golden, simulator: run the two graphs; sessions here when they are not handed in.
        sink: gets the tensors of the first sample.
        threads: of the sessions made here.
        reporter: told of the progress, asked whether to stop.

    Raises:
        SimulationError: a graph does not run.
        UsageError: no sample.
    """
    reporter = reporter or NullReporter()
    rows = layer_rows(float_graph, qdq_graph)
    compared = [row for row in rows if row.simulated is not None]
    if golden is None:
        names = [row.golden for row in rows]
        golden = Session(float_graph, outputs=names, threads=threads)
    if simulator is None:
        tensors = [row.simulated for row in compared if row.simulated is not None]
        simulator = Session(qdq_graph, outputs=tensors, threads=threads)
    cut = CutGraph(qdq_graph, rows)
    parts = [_Part(cut, chunk, threads) for chunk in _chunks(rows)]
    sums = {row: _Sums() for row in rows}
    count = 0
    total = len(samples) if isinstance(samples, Sized) else 0
    for feeds in samples:
        for part in parts:
            reporter.check_cancelled()
            part.run(feeds, golden, simulator, sums, sink if count == 0 else None)
        count += 1
        reporter.emit(Progress("accuracy", count, total))
    if count == 0:
        raise UsageError("There is no sample to analyse.", remedy="Give the inputs of one sample.")
    return AccuracyReport(tuple(_layer(row, sums[row]) for row in rows), count)


def _layer(row: Row, sums: _Sums) -> LayerAccuracy:
    return LayerAccuracy(
        row.layer,
        row.op,
        row.label,
        _mean(sums.entire),
        _mean(sums.single),
        None if row.simulated is None else sums.sqnr(),
    )


def _mean(distances: list[Distance]) -> Distance | None:
    if not distances:
        return None
    return Distance(
        sum(d.cosine for d in distances) / len(distances),
        sum(d.euclidean for d in distances) / len(distances),
    )


def _chunks(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows in parts of at most ``CHUNK_BYTES``, at least one row each."""
    chunks: list[list[Row]] = []
    room = 0
    for row in rows:
        if not chunks or row.size > room:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(row)
        room -= row.size
    return chunks


class _Part:
    """Some rows: what they need of the float graph, and their layers cut out."""

    def __init__(self, cut: CutGraph, rows: Sequence[Row], threads: int) -> None:
        self._rows = rows
        # an input alone has no error: nothing to run
        self._computed = [row for row in rows if row.simulated is not None and row.op != "Input"]
        self._layers: list[tuple[Session, dict[str, str]]] = []
        for start in range(0, len(self._computed), _LAYERS):
            part = cut.part(self._computed[start : start + _LAYERS])
            self._layers.append((Session(part.graph, threads=threads), part.inputs))

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        golden: Runner,
        simulator: Runner,
        sums: Mapping[Row, _Sums],
        sink: Sink | None,
    ) -> None:
        """Analyse one sample and add it to ``sums``."""
        needed = [row.golden for row in self._rows]
        needed += [tensor for _, inputs in self._layers for tensor in inputs.values()]
        expected = _run(golden, feeds, needed)
        found = _run(simulator, feeds, [row.simulated or "" for row in self._computed])
        alone: dict[str, np.ndarray] = {}
        for session, inputs in self._layers:
            alone |= session.run({name: expected[tensor] for name, tensor in inputs.items()})
        for row in self._rows:
            reference = expected[row.golden]
            simulated = None if row.simulated is None else found.get(row.simulated, reference)
            if simulated is not None and row.simulated is not None:
                own = sums[row]
                whole, signal, noise = _distance(reference, simulated)
                own.entire.append(whole)
                own.single.append(_distance(reference, alone.get(row.simulated, reference))[0])
                own.signal += signal
                own.noise += noise
            if sink is not None:
                sink.add(row, reference, simulated)


def _run(
    runner: Runner, feeds: Mapping[str, np.ndarray], tensors: Sequence[str]
) -> dict[str, np.ndarray]:
    """Tensors of one run; inputs stand for themselves."""
    asked = [name for name in dict.fromkeys(tensors) if name not in feeds]
    results = runner.run(feeds, asked) if asked else {}
    return {**feeds, **results}


def _distance(reference: np.ndarray, simulated: np.ndarray) -> tuple[Distance, float, float]:
    """Distance, power of the signal and of the noise, with sums in float64.

    In blocks that stay in the cache: a twelfth of the time of whole arrays.
    """
    r_all, q_all = reference.ravel(), simulated.ravel()
    signal = power = noise = 0.0
    for start in range(0, len(r_all), _BLOCK):
        r = r_all[start : start + _BLOCK].astype(np.float64)
        q = q_all[start : start + _BLOCK].astype(np.float64)
        difference = r - q
        signal += dot(r, r)
        power += dot(q, q)
        noise += dot(difference, difference)
    norms = math.sqrt(signal) * math.sqrt(power)
    # |r - q|^2 = |r|^2 + |q|^2 - 2 r.q; equal zeros have no angle, they are equal
    cosine = (signal + power - noise) / 2 / norms if norms else float(signal == power)
    return Distance(cosine, math.sqrt(noise)), signal, noise
