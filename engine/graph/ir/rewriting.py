"""Rewrites of single nodes of a protobuf graph by a table of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.graph.ir.naming import OPSET, UniqueNames

_Value = TypeVar("_Value", int, float, bytes, list[int], list[float])


class Context:
    """What a rewrite knows of the graph, the names it may take and the constants it adds.

    Types are those that the graph holds: all of them after inference.

    Args:
        graph: the graph.
        opset: its version of ONNX's operators.
        weights: constants that were stripped from it.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        opset: int = OPSET,
        weights: Mapping[str, onnx.TensorProto] | None = None,
    ) -> None:
        self.opset = opset
        taken = {name for node in graph.node for name in (*node.input, *node.output)}
        taken.update(value.name for value in graph.input)
        taken.update(tensor.name for tensor in graph.initializer)
        self._names = UniqueNames(taken)
        self._types = {v.name: v.type for v in (*graph.value_info, *graph.output, *graph.input)}
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._tensors.update(weights or {})
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
                self._tensors[node.output[0]] = node.attribute[0].t
        self.constants: list[onnx.TensorProto] = []

    def name(self, base: str) -> str:
        """A name that no tensor has."""
        return self._names.claim(base)

    def constant(self, base: str, array: np.ndarray) -> str:
        """The name of a new constant."""
        name = self._names.claim(base)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, base: str, *values: int) -> str:
        """The name of a new int64 constant."""
        return self.constant(base, np.array(values, dtype=np.int64))

    def known(self, name: str) -> np.ndarray | None:
        """The array of a constant; None for what is computed, given or stripped of its data."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return None
        return numpy_helper.to_array(tensor)

    def element(self, name: str) -> int:
        """ONNX's number of a tensor's type; 0 where it is not known."""
        if name in self._tensors:
            return int(self._tensors[name].data_type)
        kind = self._types.get(name)
        return 0 if kind is None else int(kind.tensor_type.elem_type)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The static shape of a tensor; None where a dimension or the rank is open."""
        if name in self._tensors:
            return tuple(self._tensors[name].dims)
        return static_shape(self._types.get(name))

    def rank(self, name: str) -> int:
        """How many axes a tensor has; 0 where that is not known."""
        return len(self.type(name).tensor_type.shape.dim)

    def type(self, name: str) -> onnx.TypeProto:
        """The type of a tensor as far as it is known; an empty one for an input left out."""
        if name in self._tensors:
            tensor = self._tensors[name]
            return onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        return self._types.get(name) or onnx.TypeProto()


Rewrite = Callable[[onnx.NodeProto, Context], Sequence[onnx.NodeProto] | None]
"""Gives the nodes that take a node's place, or None where it stays (it may be changed)."""


def rewrite(
    graph: onnx.GraphProto,
    table: Mapping[str, Rewrite],
    *,
    domain: str = "",
    opset: int = OPSET,
    weights: Mapping[str, onnx.TensorProto] | None = None,
) -> bool:
    """Apply ``table`` to the nodes of a domain, in place.

    Args:
        graph, opset, weights: as of :class:`Context`.
        table: operator -> what rewrites it.
        domain: of the operators; the empty one is ONNX's own.

    Returns:
        Whether anything changed.
    """
    if not any(node.op_type in table and node.domain == domain for node in graph.node):
        return False
    context = Context(graph, opset, weights)
    nodes: list[onnx.NodeProto] = []
    changed = False
    for node in graph.node:
        change = table.get(node.op_type) if node.domain == domain else None
        before = node.SerializeToString() if change is not None else b""
        replacement = None if change is None else change(node, context)
        changed |= replacement is not None or (
            change is not None and node.SerializeToString() != before
        )
        nodes += [node] if replacement is None else replacement
    if changed:
        refill(graph.node, nodes)
        graph.initializer.extend(context.constants)
    return changed


class Replacement:
    """The nodes that take the place of one; the main one is to be given its name.

    Args:
        node: the one.
        context: what is known of its graph.
    """

    def __init__(self, node: onnx.NodeProto, context: Context) -> None:
        self.replaced = node
        self.context = context
        self.nodes: list[onnx.NodeProto] = []
        self._base = next(name for name in node.output if name)

    def given(self, index: int) -> str:
        """The name of an input; empty where it is left out."""
        return self.replaced.input[index] if index < len(self.replaced.input) else ""

    def kept(self, *names: str) -> dict[str, Any]:
        """The attributes ``names`` that the node has."""
        held = self.replaced.attribute
        return {a.name: helper.get_attribute_value(a) for a in held if a.name in names}

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Add an operator; gives the name of its result."""
        out = self.context.name(output or f"{self._base}_{op.lower()}")
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def scalar(self, value: float, dtype: Any = np.float32) -> str:
        """A constant without dimensions."""
        return self.context.constant(f"{self._base}_constant", np.array(value, dtype))

    def ints(self, *values: int) -> str:
        """An int64 vector."""
        return self.context.ints(f"{self._base}_ints", *values)

    def finished(self, *results: str) -> Sequence[onnx.NodeProto]:
        """All nodes; ``results`` become the outputs of the node, in order, where it has them."""
        outputs = self.replaced.output
        names = {r: out for r, out in zip(results, outputs, strict=False) if r and out}
        for node in self.nodes:
            for field in (node.input, node.output):
                field[:] = [names.get(name, name) for name in field]
        return self.nodes


def attribute(node: onnx.NodeProto, name: str, default: _Value) -> _Value:
    """An attribute of a node, where it has one of the default's type; lists as Python's."""
    for held in node.attribute:
        if held.name == name:
            value = helper.get_attribute_value(held)
            value = value if isinstance(value, int | float | bytes | str) else list(value)
            return value if isinstance(value, type(default)) else default
    return default


def without(node: onnx.NodeProto, *names: str) -> None:
    """Remove attributes, in place."""
    kept = [held for held in node.attribute if held.name not in names]
    if len(kept) != len(node.attribute):
        refill(node.attribute, kept)


def refill(field: Any, items: Iterable[Any]) -> None:
    """Give a repeated field of messages others, of which some may be its own."""
    held = len(field)
    field.extend(list(items))
    del field[:held]


def static_shape(kind: onnx.TypeProto | None) -> tuple[int, ...] | None:
    """The shape of a tensor's type; None where a dimension or the rank is open, or without one."""
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") for dim in dims):
        return None
    return tuple(dim.dim_value for dim in dims)
