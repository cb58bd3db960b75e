"""Operators on constants, computed while the model is read: mostly the arithmetic of shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from engine.frontends.tflite.layer import Layer
from engine.frontends.tflite.ops.shape_ops import new_shape, strided_ranges

__all__ = ["FOLDS"]

Fold = Callable[[Layer], list[np.ndarray] | None]

_MAX_ELEMENTS = 1 << 20


def _arrays(layer: Layer) -> list[np.ndarray] | None:
    """The inputs, where all are plain constants of bounded size."""
    arrays = []
    for value in layer.inputs:
        if value is None or value.array is None or value.quant is not None:
            return None
        arrays.append(value.array)
    if sum(array.size for array in arrays) > _MAX_ELEMENTS:
        return None
    return arrays


def _of(function: Callable[..., Any]) -> Fold:
    """A function of the inputs' arrays, where no activation is fused to it."""

    def fold(layer: Layer) -> list[np.ndarray] | None:
        arrays = _arrays(layer)
        if arrays is None or layer.operator.options.get("activation"):
            return None
        shapes = [array.shape for array in arrays]
        if math.prod(np.broadcast_shapes(*shapes)) > _MAX_ELEMENTS:
            return None
        with np.errstate(all="ignore"):
            return [np.asarray(function(*arrays))]

    return fold


def _with(function: Callable[[Layer, list[np.ndarray]], np.ndarray | None]) -> Fold:
    """A function that needs the layer too."""

    def fold(layer: Layer) -> list[np.ndarray] | None:
        arrays = _arrays(layer)
        result = None if arrays is None else function(layer, arrays)
        return None if result is None else [np.asarray(result)]

    return fold


def _shape(layer: Layer) -> list[np.ndarray]:
    return [np.array(layer.input(0).shape, np.int64)]


def _rank(layer: Layer) -> list[np.ndarray]:
    return [np.array(layer.input(0).rank, np.int64)]


def _zeros_like(layer: Layer) -> list[np.ndarray] | None:
    x = layer.input(0)
    if x.quant is not None or x.count > _MAX_ELEMENTS:
        raise layer.refusal("its result is quantized, or too large for a constant")
    return [np.zeros(x.shape, x.dtype)]


def _truncated_division(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Integers are divided as C does, towards zero."""
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    if not y.all():
        raise ValueError("a division by zero")
    return np.asarray(np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)))


def _slice(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    x, begins, sizes = arrays
    taken = [
        slice(int(begin), None if size == -1 else int(begin) + int(size))
        for begin, size in zip(begins.reshape(-1), sizes.reshape(-1), strict=True)
    ]
    return np.asarray(x[tuple(taken)])


def _strided_slice(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    ranges, shape = strided_ranges(layer)
    result = arrays[0]
    for axis, taken in enumerate(ranges):
        result = np.take(result, np.array(taken, np.int64), axis=axis)
    return result.reshape(shape)


def _pack(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    return np.stack(arrays, axis=layer.int_option("axis"))


def _concatenation(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray | None:
    if layer.int_option("activation"):
        return None
    return np.concatenate(arrays, axis=layer.int_option("axis"))


def _parts(layer: Layer) -> list[np.ndarray] | None:
    """UNPACK and SPLIT."""
    arrays = _arrays(layer)
    if arrays is None:
        return None
    if layer.operator.type == "UNPACK":
        axis = layer.axis(layer.int_option("axis"))
        if arrays[0].shape[axis] != layer.outputs:
            raise ValueError(f"{arrays[0].shape[axis]} parts for {layer.outputs} outputs")
        return [np.take(arrays[0], index, axis=axis) for index in range(layer.outputs)]
    axis = layer.axis(int(arrays[0].reshape(-1)[0]), arrays[1].ndim)
    return list(np.split(arrays[1], layer.outputs, axis=axis))


def _gather(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray | None:
    if layer.int_option("batch_dims"):
        return None
    return np.take(arrays[0], arrays[1], axis=layer.int_option("axis"))


def _reshape(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0].reshape(new_shape(layer))


def _transpose(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0].transpose([int(axis) for axis in arrays[1]])


def _reduced(function: Callable[..., Any]) -> Fold:
    def reduce(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
        axes = tuple({layer.axis(int(axis)) for axis in arrays[1].reshape(-1)})
        keep = bool(layer.int_option("keep_dims"))
        return np.asarray(function(arrays[0], axis=axes, keepdims=keep))

    return _with(reduce)


def _range(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    start, limit, delta = (array.reshape(-1)[0] for array in arrays)
    if delta == 0:
        raise ValueError("a range with steps of zero")
    # GetSize of range.cc
    count = math.ceil((float(limit) - float(start)) / float(delta))
    if count > _MAX_ELEMENTS:
        raise ValueError(f"a range of {count} numbers")
    return np.asarray(start + np.arange(max(count, 0)) * delta, arrays[0].dtype)


def _filled(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray | None:
    shape = [int(size) for size in arrays[0].reshape(-1)]
    if min(shape, default=0) < 0 or math.prod(shape) > _MAX_ELEMENTS:
        return None
    return np.full(shape, arrays[1].reshape(-1)[0])


def _broadcast_to(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray | None:
    shape = [int(size) for size in arrays[1].reshape(-1)]
    if math.prod(shape) > _MAX_ELEMENTS:
        return None
    return np.broadcast_to(arrays[0], shape)


def _tile(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray | None:
    times = [int(count) for count in arrays[1].reshape(-1)]
    if min(times, default=0) < 0 or math.prod(times) * arrays[0].size > _MAX_ELEMENTS:
        return None
    return np.tile(arrays[0], times)


def _broadcast_args(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    return np.array(np.broadcast_shapes(*(tuple(a.tolist()) for a in arrays)), np.int64)


def _cast(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    return np.asarray(arrays[0].astype(layer.dtype()))


def _where(layer: Layer, arrays: list[np.ndarray]) -> np.ndarray:
    return np.argwhere(arrays[0])


FOLDS: dict[str, Fold] = {
    "ABS": _of(np.abs),
    "ADD": _of(np.add),
    "BROADCAST_ARGS": _with(_broadcast_args),
    "BROADCAST_TO": _with(_broadcast_to),
    "CAST": _with(_cast),
    "CONCATENATION": _with(_concatenation),
    "CEIL": _of(np.ceil),
    "DIV": _of(_truncated_division),
    "EQUAL": _of(np.equal),
    "EXPAND_DIMS": _with(_reshape),
    "FILL": _with(_filled),
    "FLOOR": _of(np.floor),
    "FLOOR_DIV": _of(np.floor_divide),
    "FLOOR_MOD": _of(np.mod),
    "GATHER": _with(_gather),
    "GREATER": _of(np.greater),
    "GREATER_EQUAL": _of(np.greater_equal),
    "LESS": _of(np.less),
    "LESS_EQUAL": _of(np.less_equal),
    "LOGICAL_AND": _of(np.logical_and),
    "LOGICAL_NOT": _of(np.logical_not),
    "LOGICAL_OR": _of(np.logical_or),
    "MAXIMUM": _of(np.maximum),
    "MINIMUM": _of(np.minimum),
    "MUL": _of(np.multiply),
    "NEG": _of(np.negative),
    "NOT_EQUAL": _of(np.not_equal),
    "PACK": _with(_pack),
    "RANGE": _with(_range),
    "RANK": _rank,
    "REDUCE_ALL": _reduced(np.all),
    "REDUCE_ANY": _reduced(np.any),
    "REDUCE_MAX": _reduced(np.max),
    "REDUCE_MIN": _reduced(np.min),
    "REDUCE_PROD": _reduced(np.prod),
    "RESHAPE": _with(_reshape),
    "ROUND": _of(np.rint),
    "SELECT_V2": _of(np.where),
    "SHAPE": _shape,
    "SLICE": _with(_slice),
    "SPLIT": _parts,
    "SQUEEZE": _with(_reshape),
    "STRIDED_SLICE": _with(_strided_slice),
    "SUB": _of(np.subtract),
    "SUM": _reduced(np.sum),
    "TILE": _with(_tile),
    "TRANSPOSE": _with(_transpose),
    "UNPACK": _parts,
    "WHERE": _with(_where),
    "ZEROS_LIKE": _zeros_like,
}
"""Operator -> its results where every input is a constant; None leaves it to its handler."""
