"""What differs between two graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.base.text import sanitize
from engine.graph.ir.graph import Graph
from engine.graph.ir.spec import spec_of
from engine.graph.ir.views import attribute_text, operator_name


@dataclass(frozen=True)
class NodeChange:
    """A node of both graphs, by name, and what is different about it, in words."""

    name: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class ValueChange:
    """A tensor of both graphs, by name, and what is different about it, in words."""

    name: str
    change: str


@dataclass(frozen=True)
class GraphDiff:
    """The difference of two graphs; nodes and values are matched by name.

    Attributes:
        nodes_added, nodes_removed: (name, operator) in the order of their graph.
        nodes_changed: other operator, inputs, outputs or attributes.
        values_added, values_removed: names of values, constants included.
        values_changed: other type or shape, or another content of a constant.
        interface: changes of the lists of inputs and outputs, in words.
    """

    nodes_added: tuple[tuple[str, str], ...]
    nodes_removed: tuple[tuple[str, str], ...]
    nodes_changed: tuple[NodeChange, ...]
    values_added: tuple[str, ...]
    values_removed: tuple[str, ...]
    values_changed: tuple[ValueChange, ...]
    interface: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not any(getattr(self, name) for name in self.__dataclass_fields__)

    def __str__(self) -> str:
        if self.equal:
            return "no difference"
        lines = [*self.interface]
        lines += [f"- node {name} ({op})" for name, op in self.nodes_removed]
        lines += [f"+ node {name} ({op})" for name, op in self.nodes_added]
        lines += [f"~ node {c.name}: {'; '.join(c.changes)}" for c in self.nodes_changed]
        lines += [f"- value {name}" for name in self.values_removed]
        lines += [f"+ value {name}" for name in self.values_added]
        lines += [f"~ value {c.name}: {c.change}" for c in self.values_changed]
        return "\n".join(sanitize(line, 400) for line in lines)


def diff(a: Graph, b: Graph) -> GraphDiff:
    """What was done to ``a`` to get ``b``; linear in nodes, values and bytes of constants."""
    before = {node.name or "": node for node in a.nodes}
    after = {node.name or "": node for node in b.nodes}
    changed = []
    for name, node in before.items():
        if name in after and (changes := _node_changes(node, after[name])):
            changed.append(NodeChange(name, changes))
    values_a, values_b = a.values, b.values
    value_changes = []
    for name, value in values_a.items():
        if name in values_b and (change := _value_change(value, values_b[name])):
            value_changes.append(ValueChange(name, change))
    return GraphDiff(
        nodes_added=tuple((n, _op(node)) for n, node in after.items() if n not in before),
        nodes_removed=tuple((n, _op(node)) for n, node in before.items() if n not in after),
        nodes_changed=tuple(changed),
        values_added=tuple(name for name in values_b if name not in values_a),
        values_removed=tuple(name for name in values_a if name not in values_b),
        values_changed=tuple(value_changes),
        interface=_interface(a, b),
    )


def _op(node: ir.Node) -> str:
    return operator_name(node.domain, node.op_type)


def _interface(a: Graph, b: Graph) -> tuple[str, ...]:
    lines = []
    for what, old, new in (("inputs", a.inputs, b.inputs), ("outputs", a.outputs, b.outputs)):
        was, now = [spec.name for spec in old], [spec.name for spec in new]
        if was != now:
            lines.append(f"{what}: {', '.join(was)} -> {', '.join(now)}")
    return tuple(lines)


def _names(values: tuple[ir.Value | None, ...]) -> list[str]:
    return [value.name or "" if value is not None else "" for value in values]


def _node_changes(old: ir.Node, new: ir.Node) -> tuple[str, ...]:
    changes = []
    if _op(old) != _op(new):
        changes.append(f"operator {_op(old)} -> {_op(new)}")
    for what, was, now in (
        ("inputs", _names(tuple(old.inputs)), _names(tuple(new.inputs))),
        ("outputs", _names(tuple(old.outputs)), _names(tuple(new.outputs))),
    ):
        if was != now:
            changes.append(f"{what} {', '.join(was)} -> {', '.join(now)}")
    for key in sorted({*old.attributes, *new.attributes}):
        left, right = old.attributes.get(key), new.attributes.get(key)
        if left is None or right is None:
            change = "added" if left is None else "removed"
            changes.append(f"attribute {key} {change}")
        elif not _same_attribute(left, right):
            changes.append(f"attribute {key} {attribute_text(left)} -> {attribute_text(right)}")
    return tuple(changes)


def _same_attribute(a: ir.Attr, b: ir.Attr) -> bool:
    if a.type != b.type:
        return False
    if a.type == ir.AttributeType.TENSOR:
        return _same_tensor(a.as_tensor(), b.as_tensor())
    if isinstance(a.value, list | tuple):
        return list(a.value) == list(b.value)
    return bool(a.value == b.value)


def _same_tensor(a: ir.TensorProtocol, b: ir.TensorProtocol) -> bool:
    if a is b:
        return True
    if a.dtype != b.dtype or tuple(a.shape) != tuple(b.shape):
        return False
    if a.dtype == ir.DataType.STRING:
        return bool(np.array_equal(a.numpy(), b.numpy()))
    # bytes, so that NaN equals itself and -0 differs from 0
    return a.tobytes() == b.tobytes()


def _value_change(old: ir.Value, new: ir.Value) -> str:
    was, now = spec_of(old), spec_of(new)
    if was != now:
        return f"{was} -> {now}"
    left, right = old.const_value, new.const_value
    if (left is None) != (right is None):
        return "became an activation" if right is None else "became a constant"
    if left is not None and right is not None and not _same_tensor(left, right):
        return "other content"
    return ""
