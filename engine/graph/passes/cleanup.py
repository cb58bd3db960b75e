"""Nodes and constants that are not needed: without effect, or there twice.

* Dead code: nodes whose results nothing reads, initializers that no node reads.
* Identity, Dropout (inference), Cast to the type it has, Transpose that keeps the order, Reshape
  (Squeeze, Unsqueeze, Flatten, Expand, Tile, Resize) to the shape it has, Slice and Split of the
  whole, Pad by nothing, Concat and Sum of one tensor, pooling over windows of 1, scale 1, offset 0.
* Empty tensors that a Concat reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import onnx_ir as ir

from engine.graph.ir import is_custom
from engine.graph.ir.spec import input_at
from engine.graph.passes.base import (
    NodePass,
    Pass,
    constant_input,
    integers,
    operators,
    shape,
    uniform_value,
)
from engine.graph.passes.editor import Editor, is_dead


class DeadCode(Pass):
    """Nodes that lead to no output."""

    name = "dead-code"
    level = 1
    summary = "Nodes that no output of the graph depends on are removed."

    def apply(self, edit: Editor) -> None:
        """Backwards, so that one walk removes whole chains."""
        for node in reversed(edit.nodes()):
            if edit.owns(node) and is_dead(node):
                edit.remove(node)
                self.did("node removed")


class UnusedConstants(Pass):
    """Initializers that no node reads."""

    name = "unused-constants"
    level = 1
    summary = "Initializers that nothing reads are removed."

    def apply(self, edit: Editor) -> None:
        """One walk over the initializers."""
        graph = edit.graph
        unused = [
            name
            for name, value in graph.initializers.items()
            if not value.is_graph_output() and not value.uses()
        ]
        for name in unused:
            del graph.initializers[name]
            self.did("initializer removed")


class NoOps(NodePass):
    """Nodes whose output is their input."""

    name = "no-ops"
    level = 1
    summary = "Nodes that give their input back are removed."
    roots = operators(
        "Identity Dropout Cast Transpose Reshape Squeeze Unsqueeze Flatten Expand Tile Resize "
        "Slice Split Pad Concat Sum MaxPool AveragePool GlobalAveragePool GlobalMaxPool Mul Div "
        "Add Sub Pow Clip ReduceMean ReduceMax ReduceMin ReduceSum"
    )

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """Remove ``node`` where its first output is its first input."""
        if not node.inputs or node.inputs[0] is None:
            return False
        op = node.op_type
        if op == "Concat":
            full = [value for value in node.inputs if 0 not in (shape(value) or ())]
            if 0 < len(full) < len(node.inputs):
                edit.set_inputs(node, full)
                return self.did("empty input of Concat removed")
        kept = _kept_input(node)
        if kept is None:
            return False
        source = node.inputs[kept]
        if source is None or any(value.uses() for value in node.outputs[1:]):
            return self.near(node, "its second output is read")
        if any(value.is_graph_output() for value in node.outputs[1:]):
            return self.near(node, "its second output is an output of the graph")
        if kept:
            edit.set_inputs(node, [source])
        if edit.bypass(node):
            return self.did(f"{op} removed")
        # two ends of the graph with names of their own: something must stand between them
        if op == "Identity":
            return False
        edit.replace_with(node, "Identity", [source])
        return self.did(f"{op} to Identity")


def _kept_input(node: ir.Node) -> int | None:
    """The index of the input that the node gives back unchanged, or None."""
    op, source, out = node.op_type, node.inputs[0], node.outputs[0]
    if op == "Identity":
        return 0
    if op == "Dropout":
        training = input_at(node, 2)
        return 0 if training is None or uniform_value(training) == 0 else None
    if op == "Cast":
        known = None if source is None else source.dtype
        return 0 if known is not None and int(known) == node.attributes.get_int("to", 0) else None
    if op in ("Concat", "Sum"):
        return 0 if len(node.inputs) == 1 else None
    before, after = shape(source), shape(out)
    if op in ("Mul", "Add") and before != after:
        before = shape(input_at(node, 1))
        return 1 if before == after is not None and _neutral(node, 0) else None
    if before is None or before != after:
        return None
    return 0 if _KEEPS[op](node, before) else None


def _neutral(node: ir.Node, index: int) -> bool:
    number = 1.0 if node.op_type in ("Mul", "Div", "Pow") else 0.0
    return uniform_value(input_at(node, index)) == number


def _always(_: ir.Node, __: tuple[int, ...]) -> bool:
    return True


def _ordered(node: ir.Node, dims: tuple[int, ...]) -> bool:
    perm = node.attributes.get_ints("perm", None) or list(reversed(range(len(dims))))
    moved = [axis for axis in perm if dims[axis] != 1]
    return moved == sorted(moved)


def _whole_slice(node: ir.Node, _: tuple[int, ...]) -> bool:
    steps = integers(node, 4) if input_at(node, 4) is not None else [1]
    return steps is not None and all(step == 1 for step in steps)


def _plain_resize(node: ir.Node, _: tuple[int, ...]) -> bool:
    # cropping keeps a shape, and so may a scale close to 1
    if node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return False
    scales = constant_input(node, 2)
    return scales is None or scales.size == 0 or bool((scales == 1).all())


def _unpadded(node: ir.Node, _: tuple[int, ...]) -> bool:
    pads = integers(node, 1)
    return pads is not None and not any(pads)


def _window_of_one(node: ir.Node, _: tuple[int, ...]) -> bool:
    ints = node.attributes.get_ints
    return (
        all(k == 1 for k in ints("kernel_shape", (0,)))
        and not any(ints("pads", ()))
        and all(s == 1 for s in ints("strides", ()))
    )


def _one_pixel(_: ir.Node, dims: tuple[int, ...]) -> bool:
    return all(dim == 1 for dim in dims[2:])


def _unbounded(node: ir.Node, _: tuple[int, ...]) -> bool:
    return input_at(node, 1) is None and input_at(node, 2) is None


def _not_empty(node: ir.Node, dims: tuple[int, ...]) -> bool:
    # the reduced axes have one element each, as the shape is kept
    return 0 not in dims and node.attributes.get_int("keepdims", 1) == 1


def _second_neutral(node: ir.Node, _: tuple[int, ...]) -> bool:
    return _neutral(node, 1)


_KEEPS = {
    op: keeps
    for ops, keeps in (
        ("Transpose", _ordered),
        ("Reshape Squeeze Unsqueeze Flatten Expand Tile Split", _always),
        ("Resize", _plain_resize),
        ("Slice", _whole_slice),
        ("Pad", _unpadded),
        ("MaxPool AveragePool", _window_of_one),
        ("GlobalAveragePool GlobalMaxPool", _one_pixel),
        ("Mul Div Add Sub Pow", _second_neutral),
        ("Clip", _unbounded),
        ("ReduceMean ReduceMax ReduceMin ReduceSum", _not_empty),
    )
    for op in ops.split()
}


# What is computed or stored twice.
#
# * Nodes with the same operator, attributes and inputs: the first serves the readers of all. *
# Equal constants: integers of any size, floats from rank 2 on. Vectors of floats (biases, scales)
# stay apart: quantization gives each a scale that belongs to its own node.

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
