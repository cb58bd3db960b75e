"""Quantized graphs whose roundings go the other way where a value lies on an edge.

A value lies on the edge between two integers where its fraction is one half. Which of the two a
machine takes depends on the order of its sums, the width of its multiplier, and its rule for ties.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, constant_of
from engine.graph.passes import Editor

EDGE = 1e-3
"""How near to an edge a value is shaken over it, in steps. Float32 sums of a thousand products
differ by about as much when their order changes."""

_HALF_STEP = 2.0**-11  # the smallest relative step of half precision
_LEAST = 64  # different numbers in a pattern, so that neighbours do not all go one way
_INTEGERS = frozenset({"int8", "uint8", "int16", "uint16"})


@dataclass(frozen=True)
class _Pattern:
    """The numbers of one tensor: their shape, the one that changes nothing, and a step."""

    shape: tuple[int, ...]
    still: float
    scale: float


class Shaken:
    """A graph in which numbers are added to every tensor before it is rounded.

    They are evenly distributed between ``-edge`` and ``edge`` steps: only values within ``edge`` of
    an edge can become another integer. All positions of a tensor's last two axes have numbers of
    their own, and channels share them. What is rounded to half precision, whose steps are relative,
    is multiplied: its values move by ``edge`` of a step at most, and half of that at least.

    Args:
        graph: with Q/DQ pairs.
        edge: in steps.

    Attributes:
        graph: a copy, whose further inputs are the numbers.
    """

    def __init__(self, graph: Graph, edge: float = EDGE) -> None:
        self._edge = edge
        self._patterns: dict[str, _Pattern] = {}
        copy = graph.copy()
        edit = Editor(copy.model)
        edges = [(node, value, "Add", 0.0, float(s)) for node, value, s in _roundings(copy)]
        edges += [(node, value, "Mul", 1.0, _HALF_STEP) for node, value in _halves(copy)]
        for node, value, op, still, scale in edges:
            name, shape = f"{node.name}/edge", _pattern(value)
            number = ir.Value(
                name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape)
            )
            copy.model.graph.inputs.append(number)
            moved = edit.insert(op, [value, number], before=node, like=value, name=name)
            node.replace_input_with(0, moved.outputs[0])
            self._patterns[name] = _Pattern(shape, still, scale)
        self.graph = Graph(copy.model)

    @property
    def still(self) -> dict[str, np.ndarray]:
        """The further inputs that shake nothing."""
        return {n: np.full(one.shape, one.still, np.float32) for n, one in self._patterns.items()}

    def numbers(self, seed: int) -> dict[str, np.ndarray]:
        """The further inputs of a seed."""
        random = np.random.default_rng(seed)
        return {
            name: one.still
            + (random.uniform(-self._edge, self._edge, one.shape) * one.scale).astype(np.float32)
            for name, one in self._patterns.items()
        }


def halves_up(graph: Graph) -> Graph:
    """A copy that rounds halves up, where ONNX rounds them to the even integer.

    Every rounding becomes ``floor(x / scale + 1/2)``, which the QuantizeLinear behind it keeps.
    """
    copy = graph.copy()
    edit = Editor(copy.model)
    half = edit.constant(np.array(0.5, np.float32), "edge/half")
    for node, value, scale in _roundings(copy):
        step = edit.constant(scale, f"{node.name}/step")
        halved = value
        for op, inputs in (
            ("Div", [step]),
            ("Add", [half]),
            ("Floor", []),
            ("Mul", [step]),
        ):
            halved = edit.insert(
                op, [halved, *inputs], before=node, like=value, name=f"{node.name}/{op}"
            ).outputs[0]
        node.replace_input_with(0, halved)
    return Graph(copy.model)


def _roundings(graph: Graph) -> Iterator[tuple[ir.Node, ir.Value, np.ndarray]]:
    """The nodes that round an activation to integers of one scale, their input, and the scale."""
    for node in list(graph.nodes):
        if node.op_type != "QuantizeLinear" or len(node.inputs) < 3:
            continue
        value, scale, zero = (
            node.inputs[0],
            constant_of(node.inputs[1]),
            constant_of(node.inputs[2]),
        )
        if value is None or scale is None or zero is None or constant_of(value) is not None:
            continue
        step = scale.numpy()
        if step.size == 1 and step.dtype == np.float32 and str(zero.numpy().dtype) in _INTEGERS:
            yield node, value, step.reshape(())


def _halves(graph: Graph) -> Iterator[tuple[ir.Node, ir.Value]]:
    """The nodes that round an activation to half precision, and their input."""
    for node in list(graph.nodes):
        value = node.inputs[0] if node.op_type == "Cast" else None
        if (
            value is not None
            and value.dtype == ir.DataType.FLOAT
            and constant_of(value) is None
            and node.attributes.get_int("to", 0) == ir.DataType.FLOAT16.value
        ):
            yield node, value


def _pattern(value: ir.Value) -> tuple[int, ...]:
    """The shape of the numbers for a tensor: its last axes, as many as give enough of them."""
    if value.shape is None:
        return ()
    dims = [dim if isinstance(dim, int) else 1 for dim in value.shape]
    for count in range(min(2, len(dims)), len(dims) + 1):
        if math.prod(dims[len(dims) - count :]) >= _LEAST or count == len(dims):
            return tuple(dims[len(dims) - count :])
    return tuple(dims)
