"""The float graph as something that tells what every tensor held on one sample.

The graph runs in parts, so that a sample costs little more memory than the tensors of one part;
they are reduced in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.text import printable
from engine.graph.execute import PartedRun
from engine.graph.ir import Graph
from engine.quantize.observe_inputs import InputSum

__all__ = ["Seen", "Watch"]

# Channels whose ranges are kept one by one; axis 1 of a list of boxes is longer and no channel.
_CHANNELS = 4096

# Values of a tensor whose range is found at a time: they are in the cache for both ends of it.
_BLOCK = 1 << 17

# Values of one tensor and sample that go to its histogram. Its range is that of all values.
_VALUES = 8192


@dataclass(frozen=True, eq=False)
class Seen:
    """One tensor on one sample.

    Attributes:
        low, high: of every channel (axis 1), (channels,), or of all values, (1,).
        values: some of them, at fixed places, for the histogram; of any shape.
        array: the tensor itself, where layers want it to be summed.
    """

    low: np.ndarray
    high: np.ndarray
    values: np.ndarray
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
        self._summed = dict.fromkeys(wanted.tensor for wanted in sums)
        names = dict.fromkeys([*tensors, *self._summed])
        self._inputs = [spec.name for spec in graph.inputs if spec.name in names]
        inner = [name for name in names if name not in self._inputs]
        own = [spec.name for spec in graph.outputs]
        self._wanted = set(inner)
        # a graph of which nothing is wanted runs all the same: it may refuse a sample
        self._run = PartedRun(graph, inner or own, threads=threads)

    def run(self, feed: Mapping[str, np.ndarray], sample: int) -> Iterator[tuple[str, Seen]]:
        """Every tensor on one sample; ``sample`` counts from 0, for errors.

        Raises:
            QuantizationError: a tensor holds NaN or infinity.
        """
        parts = self._run.run(feed)
        first = next(parts, {})  # says first what is wrong with the feed
        for name in self._inputs:
            yield name, self._seen(name, np.asarray(feed[name]), sample, True)
        while first:
            for name in list(first):
                array = first.pop(name)
                if name in self._wanted:
                    yield name, self._seen(name, array, sample, False)
            first = next(parts, {})

    def _seen(self, name: str, array: np.ndarray, sample: int, is_input: bool) -> Seen:
        low, high = _range(array, name, sample, is_input)
        values = array.reshape(-1)[:: _stride(array.size)]
        return Seen(low, high, values, array if name in self._summed else None)


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
    low, high = _ends(rows)
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


def _ends(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimum and maximum of every row, both while its values are in the cache."""
    count, length = rows.shape
    step = max(1, _BLOCK // length)
    if step >= count:
        return rows.min(axis=1), rows.max(axis=1)
    low, high = np.empty(count, rows.dtype), np.empty(count, rows.dtype)
    for start in range(0, count, step):
        block = rows[start : start + step]
        block.min(axis=1, out=low[start : start + step])
        block.max(axis=1, out=high[start : start + step])
    return low, high
