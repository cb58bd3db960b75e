"""The error of every layer's output, with those of all layers before it, pooled over samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.accuracy.rows import Row
from engine.accuracy.sides import Carrier, SimulatedSide
from engine.graph.execute import PartedRun, dot, is_quantized, without_agreed_infinity
from engine.graph.ir import Graph

__all__ = ["EntireRun", "ErrorSums"]

# Values at a time: what stays in the cache is read five times for the price of once
_BLOCK = 1 << 14


@dataclass
class ErrorSums:
    """Sums over all samples, of which SQNR and cosine follow; float64."""

    signal: float = 0.0  # of r*r, r the float values
    noise: float = 0.0  # of (r-q)*(r-q), q the simulated ones
    power: float = 0.0  # of q*q

    def add_exactly(self, reference: np.ndarray, simulated: np.ndarray) -> None:
        """Take one sample, in float64."""
        r: np.ndarray = np.ravel(reference).astype(np.float64)
        q: np.ndarray = np.ravel(simulated).astype(np.float64)
        if not math.isfinite(dot(r, r)):
            r, q = without_agreed_infinity(r, q)
        difference: np.ndarray = r - q
        self.signal += dot(r, r)
        self.noise += dot(difference, difference)
        self.power += dot(q, q)

    def add(self, reference: np.ndarray, stored: np.ndarray, carrier: Carrier) -> None:
        """Take one sample by float32 sums of blocks, good to about 1e-5.

        Args:
            reference: float32.
            stored: of the same shape, as the quantized graph has it.
            carrier: what its values are.
        """
        scale, zero = carrier.scale, carrier.zero_point
        if scale is None or zero is None or scale.size != 1:
            stored, scale, zero = carrier.values(stored), None, None
        r_all, q_all = np.ravel(reference), np.ravel(stored)
        scratch = np.empty(min(_BLOCK, r_all.size), np.float32)
        signal = noise = power = 0.0
        with np.errstate(invalid="ignore"):  # infinities of a mask, which are looked at below
            for start in range(0, r_all.size, _BLOCK):
                r, q = r_all[start : start + _BLOCK], q_all[start : start + _BLOCK]
                values = scratch[: r.size]
                if scale is not None and zero is not None:
                    np.subtract(q, zero, out=values, dtype=np.float32)
                    np.multiply(values, scale, out=values)
                    power += dot(values, values)
                    np.subtract(r, values, out=values)
                else:
                    power += dot(q, q)
                    np.subtract(r, q, out=values)
                signal += dot(r, r)
                noise += dot(values, values)
        if not math.isfinite(signal + noise + power):  # too large for float32, or a mask
            self.add_exactly(reference, carrier.values(stored) if scale is not None else stored)
            return
        self.signal += signal
        self.noise += noise
        self.power += power

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
        # |r - q|^2 = |r|^2 + |q|^2 - 2 r.q
        return min(1.0, (self.signal + self.power - self.noise) / 2 / norms)


class EntireRun:
    """A float graph and its quantized form, run in step, part by part.

    Every node of both runs once a sample, and what is held is the tensors of one part: float32 of
    the one graph, integers of the other.

    Args:
        float_graph, qdq_graph: of one build.
        rows: the layers; each a tensor of the same name in both graphs.
        threads: of ONNX Runtime.
    """

    def __init__(
        self, float_graph: Graph, qdq_graph: Graph, rows: Sequence[Row], threads: int = 1
    ) -> None:
        by_name = {row.golden: row for row in rows}
        self._golden: PartedRun | _Quantized
        if is_quantized(float_graph):  # it came quantized: its integer kernels must stay whole
            self._golden = _Quantized(float_graph, rows, threads)
        else:
            self._golden = PartedRun(float_graph, list(by_name), threads=threads)
        parts = [[by_name[name] for name in group] for group in self._golden.groups]
        self._simulated = SimulatedSide(qdq_graph, parts, threads, fast=True)

    def run(
        self, feeds: Mapping[str, np.ndarray]
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray, Carrier]]:
        """Of every layer on one sample: the tensor's name, its float values, and what the quantized
        graph stores, with the key to its values.

        Raises:
            UsageError: feeds that do not fit the inputs.
            SimulationError: a part does not run.
        """
        between: dict[str, np.ndarray] = {}
        for index, expected in enumerate(self._golden.run(feeds)):
            found = self._simulated.stored(index, feeds, between)
            for name in list(expected):
                carrier = self._simulated.carriers[name]
                yield name, expected.pop(name), found[carrier.tensor], carrier


class _Quantized:
    """A quantized graph in the place of the float one."""

    def __init__(self, graph: Graph, rows: Sequence[Row], threads: int) -> None:
        self.groups = [[row.golden] for row in rows]
        self._side = SimulatedSide(graph, [[row] for row in rows], threads, fast=True)

    def run(self, feeds: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        """As :meth:`PartedRun.run`."""
        between: dict[str, np.ndarray] = {}
        for index in range(len(self.groups)):
            yield self._side.run(index, feeds, between)
