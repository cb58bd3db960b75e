"""What depends on no input: small numbers are computed, large ones only when somebody asks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from engine.cost.lowering.graph import Node, Tensor

__all__ = ["fold_constants"]

_SMALL = 1 << 14
"""Elements of a result that is computed at once: shapes, indexes, scalars, slopes."""

_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Pow": np.power,
    "Sub": np.subtract,
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Mod": np.mod,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Reciprocal": np.reciprocal,
    "Round": np.rint,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Where": np.where,
}

_KEPT = frozenset({"DequantizeLinear", "If", "Loop", "QuantizeLinear", "Scan"})
"""Not constants, whatever they read: weights that are stored in int8 are looked through later."""

_CASTS = {
    1: "float32",
    2: "uint8",
    3: "int8",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
}
"""Numbers of ONNX's data types."""


def fold_constants(nodes: list[Node], tensors: dict[str, Tensor]) -> list[Node]:
    """The nodes that depend on an input; what the others write are constants in ``tensors``."""
    left = []
    for node in nodes:
        made = _folded(node, tensors) if len(node.outputs) == 1 else None
        unknown = _unknown(node, tensors) if made is None else [made]
        if not unknown:
            left.append(node)
        for each in unknown:
            tensors[each.name] = each
    return left


def _unknown(node: Node, tensors: dict[str, Tensor]) -> list[Tensor]:
    """Constants that the compiler computes and no rewrite asks for: zeros stand for them."""
    read = [tensors.get(each) for each in node.inputs if each]
    if not read or not all(each is not None and each.const for each in read):
        return []
    if node.op in _KEPT:
        return []
    made = [tensors.get(each) for each in node.outputs if each]
    found = [each for each in made if each is not None]
    if len(found) < len(made):
        return []
    return [replace(each, values=_zeros(each), filled=True) for each in found]


def _zeros(tensor: Tensor) -> Callable[[], np.ndarray]:
    return lambda: np.broadcast_to(np.zeros((), tensor.dtype or "float32"), tensor.shape)


def _folded(node: Node, tensors: dict[str, Tensor]) -> Tensor | None:
    name = node.outputs[0]
    known = tensors.get(name)
    read = [tensors.get(each) for each in node.inputs if each]
    if known is None or not all(read):
        return None
    if node.op in ("Shape", "Size"):
        dims = read[0].shape if read[0] else ()
        start, end = node.int("start"), node.int("end", len(dims))
        value = np.array(math.prod(dims) if node.op == "Size" else dims[start:end], dtype=np.int64)
        return Tensor(name, value.shape, "int64", lambda: value)
    if node.op not in _COMPUTED or not read or not all(each and each.const for each in read):
        return None
    filled = any(each.filled for each in read if each)
    largest = max(math.prod(each.shape) for each in (*read, known) if each)
    inputs = [tensors.get(each) if each else None for each in node.inputs]

    @cache
    def compute() -> np.ndarray:
        arrays = [each.values() if each and each.values else None for each in inputs]
        with np.errstate(all="ignore"):
            return _compute(node, arrays)

    if largest > _SMALL:
        return Tensor(name, known.shape, known.dtype, compute, filled)
    try:
        value = compute()
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        return None
    return Tensor(name, value.shape, value.dtype.name, lambda: value, filled)


def _compute(node: Node, arrays: list[np.ndarray | None]) -> np.ndarray:
    given = [each for each in arrays if each is not None]
    if node.op in _ARITHMETIC:
        result = _ARITHMETIC[node.op](*given)
        return np.asarray(result)
    return np.asarray(_MOVES[node.op](node, arrays, given[0]))


_Arrays = list["np.ndarray | None"]


def _whole(array: np.ndarray | None) -> list[int]:
    return [] if array is None else [int(each) for each in array.reshape(-1)]


def _sum_up(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    if node.int("exclusive") or node.int("reverse"):
        raise ValueError("not computed")
    return np.cumsum(x, axis=int(_whole(arrays[1])[0]), dtype=x.dtype)


def _divide(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    by = arrays[1]
    if by is None:
        raise ValueError("nothing to divide by")
    if x.dtype.kind == "f":
        return np.asarray(x / by)
    return np.asarray(np.trunc(x.astype(np.float64) / by).astype(x.dtype))


def _cast(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return x.astype(_CASTS.get(node.int("to"), "float32"))


def _concat(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return np.concatenate([each for each in arrays if each is not None], axis=node.int("axis"))


def _gather(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    indexes = arrays[1]
    return np.take(x, 0 if indexes is None else indexes, axis=node.int("axis"))


def _axes(node: Node, arrays: _Arrays) -> list[int]:
    return _whole(arrays[1]) if len(arrays) > 1 else list(node.ints("axes"))


def _unsqueeze(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, tuple(_axes(node, arrays)))


def _squeeze(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return np.squeeze(x, tuple(_axes(node, arrays)) or None)


def _slice(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    starts, ends, axes, steps = (_whole(each) for each in (arrays[1:] + [None] * 4)[:4])
    cuts = [slice(None)] * x.ndim
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = steps[at] if steps else 1
        last = None if step < 0 and end < -x.shape[axes[at] if axes else at] else end
        cuts[axes[at] if axes else at] = slice(start, last, step)
    return x[tuple(cuts)]


def _reshape(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    wanted = _whole(arrays[1])
    dims = [x.shape[at] if each == 0 else each for at, each in enumerate(wanted)]
    return x.reshape(dims)


def _flatten(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return x.reshape(math.prod(x.shape[: node.int("axis", 1)]), -1)


def _transpose(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return np.transpose(x, node.ints("perm") or None)


def _expand(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(_whole(arrays[1]))))


def _tile(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return np.tile(x, _whole(arrays[1]))


def _range(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    first, end, step = (np.asarray(each).reshape(-1)[0] for each in arrays[:3])
    if (end - first) / step > _SMALL:
        raise ValueError("too long")
    return np.arange(first, end, step)


def _filled(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return np.zeros(_whole(x), dtype=np.float32)


def _product(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    axes = tuple(_axes(node, arrays)) or None
    return np.asarray(np.prod(x, axis=axes, keepdims=bool(node.int("keepdims", 1))))


def _same(node: Node, arrays: _Arrays, x: np.ndarray) -> np.ndarray:
    return x


_MOVES: dict[str, Callable[[Node, _Arrays, np.ndarray], np.ndarray]] = {
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "CumSum": _sum_up,
    "Div": _divide,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _same,
    "Range": _range,
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}

_COMPUTED = frozenset(_ARITHMETIC) | frozenset(_MOVES)
