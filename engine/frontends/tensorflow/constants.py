"""In the child: values of tensors that no input decides, found while loops are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from engine.frontends.tensorflow.graphdef import tensor_of
from engine.frontends.tensorflow.prepare import TF_ERRORS, imported

__all__ = ["Constants"]

# what loop counters and their conditions are made of; anything else is asked of TensorFlow
_DIRECT: dict[str, Callable[..., Any]] = {
    "Identity": lambda x: x,
    "Add": np.add,
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalNot": np.logical_not,
}


class Constants:
    """Values and shapes of tensors of a graph that grows.

    Args:
        nodes: the graph's nodes by name; others may be added later.
        versions: of the GraphDef.
    """

    def __init__(self, nodes: dict[str, Any], versions: Any) -> None:
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
        direct = _DIRECT.get(node.op)
        if direct is not None and number == 0:
            inputs = [self.value(i) for i in node.input]
            if all(value is not None for value in inputs):
                return np.asarray(direct(*inputs))
        return self._asked(tensor)

    def shape(self, tensor: str) -> list[int | None] | None:
        """What TensorFlow infers of a shape, None for an unknown rank."""
        found = self._part(tensor).get_tensor_by_name(_full(tensor)).shape
        return None if found.rank is None else found.as_list()

    def _asked(self, tensor: str) -> np.ndarray | None:
        graph = self._part(tensor)
        wanted = graph.get_tensor_by_name(_full(tensor))
        with graph.as_default():
            # also knows shapes of what inputs decide
            static = tf.get_static_value(wanted)
        if static is not None:
            return np.asarray(static)
        if any(op.type == "Placeholder" for op in graph.get_operations()):
            return None
        try:
            with tf.compat.v1.Session(graph=graph) as session:
                return np.asarray(session.run(wanted))
        except TF_ERRORS:
            return None

    def _part(self, tensor: str) -> Any:
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
        return imported(part)


def _full(tensor: str) -> str:
    node, number = tensor_of(tensor)
    return f"{node}:{number}"
