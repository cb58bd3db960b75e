"""What is computed or stored twice.

* Nodes with the same operator, attributes and inputs: the first serves the readers of all.
* Equal constants: integers of any size, floats from rank 2 on. Vectors of floats (biases, scales)
  stay apart: quantization gives each a scale that belongs to its own node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import onnx_ir as ir

from engine.graph.ir import is_custom
from engine.graph.passes.base import Pass, operators
from engine.graph.passes.editor import Editor

_RANDOM = operators(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli Dropout"
)

# Constants up to this size count as the same input when their contents are equal.
_BY_CONTENT = 256


class CommonSubexpressions(Pass):
    """Nodes that compute the same."""

    name = "common-subexpressions"
    level = 3
    summary = "Nodes that compute the same from the same are merged."
    # Q/DQ nodes come in pairs around each operator, which merging would tear apart
    keeps_bits = False

    def apply(self, edit: Editor) -> None:
        """One walk in order, so that merged nodes make their readers equal in turn."""
        known: dict[Hashable, ir.Node] = {}
        contents: dict[ir.Value, Hashable] = {}
        for node in edit.nodes():
            key = _key(node, contents)
            if key is None:
                continue
            first = known.setdefault(key, node)
            if first is node:
                continue
            if any(value.is_graph_output() for value in node.outputs):
                self.near(node, "its result is an output of the graph")
                continue
            edit.add_origin(first, [node])
            for old, new in zip(node.outputs, first.outputs, strict=True):
                edit.redirect(old, new)
            edit.remove(node)
            self.did(f"{node.op_type} merged")


def _key(node: ir.Node, contents: dict[ir.Value, Hashable]) -> Hashable | None:
    # a user's code may give something else each time
    if node.op_type in _RANDOM or is_custom(node):
        return None
    attributes = []
    for name in sorted(node.attributes):
        attribute = node.attributes[name]
        value = attribute.value
        if isinstance(value, list | tuple):
            value = tuple(value)
        elif not isinstance(value, int | float | str):
            return None
        attributes.append((name, int(attribute.type), value))
    inputs = tuple(
        None if value is None else contents.setdefault(value, _content(value))
        for value in node.inputs
    )
    return (node.domain, node.op_type, len(node.outputs), tuple(attributes), inputs)


def _content(value: ir.Value) -> Hashable:
    tensor = value.const_value if value.is_initializer() else None
    if tensor is None or tensor.nbytes > _BY_CONTENT:
        return value
    numbers = tensor.numpy()
    return (int(tensor.dtype), numbers.shape, numbers.tobytes())


class DuplicateConstants(Pass):
    """Constants of equal type, shape and content."""

    name = "duplicate-constants"
    level = 3
    summary = "Equal constants are stored once."
    keeps_bits = False

    def apply(self, edit: Editor) -> None:
        """Only constants that share type and shape with another are hashed."""
        groups: dict[Hashable, list[ir.Value]] = {}
        for value in edit.graph.initializers.values():
            tensor = value.const_value
            if tensor is None or value.is_graph_output():
                continue
            dims = tuple(tensor.shape.numpy())
            if tensor.dtype.is_floating_point() and len(dims) < 2:
                continue
            groups.setdefault((int(tensor.dtype), dims), []).append(value)
        for group in groups.values():
            if len(group) > 1:
                self._merge(group, edit)

    def _merge(self, group: list[ir.Value], edit: Editor) -> None:
        known: dict[bytes, ir.Value] = {}
        for value in group:
            tensor = value.const_value
            if tensor is None:
                continue
            digest = hashlib.sha256(tensor.tobytes()).digest()
            first = known.setdefault(digest, value)
            if first is not value and value.uses():
                edit.redirect(value, first)
                self.did("constant merged")
