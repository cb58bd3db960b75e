"""What depends on no input: small numbers are computed, large ones only when somebody asks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from engine.cost.lowering.node import Node, Tensor
from engine.graph.ir.folding import FOLDED, fold

_SMALL = 1 << 14
"""Elements of a result that is computed at once: shapes, indexes, scalars, slopes."""

_KEPT = frozenset({"DequantizeLinear", "If", "Loop", "QuantizeLinear", "Scan"})
"""Not constants, whatever they read: weights that are stored in int8 are looked through later."""


def fold_constants(nodes: list[Node], tensors: dict[str, Tensor]) -> list[Node]:
    """The nodes that depend on an input; what the others write are constants in ``tensors``."""
    left = []
    for node in nodes:
        folded = _folded(node, tensors) if len(node.outputs) == 1 else None
        constants = _unknown(node, tensors) if folded is None else [folded]
        if not constants:
            left.append(node)
        tensors.update((constant.name, constant) for constant in constants)
    return left


def _unknown(node: Node, tensors: dict[str, Tensor]) -> list[Tensor]:
    """Constants that the compiler computes and no rewrite asks for: zeros stand for them."""
    read = [tensors.get(name) for name in node.inputs if name]
    if not read or not all(tensor is not None and tensor.const for tensor in read):
        return []
    if node.op in _KEPT:
        return []
    written = [tensors.get(name) for name in node.outputs if name]
    if None in written:
        return []
    return [replace(t, values=_zeros(t), filled=True) for t in written if t is not None]


def _zeros(tensor: Tensor) -> Callable[[], np.ndarray]:
    return lambda: np.broadcast_to(np.zeros((), tensor.dtype or "float32"), tensor.shape)


def _folded(node: Node, tensors: dict[str, Tensor]) -> Tensor | None:
    name = node.outputs[0]
    known = tensors.get(name)
    read = [tensors.get(name) for name in node.inputs if name]
    if known is None or not all(read):
        return None
    if node.op in ("Shape", "Size"):
        dims = read[0].shape if read[0] else ()
        start, end = node.int("start"), node.int("end", len(dims))
        value = np.array(math.prod(dims) if node.op == "Size" else dims[start:end], dtype=np.int64)
        return Tensor(name, value.shape, "int64", lambda: value)
    if node.op not in FOLDED or not read or not all(tensor and tensor.const for tensor in read):
        return None
    filled = any(tensor.filled for tensor in read if tensor)
    largest = max(math.prod(tensor.shape) for tensor in (*read, known) if tensor)
    inputs = [tensors.get(name) if name else None for name in node.inputs]

    @cache
    def compute() -> np.ndarray:
        arrays = [tensor.values() if tensor and tensor.values else None for tensor in inputs]
        return fold(node.op, arrays, node.attributes, largest=max(largest, _SMALL))

    if largest > _SMALL:
        return Tensor(name, known.shape, known.dtype, compute, filled)
    try:
        value = compute()
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return Tensor(name, value.shape, value.dtype.name, lambda: value, filled)
