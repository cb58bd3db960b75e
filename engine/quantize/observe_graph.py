"""The float graph as a session that tells what every tensor held on one sample.

Tensors are handed out and reduced in numpy as long as they fit an allowance; larger ones are
reduced by nodes inside the graph, so that a sample costs no more memory than the float pass and
that allowance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.text import printable
from engine.graph.execute import Session
from engine.graph.ir import Graph, UniqueNames
from engine.quantize.observe import MeanInput
from engine.quantize.observe_inputs import InputSum, Window

__all__ = ["Seen", "Watch"]

# The sum is there for NaN alone: ONNX Runtime's ReduceMin and ReduceMax pass over it (1999 times
# of 2000 tries), numpy's do not.
_REDUCTIONS = ("ReduceMin", "ReduceMax", "ReduceSum")

# Channels whose ranges are kept one by one; axis 1 of a list of boxes is longer and no channel.
_CHANNELS = 4096

# Tensors of one sample that are handed out at the same time. Reductions inside the graph cost no
# memory, but ONNX Runtime's set-up takes quadratic time in their number (14 s for 6000).
_HANDED_OUT_BYTES = 48 << 20

# Values of one tensor and sample that go to its histogram. Its range is that of all values.
_VALUES = 8192


@dataclass(frozen=True, eq=False)
class Seen:
    """One tensor on one sample.

    Attributes:
        low, high: of every channel (axis 1), (channels,), or of all values, (1,).
        values: some of them, at fixed places, for the histogram; of any shape.
        sums: of the layers that read it, where the graph made the sums.
        array: the tensor itself, where it was handed out and layers want it to be summed.
    """

    low: np.ndarray
    high: np.ndarray
    values: np.ndarray
    sums: Mapping[InputSum, MeanInput]
    array: np.ndarray | None = None


class Watch:
    """Gives what the tensors of a graph held, sample by sample.

    Args:
        graph: the float graph.
        tensors: whose range and values are wanted, besides those that ``sums`` name.
        sums: what layers want to have summed.
        threads: of ONNX Runtime.
    """

    def __init__(
        self, graph: Graph, tensors: Sequence[str], sums: Sequence[InputSum], threads: int
    ) -> None:
        self._graph = graph
        self._threads = threads
        self._inputs = {spec.name for spec in graph.inputs}
        self._sums: dict[str, list[InputSum]] = {}
        for wanted in sums:
            self._sums.setdefault(wanted.tensor, []).append(wanted)
        self._tensors = list(dict.fromkeys([*tensors, *self._sums]))
        self._inside: dict[str, _Inside] = {}
        inner = [name for name in self._tensors if name not in self._inputs]
        self._session = self._open(inner) if inner else Session(graph, threads=threads)

    def _open(self, inner: list[str]) -> Session:
        copy = self._graph.copy()
        outputs = copy.model.graph.outputs
        outputs.clear()
        large = _largest(self._graph, inner)
        names = UniqueNames(set(copy.values))
        for name in inner:
            if name not in large:
                outputs.append(copy.value(name))
                continue
            added = _Inside(copy, names, name, self._sums.get(name, ()))
            self._inside[name] = added
            outputs.extend(added.outputs)
        # "all": the only level with blocked convolutions, 2.7 times as fast on RFB-320
        return Session(Graph(copy.model), threads=self._threads, level="all", plan_memory=False)

    @property
    def sums(self) -> tuple[InputSum, ...]:
        """The sums that are really made: all but some of tensors that are reduced in the graph."""
        return tuple(
            wanted
            for name, all_wanted in self._sums.items()
            for wanted in all_wanted
            if name not in self._inside or wanted in self._inside[name].sums
        )

    def run(self, feed: Mapping[str, np.ndarray], sample: int) -> Iterator[tuple[str, Seen]]:
        """Every tensor on one sample; ``sample`` counts from 0, for errors.

        Raises:
            QuantizationError: a tensor holds NaN or infinity.
        """
        found = self._session.run(feed)
        for name in self._tensors:
            inside = self._inside.get(name)
            if inside is not None:
                low, high = self._range_inside(inside, found, feed, sample)
                yield name, Seen(low, high, inside.values(found), inside.summed(found))
                continue
            is_input = name in self._inputs
            array = np.asarray(feed[name]) if is_input else found.pop(name)
            low, high = _range(array, name, sample, is_input)
            values = array.reshape(-1)[:: _stride(array.size)]
            yield name, Seen(low, high, values, {}, array if name in self._sums else None)

    def _range_inside(
        self,
        inside: _Inside,
        found: Mapping[str, np.ndarray],
        feed: Mapping[str, np.ndarray],
        sample: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        low, high, total = (found[out].reshape(-1) for out in inside.reduced)
        if np.isfinite(total).all() and np.isfinite(low).all() and np.isfinite(high).all():
            return low, high
        # a sum may overflow where every value is finite: the tensor itself decides
        session = Session(self._graph, outputs=[inside.name], threads=self._threads)
        array = session.run(feed, [inside.name])[inside.name]
        return _range(array, inside.name, sample, False)


class _Inside:
    """The nodes that reduce one tensor inside the graph."""

    def __init__(
        self, graph: Graph, names: UniqueNames, name: str, sums: Sequence[InputSum]
    ) -> None:
        self.name = name
        self.outputs: list[ir.Value] = []
        self.sums: dict[InputSum, tuple[str, float]] = {}
        self._graph = graph
        self._names = names
        value = graph.value(name)
        self.reduced = tuple(self._output(op, [value], shape=[], keepdims=0) for op in _REDUCTIONS)
        self._sampled = self._sample(value)
        spec = graph.spec(name)
        for wanted in sums:
            if wanted.window is not None and spec.static and len(spec.shape) == 4:
                self.sums[wanted] = self._sum(value, wanted.window, spec.shape)

    def values(self, found: Mapping[str, np.ndarray]) -> np.ndarray:
        """What goes to the histogram; nothing where the tensor's size was not known."""
        return found[self._sampled] if self._sampled else np.zeros(0, np.float32)

    def summed(self, found: Mapping[str, np.ndarray]) -> dict[InputSum, MeanInput]:
        """Sums over output positions."""
        return {
            wanted: MeanInput(found[name].astype(np.float64), outputs)
            for wanted, (name, outputs) in self.sums.items()
        }

    def _reduce(self, value: ir.Value) -> tuple[str, ...]:
        spec = self._graph.spec(self.name)
        if not (spec.rank_known and _has_channels(spec.shape)):
            return tuple(self._output(op, [value], shape=[], keepdims=0) for op in _REDUCTIONS)
        axes = self._constant([axis for axis in range(len(spec.shape)) if axis != 1])
        size = [spec.shape[1]]
        return tuple(self._output(op, [value, axes], shape=size, keepdims=0) for op in _REDUCTIONS)

    def _sample(self, value: ir.Value) -> str:
        size = self._graph.spec(self.name).size
        if size is None:
            return ""
        step, end = _stride(size), np.iinfo(np.int64).max
        flat = self._node("Reshape", [value, self._constant([-1])], [size])
        slicing = [self._constant([number]) for number in (0, end, 0, step)]
        return self._output("Slice", [flat, *slicing], shape=[-(-size // step)])

    def _sum(self, value: ir.Value, window: Window, shape: Sequence[int]) -> tuple[str, float]:
        """``rows x image x columns``, where both matrices are 1 at what the kernel meets."""
        batch, channels, height, width = shape
        (row_places, rows), (column_places, columns) = (
            window.places(axis, size) for axis, size in enumerate((height, width))
        )
        right = _indicator(column_places, width).T
        across = self._node(
            "MatMul", [value, self._constant(right)], [batch, channels, height, right.shape[1]]
        )
        left = _indicator(row_places, height)
        size = [batch, channels, len(left), right.shape[1]]
        down = self._node("MatMul", [self._constant(left), across], size)
        name = self._output("ReduceSum", [down, self._constant([0])], shape=size[1:], keepdims=0)
        return name, float(batch * rows * columns)

    def _node(
        self, op: str, inputs: list[ir.Value], shape: Sequence[int], **attributes: int
    ) -> ir.Value:
        name = self._names.claim(f"{self.name}/{op}")
        out = ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape))
        self._graph.model.graph.append(ir.node(op, inputs, attributes, outputs=[out], name=name))
        return out

    def _output(
        self, op: str, inputs: list[ir.Value], *, shape: Sequence[int], **attributes: int
    ) -> str:
        out = self._node(op, inputs, shape, **attributes)
        self.outputs.append(out)
        return out.name or ""

    def _constant(self, data: Sequence[int] | np.ndarray) -> ir.Value:
        name = self._names.claim(f"{self.name}/constant")
        tensor = ir.Tensor(np.asarray(data), name=name)
        value = ir.Value(
            name=name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(np.shape(data)),
            const_value=tensor,
        )
        self._graph.model.graph.register_initializer(value)
        return value


def _indicator(places: Sequence[slice], size: int) -> np.ndarray:
    """(places, size) float32: 1 where a place meets an input."""
    matrix = np.zeros((len(places), size), np.float32)
    for row, place in zip(matrix, places, strict=True):
        row[place] = 1.0
    return matrix


def _stride(size: int) -> int:
    """The step between values for the histogram.

    Prime to the size and so to every axis: it meets all channels and columns alike.
    """
    step = -(-size // _VALUES) or 1
    while step > 1 and math.gcd(step, size) > 1:
        step += 1
    return step


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


def _has_channels(shape: Sequence[int]) -> bool:
    return len(shape) > 1 and 0 < shape[1] <= _CHANNELS


def _range(
    array: np.ndarray, tensor: str, sample: int, is_input: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The range of one tensor, by channels where it has them.

    Raises:
        QuantizationError: it holds NaN or infinity.
    """
    if array.size == 0:
        return np.zeros(1, np.float32), np.zeros(1, np.float32)
    rows = array.reshape(1, -1)
    if _has_channels(array.shape):
        rows = array if array.shape[0] == 1 else np.moveaxis(array, 1, 0)
        rows = rows.reshape(array.shape[1], -1)
    low, high = rows.min(axis=1), rows.max(axis=1)
    if np.isfinite(low).all() and np.isfinite(high).all():
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
