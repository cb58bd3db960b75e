"""The error of every layer's output, with those of all layers before it, pooled over samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from engine.accuracy.rows import Row
from engine.accuracy.runners import QuantizedTensor, SimulatedRunner
from engine.graph.execute import PartedRun, is_quantized
from engine.graph.metrics import ErrorSums, dot, error_sums
from engine.quantize import Quantized

__all__ = ["EntireRun", "stored_sums"]

# Values at a time: what stays in the cache is read five times for the price of once
_BLOCK = 1 << 14


def stored_sums(reference: np.ndarray, stored: np.ndarray, quantized: QuantizedTensor) -> ErrorSums:
    """The sums of one sample by float32 sums of blocks, good to about 1e-5.

    Args:
        reference: float32.
        stored: of the same shape, as the quantized graph has it.
        quantized: what its values are.
    """
    scale, zero = quantized.scale, quantized.zero_point
    if scale is None or zero is None or scale.size != 1:
        stored, scale, zero = quantized.values(stored), None, None
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
    sums = ErrorSums(signal, noise, power, 1)
    if sums.finite:
        return sums
    # too large for float32, or a mask
    (sums,) = error_sums(reference, quantized.values(stored) if scale is not None else stored)
    return sums


class EntireRun:
    """A float graph and its quantized form, run in step, part by part.

    Every node of both runs once a sample, and what is held is the tensors of one part: float32 of
    the one graph, integers of the other.

    Args:
        build: its float graph, its quantized one, and its layers.
        rows: the layers; each a tensor of the same name in both graphs.
        threads: of ONNX Runtime.
    """

    def __init__(self, build: Quantized, rows: Sequence[Row], threads: int = 1) -> None:
        by_name = {row.golden: row for row in rows}
        self._golden: PartedRun | _Quantized
        if is_quantized(build.reference):  # it came quantized: its kernels must stay whole
            self._golden = _Quantized(build, rows, threads)
        else:
            self._golden = PartedRun(build.reference, list(by_name), threads=threads)
        parts = [[by_name[name] for name in group] for group in self._golden.groups]
        self._simulated = SimulatedRunner(build.graph, build.layers, parts, threads, fast=True)

    def run(
        self, feeds: Mapping[str, np.ndarray]
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray, QuantizedTensor]]:
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
                quantized = self._simulated.quantized_tensors[name]
                yield name, expected.pop(name), found[quantized.tensor], quantized


class _Quantized:
    """A quantized graph in the place of the float one."""

    def __init__(self, build: Quantized, rows: Sequence[Row], threads: int) -> None:
        self.groups = [[row.golden] for row in rows]
        parts = [[row] for row in rows]
        self._side = SimulatedRunner(build.reference, build.layers, parts, threads, fast=True)

    def run(self, feeds: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        """As :meth:`PartedRun.run`."""
        between: dict[str, np.ndarray] = {}
        for index in range(len(self.groups)):
            yield self._side.run(index, feeds, between)
