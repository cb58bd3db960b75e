"""In the child: values of tensors that no input decides, found while loops are written out."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from engine.frontends.tensorflow.graphdef import tensor_of
from engine.frontends.tensorflow.prepare import TF_ERRORS, NodeDef, imported
from engine.graph.ir.folding import TooLargeError, fold

__all__ = ["Constants"]

# what loop counters and their conditions are made of; anything else is asked of TensorFlow
_FOLDED = {
    "AddV2": "Add",
    "LessEqual": "LessOrEqual",
    "GreaterEqual": "GreaterOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalNot": "Not",
    "Maximum": "Max",
    "Minimum": "Min",
    **{op: op for op in ("Add", "Equal", "Greater", "Identity", "Less", "Mul", "NotEqual", "Sub")},
}
"""Operator -> its name in :mod:`engine.graph.ir.folding`."""


class Constants:
    """Values and shapes of tensors of a graph that grows.

    Args:
        nodes: the graph's nodes by name; others may be added later.
        versions: of the GraphDef.
    """

    def __init__(self, nodes: dict[str, NodeDef], versions: Any) -> None:
        self._nodes = nodes
        self._versions = versions
        self._known: dict[str, np.ndarray | None] = {}

    def value(self, tensor: str) -> np.ndarray | None:
        """The value of a tensor, None where inputs decide it.

        Values are asked for in the order of execution, so what an operator reads is known.
        """
        if tensor not in self._known:
            self._known[tensor] = self._value(tensor)
        return self._known[tensor]

    def _value(self, tensor: str) -> np.ndarray | None:
        name, number = tensor_of(tensor)
        node = self._nodes[name]
        if node.op == "Const":
            return np.asarray(tf.make_ndarray(node.attr["value"].tensor))
        if node.op == "Placeholder":
            return None
        if node.op in _FOLDED and number == 0:
            inputs = [self.value(i) for i in node.input]
            if all(value is not None for value in inputs):
                with contextlib.suppress(TooLargeError):
                    return fold(_FOLDED[node.op], inputs)
        return self._asked(tensor)

    def shape(self, tensor: str) -> list[int | None] | None:
        """What TensorFlow infers of a shape, None for an unknown rank."""
        found = imported(self._part(tensor)).get_tensor_by_name(_full(tensor)).shape
        return None if found.rank is None else found.as_list()

    def _asked(self, tensor: str) -> np.ndarray | None:
        part = self._part(tensor)
        graph = imported(part)
        _fix_shapes(part, graph)
        needed = tf.compat.v1.graph_util.extract_sub_graph(part, [tensor_of(tensor)[0]])
        if any(node.op == "Placeholder" for node in needed.node):
            return None
        try:
            with tf.compat.v1.Session(graph=imported(needed)) as session:
                return np.asarray(session.run(_full(tensor)))
        except TF_ERRORS:
            return None

    def _part(self, tensor: str) -> Any:
        """What a tensor needs of the graph."""
        part = tf.compat.v1.GraphDef()
        part.versions.CopyFrom(self._versions)
        seen: set[str] = set()
        waiting = [tensor_of(tensor)[0]]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                part.node.add().CopyFrom(self._nodes[name])
                waiting.extend(tensor_of(i)[0] for i in self._nodes[name].input)
        return part


def _fix_shapes(part: Any, graph: Any) -> None:
    """Make constants of shapes that are known although inputs decide what has them."""
    for node in part.node:
        if node.op not in ("Shape", "Size", "Rank"):
            continue
        wanted = graph.get_tensor_by_name(f"{node.name}:0")
        with graph.as_default():
            value = tf.get_static_value(wanted)
        if value is not None:
            node.Clear()
            node.name, node.op = wanted.op.name, "Const"
            node.attr["dtype"].type = wanted.dtype.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, wanted.dtype))


def _full(tensor: str) -> str:
    node, number = tensor_of(tensor)
    return f"{node}:{number}"
