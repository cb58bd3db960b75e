"""Observers: statistics of every tensor of the float graph, one sample at a time.

The graph runs in parts, so that a sample costs little more memory than the tensors of one part;
they are reduced in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.text import sanitize
from engine.graph.execute import PartedRun
from engine.graph.ir import Graph
from engine.graph.ir.spec import name_of
from engine.quantize.calibration.input_means import InputSum

# Nodes whose output follows from their input, value by value, and never falls as it rises.
#
# The range and the histogram of such an output are those of the input, put through the function.

Rising = Callable[[np.ndarray], np.ndarray]
"""Float32 of any shape to the same shape; what is not negative stays so."""

# erf by Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: at most 1.5e-7 off.
_ERF_P = np.float32(0.3275911)
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def rising_function(graph: Graph, node: ir.Node) -> tuple[str, Rising] | None:
    """The tensor that the node's output follows from, and how; None for any other node.

    Sigmoid, Erf, and Mul, Div and Add with a constant of one positive float32 value.
    """
    plain = _PLAIN.get(node.op_type)
    if plain is not None:
        return name_of(node.inputs[0]), plain
    if node.op_type not in _WITH_CONSTANT or len(node.inputs) != 2:
        return None
    left, right = (name_of(value) for value in node.inputs)
    if node.op_type != "Div" and graph.constant(left) is not None:
        left, right = right, left
    constant = graph.constant(right)
    if constant is None or constant.dtype != np.float32 or constant.size != 1:
        return None
    value = np.float32(constant.reshape(-1)[0])
    if not (np.isfinite(value) and value > 0) or len(constant.shape) > len(graph.spec(left).shape):
        return None
    function = _WITH_CONSTANT[node.op_type]
    return left, lambda values: function(values, value)


def composed(steps: Sequence[Rising]) -> Rising:
    """One function after the other."""
    return lambda values: reduce(lambda array, step: step(array), steps, values)


def _sigmoid(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # of numbers whose result is 0
        result: np.ndarray = 1 / (1 + np.exp(-values))
    return result


def _erf(values: np.ndarray) -> np.ndarray:
    size = np.abs(values)
    t = 1 / (1 + _ERF_P * size)
    terms = np.zeros_like(t)
    for factor in _ERF:
        terms = (terms + np.float32(factor)) * t
    with np.errstate(under="ignore", over="ignore"):
        result: np.ndarray = np.copysign(1 - terms * np.exp(-size * size), values)
    return result


_PLAIN: dict[str, Rising] = {"Sigmoid": _sigmoid, "Erf": _erf}
_WITH_CONSTANT = {"Mul": np.multiply, "Div": np.divide, "Add": np.add}


# Channels whose ranges are kept one by one; axis 1 of a list of boxes is longer and no channel.
_CHANNELS = 4096

# Values of a tensor whose range is found at a time: they are in the cache for both ends of it.
_BLOCK = 1 << 17

# Rows so short are turned before they are reduced.
_SHORT = 64

# Values that are asked whether anything is negative, before all are.
_PEEK = 64

# Values of one tensor and sample that go to its histogram. Its range is that of all values.
_VALUES = 8192


@dataclass(frozen=True, eq=False)
class SampleStats:
    """Statistics of one tensor on one sample.

    Attributes:
        low, high: of every channel (axis 1), (channels,), or of all values, (1,). Where nothing is
            negative, ``low`` may be the lowest of several channels.
        values: some of them, at fixed places, for the histogram; of any shape.
        array: the tensor itself, where layers want it to be summed.
    """

    low: np.ndarray
    high: np.ndarray
    values: np.ndarray
    array: np.ndarray | None = None


class ActivationObserver:
    """Runs the float graph on samples and gives statistics of its tensors.

    Args:
        graph: the float graph.
        tensors: whose range and values are wanted, besides those that ``sums`` name.
        sums: what layers want to have summed.
        whole: tell the ranges of whole tensors, not of channels.
    """

    def __init__(
        self,
        graph: Graph,
        tensors: Sequence[str],
        sums: Sequence[InputSum],
        whole: bool = False,
    ) -> None:
        self._summed = dict.fromkeys(input_sum.tensor for input_sum in sums)
        names = dict.fromkeys([*tensors, *self._summed])
        self._inputs = [spec.name for spec in graph.inputs if spec.name in names]
        self._derived = _derived(graph, names, self._summed)
        derived = {name for pairs in self._derived.values() for name, _ in pairs}
        inner = [name for name in names if name not in self._inputs and name not in derived]
        own = [spec.name for spec in graph.outputs]
        self._wanted = set(inner)
        self._channels = set() if whole else _channelled(graph, names)
        for source, follow in reversed(self._derived.items()):
            if any(name in self._channels for name, _ in follow):
                self._channels.add(source)
        # a graph of which nothing is wanted runs all the same: it may refuse a sample
        self._run = PartedRun(graph, inner or own)

    def run(self, feed: Mapping[str, np.ndarray], sample: int) -> Iterator[tuple[str, SampleStats]]:
        """Every tensor on one sample; ``sample`` counts from 0, for errors.

        Raises:
            QuantizationError: a tensor holds NaN or infinity.
        """
        parts = self._run.run(feed)
        first = next(parts, {})  # says first what is wrong with the feed
        for name in self._inputs:
            yield from self._all(name, np.asarray(feed[name]), sample, True)
        while first:
            for name in list(first):
                array = first.pop(name)
                if name in self._wanted:
                    yield from self._all(name, array, sample, False)
            first = next(parts, {})

    def _all(
        self, name: str, array: np.ndarray, sample: int, is_input: bool
    ) -> Iterator[tuple[str, SampleStats]]:
        """A tensor, and those that follow from it."""
        seen = self._seen(name, array, sample, is_input)
        yield name, seen
        waiting = [(name, seen)]
        while waiting:
            source, of = waiting.pop()
            for other, rising in self._derived.get(source, ()):
                follows = self._follows(of, other, rising, sample)
                yield other, follows
                waiting.append((other, follows))

    def _seen(self, name: str, array: np.ndarray, sample: int, is_input: bool) -> SampleStats:
        low, high, values = _reduced(array, name in self._channels)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise not_finite(array, name, sample, is_input)
        return SampleStats(low, high, values, array if name in self._summed else None)

    def _follows(self, seen: SampleStats, name: str, rising: Rising, sample: int) -> SampleStats:
        with np.errstate(over="ignore"):  # told as what it is
            low, high, values = rising(seen.low), rising(seen.high), rising(seen.values)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise not_finite(np.concatenate([low, high]), name, sample, False)
        return SampleStats(low, high, values)


def _derived(
    graph: Graph, names: Iterable[str], but: Collection[str]
) -> dict[str, list[tuple[str, Rising]]]:
    """Tensor -> those of ``names`` that follow from it, and how; none of ``but`` does.

    They need not leave the runtime, and what they hold is not read: a quarter of the values of a
    network with SiLU are such, and half of those of an exported GELU. One may follow from another.
    """
    derived: dict[str, list[tuple[str, Rising]]] = {}
    known = set(names)
    for name in names:
        source, steps = name, list[Rising]()
        while name not in but and (source == name or source not in known):
            node = graph.value(source).producer()
            rising = None if node is None else rising_function(graph, node)
            if rising is None:
                break
            source, step = rising
            steps.insert(0, step)
        if source != name and source in known:
            derived.setdefault(source, []).append((name, composed(steps)))
    return derived


def _stride(size: int) -> int:
    """The step between values for the histogram.

    Prime to the size and so to every axis: it meets all channels and columns alike.
    """
    step = -(-size // _VALUES) or 1
    while step > 1 and math.gcd(step, size) > 1:
        step += 1
    return step


def _has_channels(shape: Sequence[int]) -> bool:
    return len(shape) > 1 and 0 < shape[1] <= _CHANNELS


def _channelled(graph: Graph, names: Iterable[str]) -> set[str]:
    """Which tensors have channels that a weighted layer may scale.

    Those around convolutions, and what has their form. Axis 1 of tokens and of attention is none,
    and ranges of its many short rows would take longer than the network.
    """
    around: set[str] = set()
    lines = False
    for node in graph.nodes:
        if node.op_type in ("Conv", "ConvTranspose"):
            around.update(v.name or "" for v in (*node.inputs[:1], *node.outputs) if v is not None)
            kernel = node.inputs[1].shape if node.inputs[1] is not None else None
            lines |= kernel is not None and kernel.rank() == 3
    batches = {spec.shape[0] for spec in graph.inputs if spec.shape}
    channelled = set()
    for name in names:
        shape = graph.spec(name).shape
        spatial = len(shape) > 3 or (lines and len(shape) == 3)
        if name in around or len(shape) == 2 or (spatial and shape[0] in batches):
            channelled.add(name)
    return channelled


def _reduced(array: np.ndarray, channels: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of the values, by channels where it has them, and the values for the histogram.

    The lower ends are exact where one is negative; else they may be the lowest of several channels.
    All is read block by block, while a block is in the cache.
    """
    if array.size == 0:
        return np.zeros(1, np.float32), np.zeros(1, np.float32), array
    flat, stride = array.reshape(-1), _stride(array.size)
    channels = channels and _has_channels(array.shape)
    if channels and array.shape[0] != 1:
        return *_ends(np.moveaxis(array, 1, 0).reshape(array.shape[1], -1)), flat[::stride]
    length = flat.size // array.shape[1] if channels else 1
    width = max(1, _BLOCK // length) * length
    if width >= flat.size:
        return *_ends(flat.reshape(-1, length) if channels else flat[np.newaxis]), flat[::stride]
    lows, highs = [], []
    values = np.empty(-(-flat.size // stride), flat.dtype)
    for begin in range(0, flat.size, width):
        block = flat[begin : begin + width]
        low, high = _ends(block.reshape(-1, length) if channels else block[np.newaxis])
        lows.append(low)
        highs.append(high)
        end = begin + block.size
        first = -(-begin // stride)
        values[first : -(-end // stride)] = flat[first * stride : end : stride]
    low, high = np.concatenate(lows), np.concatenate(highs)
    if not channels:  # min and max pass NaN on
        low, high = low.min(keepdims=True), high.max(keepdims=True)
    return low, high, values


def _ends(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maximum of every row; minimum of every row, or of all where nothing is negative."""
    some = rows.reshape(-1)[:: max(1, rows.size // _PEEK)]
    negative = bool((some < 0).any())  # then one pass over all values less
    lowest = None if negative else rows.min()
    if 1 < rows.shape[1] <= _SHORT < rows.size:  # numpy takes most of its time between short rows
        rows = np.ascontiguousarray(rows.T).T
    if lowest is not None and lowest >= 0:
        return np.broadcast_to(lowest, len(rows)), rows.max(axis=1)
    return rows.min(axis=1), rows.max(axis=1)


def not_finite(array: np.ndarray, tensor: str, sample: int, is_input: bool) -> QuantizationError:
    """The error of a tensor that holds such values on a sample."""
    bad = int(array.size - np.isfinite(array).sum())
    nan = bool(np.isnan(array).any())
    where = f"{'the input' if is_input else 'tensor'} {sanitize(tensor)!r}"
    return QuantizationError(
        f"Calibration sample {sample + 1} gives {bad} values of {where} that are "
        f"{'not a number (NaN)' if nan else 'infinite'}.",
        cause="The sample contains such values, or its mean and std do not fit the model."
        if is_input
        else "The model overflows on this sample: wrong mean and std, or damaged weights.",
        remedy=f"Look at sample {sample + 1} of the dataset; check mean and std; or leave it out.",
    )
