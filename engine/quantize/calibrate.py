"""Calibration: what range every activation tensor takes over the calibration samples.

The float graph runs sample by sample. Tensors are handed out and reduced in numpy; large ones are
reduced inside the graph, so that a sample costs no more memory than the float pass and a fixed
allowance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.events import NullReporter, Progress, Reporter
from engine.base.text import did_you_mean, printable
from engine.graph.execute import Session
from engine.graph.ir import Graph, UniqueNames
from engine.quantize.plan import Plan, is_quantized_source, layout_outputs, plan

__all__ = ["Observation", "Observations", "calibrate"]

# The sum is there for NaN alone: ONNX Runtime's ReduceMin and ReduceMax pass over it (1999 times
# of 2000 tries), numpy's do not.
_REDUCTIONS = ("ReduceMin", "ReduceMax", "ReduceSum")

# Tensors of one sample that are handed out at the same time. Reductions inside the graph cost no
# memory, but ONNX Runtime's set-up takes quadratic time in their number (14 s for 6000).
_HANDED_OUT_BYTES = 48 << 20


@dataclass(frozen=True)
class Observation:
    """The smallest and the largest value of one tensor over all samples, in its own unit."""

    minimum: float
    maximum: float


@dataclass(frozen=True)
class Observations:
    """What calibration saw; frozen, and the same for the same graph and samples.

    Attributes:
        samples: number of samples.
        tensors: tensor name -> observation, in the order of the graph.
    """

    samples: int
    tensors: Mapping[str, Observation]

    def __getitem__(self, tensor: str) -> Observation:
        found = self.tensors.get(tensor)
        if found is None:
            raise QuantizationError(
                f"Tensor {printable(tensor)!r} was not watched during calibration.",
                cause="The observations belong to another graph.",
                remedy=did_you_mean(tensor, self.tensors) or "Calibrate again.",
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain data: ``{"samples": n, "tensors": {name: [minimum, maximum]}}``."""
        tensors = {name: [seen.minimum, seen.maximum] for name, seen in self.tensors.items()}
        return {"samples": self.samples, "tensors": tensors}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Observations:
        """Rebuild :meth:`to_json`.

        Raises:
            QuantizationError: the data is malformed.
        """
        try:
            tensors = {
                str(name): Observation(float(low), float(high))
                for name, (low, high) in data["tensors"].items()
            }
            return cls(int(data["samples"]), tensors)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise QuantizationError(
                f"The observations are malformed: {printable(repr(error), 200)}.",
                cause="They were damaged or written by something else.",
                remedy="Calibrate again.",
            ) from error


def calibrate(
    graph: Graph,
    feeds: Iterable[Mapping[str, np.ndarray]],
    *,
    threads: int = 1,
    reporter: Reporter | None = None,
) -> Observations:
    """Run the float graph over the samples and note the range of every tensor to quantize.

    Args:
        graph: the float graph; a graph that has Q/DQ nodes keeps them and needs no observations.
        feeds: one mapping of input name to array a sample; read one at a time and never kept.
        threads: of ONNX Runtime. The number changes the order of additions, thus the last bit of a
            range: builds use one, so that they are the same everywhere.
        reporter: gets a ``Progress`` a sample, and may cancel.

    Raises:
        QuantizationError: there are no samples, or a tensor takes a value that is not finite (names
            the tensor and the sample).
        SimulationError: the graph does not run, or a sample does not fit its inputs.
    """
    reporter = reporter or NullReporter()
    chosen = Plan() if is_quantized_source(graph) else plan(graph)
    copies = layout_outputs(graph)
    watched = [name for name in chosen.tensors if name not in copies]
    total = len(feeds) if isinstance(feeds, Sized) else 0
    watch = _Watch(graph, watched, threads)
    low = np.full(len(watched), np.inf, dtype=np.float32)
    high = np.full(len(watched), -np.inf, dtype=np.float32)
    count = 0
    for feed in feeds:
        reporter.check_cancelled()
        smallest, largest = watch.ranges(feed, count)
        np.minimum(low, smallest, out=low)
        np.maximum(high, largest, out=high)
        count += 1
        reporter.emit(Progress("calibrate", count, total))
    if count == 0:
        raise QuantizationError(
            "There are no calibration samples.",
            cause="The dataset is empty.",
            remedy="Give a dataset with at least one sample; 20 to 200 are usual.",
        )
    ranges = {name: Observation(float(low[i]), float(high[i])) for i, name in enumerate(watched)}
    for name in chosen.tensors:
        if name not in ranges and copies[name] in ranges:
            ranges[name] = ranges[copies[name]]
    return Observations(count, {name: ranges[name] for name in chosen.tensors if name in ranges})


class _Watch:
    """A session that gives the ranges of tensors for one sample at a time."""

    def __init__(self, graph: Graph, watched: list[str], threads: int) -> None:
        self._graph = graph
        self._watched = watched
        self._threads = threads
        self._inputs = {spec.name for spec in graph.inputs}
        self._reduced: dict[str, tuple[str, ...]] = {}
        inner = [name for name in watched if name not in self._inputs]
        self._session = self._open(graph, inner) if inner else Session(graph, threads=threads)

    def _open(self, graph: Graph, inner: list[str]) -> Session:
        copy = graph.copy()
        names = UniqueNames(set(copy.values))
        copy.model.graph.outputs.clear()
        large = _largest(graph, inner)
        for name in inner:
            value = copy.value(name)
            if name not in large:
                copy.model.graph.outputs.append(value)
                continue
            wishes = [names.claim(f"{name}/{op}") for op in _REDUCTIONS]
            for op, wish in zip(_REDUCTIONS, wishes, strict=True):
                node = _reduction(value, op, wish)
                copy.model.graph.append(node)
                copy.model.graph.outputs.append(node.outputs[0])
            self._reduced[name] = tuple(wishes)
        # "all": the only level with blocked convolutions, 2.7 times as fast on RFB-320
        return Session(Graph(copy.model), threads=self._threads, level="all")

    def ranges(self, feed: Mapping[str, np.ndarray], sample: int) -> tuple[np.ndarray, np.ndarray]:
        """Minimum and maximum of every tensor, in order; raises as :func:`calibrate`."""
        found = self._session.run(feed)
        seen = np.empty((2, len(self._watched)), dtype=np.float32)
        for index, name in enumerate(self._watched):
            reduced = self._reduced.get(name)
            if reduced is not None:
                low, high, total = (float(found[out]) for out in reduced)
                if not np.isfinite([low, high, total]).all():
                    # a sum may overflow where every value is finite: the tensor itself decides
                    session = Session(self._graph, outputs=[name], threads=self._threads)
                    low, high = _range(session.run(feed, [name])[name], name, sample, False)
            elif name in self._inputs:
                low, high = _range(np.asarray(feed[name]), name, sample, True)
            else:
                low, high = _range(found.pop(name), name, sample, False)
            seen[:, index] = low, high
        return seen[0], seen[1]


def _largest(graph: Graph, names: list[str]) -> set[str]:
    """The largest tensors, without which the others fit the allowance (unknown sizes are large)."""
    sizes = {name: graph.spec(name).size for name in names}
    order = sorted(names, key=lambda name: sizes[name] or 0)
    room, large = _HANDED_OUT_BYTES, {name for name in names if sizes[name] is None}
    for name in order:
        room -= 4 * (sizes[name] or 0)
        if room < 0:
            large.add(name)
    return large


def _reduction(value: ir.Value, op: str, name: str) -> ir.Node:
    out = ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([]))
    return ir.node(op, [value], {"keepdims": 0}, outputs=[out], name=name)


def _range(array: np.ndarray, tensor: str, sample: int, is_input: bool) -> tuple[float, float]:
    """The range of one tensor.

    Raises:
        QuantizationError: it holds NaN or infinity.
    """
    if array.size == 0:
        return 0.0, 0.0
    low, high = float(array.min()), float(array.max())
    if np.isfinite(low) and np.isfinite(high):
        return low, high
    bad = int(array.size - np.isfinite(array).sum())
    nan = bool(np.isnan(array).any())
    where = f"{'the input' if is_input else 'tensor'} {printable(tensor)!r}"
    raise QuantizationError(
        f"Calibration sample {sample + 1} gives {bad} values of {where} that are "
        f"{'not a number (NaN)' if nan else 'infinite'}.",
        cause="The sample holds such values itself, or its mean and std do not fit the model."
        if is_input
        else "The model overflows on this sample: wrong mean and std, or damaged weights.",
        remedy=f"Look at sample {sample + 1} of the dataset; check mean and std; or leave it out.",
    )
