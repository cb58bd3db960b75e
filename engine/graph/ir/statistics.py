"""Statistics of one tensor for a screen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.base.errors import UsageError
from engine.wire.graph import Channels, Histogram, TensorStatistics

_MAX_BINS = 4096
_MAX_CHANNELS = 4096


def tensor_statistics(
    array: np.ndarray, bins: int = 64, *, name: str = "", axis: int | None = None
) -> TensorStatistics:
    """What a screen shows of a tensor; figures are over its finite values.

    Args:
        array: numbers or booleans, any shape.
        bins: number of bins of the histogram, 1..4096.
        name: the tensor's name, passed through.
        axis: the channel axis; by default 0 where there are two axes or more (the output channels
            of a weight).

    Raises:
        UsageError: ``bins`` or ``axis`` is out of range, or the tensor holds no numbers.
    """
    if not 1 <= bins <= _MAX_BINS:
        raise UsageError(f"A histogram has 1 to {_MAX_BINS} bins, not {bins}.")
    if array.dtype.kind not in "biufV" or array.dtype.names:
        raise UsageError(f"A tensor of type {array.dtype} holds no numbers.")
    if axis is not None and not -array.ndim <= axis < array.ndim:
        raise UsageError(f"A tensor of rank {array.ndim} has no axis {axis}.")
    numbers = array if array.dtype == np.float32 else array.astype(np.float64)
    mask = np.isfinite(numbers)
    finite = bool(mask.all())
    values = numbers.ravel() if finite else numbers[mask]
    facts = TensorStatistics(
        name=name,
        shape=array.shape,
        dtype=array.dtype.name,
        count=int(array.size),
        minimum=None,
        maximum=None,
        mean=None,
        std=None,
        zeros=int(array.size - np.count_nonzero(numbers)),
        finite=finite,
        histogram=None,
        channels=None,
    )
    if values.size == 0:
        return facts
    low, high = float(values.min()), float(values.max())
    channels = None
    if axis is None and array.ndim >= 2:
        axis = 0
    if axis is not None and finite and array.shape[axis] <= _MAX_CHANNELS:
        others = tuple(index for index in range(array.ndim) if index != axis % array.ndim)
        channels = Channels(
            axis % array.ndim,
            tuple(numbers.min(axis=others).astype(np.float64).tolist()),
            tuple(numbers.max(axis=others).astype(np.float64).tolist()),
        )
    return replace(
        facts,
        minimum=low,
        maximum=high,
        mean=float(values.mean(dtype=np.float64)),
        std=float(values.std(dtype=np.float64)),
        histogram=_histogram(values, low, high, bins),
        channels=channels,
    )


def _histogram(values: np.ndarray, low: float, high: float, bins: int) -> Histogram:
    if low == high:
        counts = [0] * bins
        counts[bins // 2] = int(values.size)
        return Histogram(low, high, tuple(counts))
    # float64 edges: in float32 the bins of a narrow range far from zero would have no width
    counted, _ = np.histogram(values.astype(np.float64), bins=bins, range=(low, high))
    return Histogram(low, high, tuple(counted.tolist()))
