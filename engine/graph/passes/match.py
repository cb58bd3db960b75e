"""Questions that rules ask about values and nodes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

__all__ = [
    "array",
    "constant_input",
    "input_at",
    "integers",
    "is_constant",
    "only_reader",
    "operators",
    "shape",
    "uniform_value",
]


def operators(names: str) -> frozenset[str]:
    """The names of operators in a text, separated by blanks."""
    return frozenset(names.split())


def is_constant(value: ir.Value | None) -> bool:
    """Whether the value is an initializer."""
    return value is not None and value.is_initializer() and value.const_value is not None


def array(value: ir.Value | None) -> np.ndarray | None:
    """The array of an initializer, not to be written to; None for every other value."""
    if value is None or not value.is_initializer() or value.const_value is None:
        return None
    return value.const_value.numpy()


def input_at(node: ir.Node, index: int) -> ir.Value | None:
    """An input, or None where it is left out."""
    inputs = node.inputs
    return inputs[index] if index < len(inputs) else None


def constant_input(node: ir.Node, index: int) -> np.ndarray | None:
    """The array of an input that is an initializer."""
    return array(input_at(node, index))


def integers(node: ir.Node, index: int) -> list[int] | None:
    """A constant input as a list of integers."""
    found = constant_input(node, index)
    return None if found is None else [int(v) for v in found.ravel()]


def shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape of a value; None while any of it is unknown."""
    if value is None or value.shape is None:
        return None
    dims = tuple(value.shape)
    return dims if all(isinstance(dim, int) for dim in dims) else None  # type: ignore[return-value]


def only_reader(value: ir.Value) -> ir.Node | None:
    """The node that alone reads the value, once."""
    if value.is_graph_output():
        return None
    uses = value.uses()
    return next(iter(uses)).node if len(uses) == 1 else None


def uniform_value(value: ir.Value | None) -> float | None:
    """The number that a constant holds in all its elements; None where they differ or are NaN."""
    found = array(value)
    if found is None or found.size == 0 or found.dtype.kind not in "fiub":
        return None
    first = found.flat[0]
    return float(first) if bool((found == first).all()) else None
