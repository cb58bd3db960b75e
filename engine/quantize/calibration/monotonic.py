"""Nodes whose output follows from their input, value by value, and never falls as it rises.

The range and the histogram of such an output are those of the input, put through the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph
from engine.quantize.planning.node_properties import name_of

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
