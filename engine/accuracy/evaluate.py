"""Simulated against float over the calibration samples, a part of a sample in memory at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from engine.accuracy.rows import INPUT, Row, layer_rows
from engine.accuracy.runners import QuantizedTensor, SimulatedRunner
from engine.base.errors import SimulationError
from engine.base.events import Progress, Reporter
from engine.base.text import sanitize
from engine.build import LayerError, OutputFidelity
from engine.graph.execute import PartedRun, Session, is_quantized, release_pool
from engine.graph.metrics import ErrorSums, dot, error_sums
from engine.quantize import Quantized

if TYPE_CHECKING:
    from engine.quantize import Quantized

# The error of every layer's output, with those of all layers before it, pooled over samples.

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
    """

    def __init__(self, build: Quantized, rows: Sequence[Row]) -> None:
        by_name = {row.golden: row for row in rows}
        self._golden: PartedRun | _Quantized
        if is_quantized(build.reference):  # it came quantized: its kernels must stay whole
            self._golden = _Quantized(build, rows)
        else:
            self._golden = PartedRun(build.reference, list(by_name))
        parts = [[by_name[name] for name in group] for group in self._golden.groups]
        self._simulated = SimulatedRunner(build.graph, build.layers, parts, fast=True)

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
            stored = self._simulated.stored(index, feeds, between)
            for name in list(expected):
                quantized = self._simulated.quantized_tensors[name]
                yield name, expected.pop(name), stored[quantized.tensor], quantized


class _Quantized:
    """A quantized graph in the place of the float one."""

    def __init__(self, build: Quantized, rows: Sequence[Row]) -> None:
        self.groups = [[row.golden] for row in rows]
        parts = [[row] for row in rows]
        self._side = SimulatedRunner(build.reference, build.layers, parts, fast=True)

    def run(self, feeds: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        """As :meth:`PartedRun.run`."""
        between: dict[str, np.ndarray] = {}
        for index in range(len(self.groups)):
            yield self._side.run(index, feeds, between)


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


def compared_rows(build: Quantized) -> list[Row]:
    """What nodes compute and both graphs have, in the float graph's order.

    Tensors inside a fused integer kernel (a convolution before its Relu) are left out: they exist
    nowhere, and asking for one would take the kernel apart.
    """
    return [row for row in layer_rows(build) if row.simulated == row.golden and row.op != INPUT]


def evaluate(
    build: Quantized,
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
        build: its float graph, its quantized one, and its layers.
        feeds: the samples.
        reporter: told of the progress, asked whether to stop.
        layers: whether to compare layers; without, outputs are compared over all samples.

    Raises:
        SimulationError: a graph does not run, or an output of the float graph is NaN.
        DatasetError: a sample cannot be read.
    """
    rows = compared_rows(build) if layers else []
    chosen = _spread(len(feeds), sum(row.size for row in rows))
    work = _Evaluation(build, reporter, len(chosen))
    sums = work.compare_layers(rows, feeds, chosen) if rows else {}
    release_pool()
    work.compare_outputs(feeds, chosen)
    return work.outputs(), tuple(
        LayerError(
            total.sqnr,
            total.cosine,
            total.samples,
            layer=row.layer,
            op=row.shown_op,
            tensor=row.golden,
        )
        for row in rows
        for total in (sums[row.golden],)
    )


def _spread(count: int, nbytes: int) -> list[int]:
    """Which of ``count`` samples are taken of a graph whose layers have so many bytes."""
    some = min(count, max(LEAST_SAMPLES, VALUE_BYTES // max(nbytes, 1)))
    return [(2 * place + 1) * count // (2 * some) for place in range(some)]


class _Evaluation:
    """Two graphs, and the sums of their outputs over the samples so far."""

    def __init__(self, build: Quantized, reporter: Reporter, total: int) -> None:
        self._build = build
        self._reporter = reporter
        self._total = total
        names = [spec.name for spec in build.reference.outputs if spec.dtype.startswith("float")]
        self._exact = {name: ErrorSums() for name in names}
        self._open = set(names)  # those that no layer gave

    def compare_layers(
        self, rows: Sequence[Row], feeds: Samples, chosen: Sequence[int]
    ) -> dict[str, ErrorSums]:
        """The sums of layers; outputs that are among them are done then."""
        run = EntireRun(self._build, rows)
        sums = {row.golden: ErrorSums() for row in rows}
        self._open -= sums.keys()
        for done, index in enumerate(chosen, 1):
            for name, expected, stored, quantized in run.run(feeds[index]):
                self._reporter.check_cancelled()
                sums[name] += stored_sums(expected, stored, quantized)
                if name in self._exact:
                    self._exact[name] += error_sums(expected, quantized.values(stored))[0]
            self._reporter.emit(Progress("evaluate", done, self._total))
        return sums

    def compare_outputs(self, feeds: Samples, chosen: Sequence[int]) -> None:
        """Take the outputs that no layer gives: an input that is one, or all, without layers."""
        names = [name for name in self._exact if name in self._open]
        if not names:
            return
        golden, simulator = Session(self._build.reference), Session(self._build.graph)
        for done, index in enumerate(chosen, 1):
            self._reporter.check_cancelled()
            feed = feeds[index]
            expected, simulated = golden.run(feed, names), simulator.run(feed, names)
            for name in names:
                self._exact[name] += error_sums(expected[name], simulated[name])[0]
            self._reporter.emit(Progress("evaluate", done, self._total))

    def outputs(self) -> tuple[OutputFidelity, ...]:
        """The figures of the outputs.

        Raises:
            SimulationError: a float output was NaN.
        """
        for name, sums in self._exact.items():
            if math.isnan(sums.signal):
                raise SimulationError(
                    f"The float model gives values of output {sanitize(name, 120)!r} that are not "
                    "a number (NaN), so nothing can be compared with it.",
                    cause="The logarithm or root of a negative number, or 0 / 0, on a calibration "
                    "sample: wrong mean and std, or a damaged model.",
                    remedy="Check mean and std, or cut the model before that operator (outputs).",
                )
        return tuple(
            OutputFidelity(sums.sqnr, sums.cosine, sums.samples, name=name)
            for name, sums in self._exact.items()
        )
