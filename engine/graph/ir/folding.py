"""One operator of ONNX on numbers that are known, in numpy: shapes, indexes, scalars, slopes.

Readers and the cost model fold a handful of numbers at a time. ONNX Runtime needs a millisecond and
a session for each node, and is not there where TensorFlow converts, so these are numpy's own
functions. Each result has a bound, and with it the time that it takes. Where the folded numbers go
into a graph that is simulated, ONNX Runtime computes them (:mod:`engine.graph.passes.folding`,
:mod:`engine.frontends.onnx.control.evaluate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx

LARGEST = 1 << 20
"""Elements of a result, where the caller gives no bound and no input is larger."""

DIVISIONS = frozenset({"Div", "Mod"})
"""Operators that divide."""

_Arrays = Sequence["np.ndarray | None"]
_Attributes = Mapping[str, Any]


class TooLargeError(ValueError):
    """A result with more elements than its bound."""


def fold(
    op: str, arrays: _Arrays, attributes: _Attributes | None = None, *, largest: int = LARGEST
) -> np.ndarray:
    """The only output of an operator.

    Args:
        op: one of ``FOLDED``: an operator of ONNX, ``FloorDiv`` or ``NotEqual``.
        arrays: one per input; None for an input that is left out.
        attributes: of ONNX, plain values; ``value`` of ConstantOfShape is a number or an array.
        largest: elements of the result; one that is no larger than the inputs together is within.

    Raises:
        TooLargeError: the result has more.
        ValueError: the operator is not known, or the numbers do not fit it; numpy raises IndexError
            and TypeError too.
    """
    first = next((array for array in arrays if array is not None), None)
    if first is None:
        raise ValueError(f"{op} without an input")
    largest = max(largest, sum(array.size for array in arrays if array is not None))
    if op in DIVISIONS and (arrays[1] is None or not is_safe_division(arrays[0], arrays[1])):
        raise ValueError("a division by zero, or one that has no result")
    with np.errstate(all="ignore"):
        if op in _MOVES:
            return np.asarray(_MOVES[op](first, arrays, attributes or {}, largest))
        present = [array for array in arrays if array is not None]
        _bounded(np.broadcast_shapes(*(array.shape for array in present)), largest)
        if op in _JOINED:
            return np.asarray(reduce(_JOINED[op], present))
        return np.asarray(_ELEMENTWISE[op](*present))


def is_safe_division(dividend: np.ndarray | None, divisor: np.ndarray) -> bool:
    """Whether a division has a result; one of integers that has none kills the process (SIGFPE).

    That is a division by zero, and one of the smallest number by -1, whose result is too large.

    Args:
        dividend: its numbers; None where they are not known, which counts as the worst.
        divisor: of the same type.
    """
    if divisor.dtype.kind not in "iu":
        return True
    if not divisor.all():
        return False
    if divisor.dtype.kind == "u" or not (divisor == -1).any():
        return True
    return dividend is not None and not (dividend == np.iinfo(divisor.dtype).min).any()


def _bounded(shape: Sequence[int], largest: int) -> None:
    if math.prod(shape) > largest:
        raise TooLargeError(f"a result of {math.prod(shape)} numbers")


def _whole(array: np.ndarray | None) -> list[int]:
    return [] if array is None else [int(number) for number in array.reshape(-1)]


def _input(arrays: _Arrays, index: int) -> np.ndarray | None:
    return arrays[index] if index < len(arrays) else None


def _axes(arrays: _Arrays, attributes: _Attributes) -> tuple[int, ...]:
    """Axes as an input, or as older opsets have them, as an attribute."""
    axes = _input(arrays, 1)
    return tuple(attributes.get("axes", ()) if axes is None else _whole(axes))


# --------------------------------------------------------------------------- element by element


def _divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Integers are divided as C does, towards zero."""
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    return np.asarray(np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)), x.dtype)


_JOINED: Mapping[str, Callable[..., np.ndarray]] = {"Max": np.maximum, "Min": np.minimum}
"""Operators of any number of inputs."""

_ELEMENTWISE: Mapping[str, Callable[..., np.ndarray]] = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Div": _divided,
    "Equal": np.equal,
    "Exp": np.exp,
    "Floor": np.floor,
    "FloorDiv": np.floor_divide,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Identity": np.asarray,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Log": np.log,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "NotEqual": np.not_equal,
    "Or": np.logical_or,
    "Pow": np.power,
    "Reciprocal": np.reciprocal,
    "Round": np.rint,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Where": np.where,
}

# ------------------------------------------------------------------------- moves, sizes, reductions


def _remainder(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    _bounded(
        np.broadcast_shapes(*(operand.shape for operand in arrays if operand is not None)), largest
    )
    return np.asarray((np.fmod if a.get("fmod") else np.mod)(x, np.asarray(arrays[1])))


def _cast(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    return x.astype(onnx.helper.tensor_dtype_to_np_dtype(a["to"]))


def _concat(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    return np.concatenate([array for array in arrays if array is not None], axis=a["axis"])


def _sum_up(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    if a.get("exclusive") or a.get("reverse"):
        raise ValueError("such a running sum is not computed")
    return np.cumsum(x, axis=_whole(arrays[1])[0], dtype=x.dtype)


def _gather(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    axis, places = a.get("axis", 0), np.asarray(_input(arrays, 1))
    _bounded([x.size // max(x.shape[axis], 1), places.size], largest)
    return np.take(x, places, axis=axis)


def _slice(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    starts, ends, axes, steps = (_whole(_input(arrays, index)) for index in range(1, 5))
    cuts = [slice(None)] * x.ndim
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # an end before the first element is how ONNX writes "down to it"
        cuts[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(cuts)]


def _reshape(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    sizes = _whole(arrays[1])
    if not a.get("allowzero"):
        sizes = [size or x.shape[axis] for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    return x.reshape(math.prod(x.shape[: a.get("axis", 1)]), -1)


def _transpose(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    return np.transpose(x, a.get("perm") or None)


def _unsqueeze(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    return np.expand_dims(x, _axes(arrays, a))


def _squeeze(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    return np.squeeze(x, _axes(arrays, a) or None)


def _expand(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, tuple(_whole(arrays[1])))
    _bounded(shape, largest)
    return np.broadcast_to(x, shape)


def _tile(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    counts = _whole(arrays[1])
    _bounded([x.size, *counts], largest)
    return np.tile(x, counts)


def _filled(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    shape = _whole(x)
    _bounded(shape, largest)
    value = a.get("value")
    return np.full(shape, np.float32(0) if value is None else np.asarray(value).reshape(-1)[0])


def _range(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
    start, limit, step = (np.asarray(array).reshape(-1)[0] for array in arrays)
    if step == 0:
        raise ValueError("a range with steps of zero")
    # ONNX, Range, and GetSize of TFLite's range.cc
    count = max(math.ceil((float(limit) - float(start)) / float(step)), 0)
    _bounded([count], largest)
    return np.asarray(start + np.arange(count) * step, x.dtype)


_Move = Callable[[np.ndarray, _Arrays, _Attributes, int], np.ndarray]


def _reduced(function: Callable[..., Any]) -> _Move:
    def move(x: np.ndarray, arrays: _Arrays, a: _Attributes, largest: int) -> np.ndarray:
        axes = _axes(arrays, a) or (() if a.get("noop_with_empty_axes") else None)
        result = function(x, axis=axes, keepdims=bool(a.get("keepdims", 1)))
        return np.asarray(result, x.dtype)

    return move


_MOVES: Mapping[str, _Move] = {
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "CumSum": _sum_up,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Mod": _remainder,
    "Range": _range,
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}

FOLDED = frozenset(_JOINED) | frozenset(_ELEMENTWISE) | frozenset(_MOVES)
"""What is known: mostly the arithmetic of shapes."""
