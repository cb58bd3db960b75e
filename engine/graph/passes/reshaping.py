"""Canonical forms of what only changes the shape or selects a part.

* Flatten, Squeeze, Unsqueeze and Reshape become Reshape with a constant shape without 0 and -1.
* Reshape of a Reshape reads the first one's input.
* Between a Reshape and the one that restores the shape, elementwise operators and a Softmax over
  the last axis work on the shape from before, so that both go.
* Slice: constant starts, ends, axes and steps are counted from the front and lie in the tensor.
* Split: the sizes of its parts are written out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from engine.graph.ir.spec import input_at, maker_of, only_reader
from engine.graph.passes.base import (
    NodePass,
    constant_input,
    integers,
    is_constant,
    operators,
    shape,
)
from engine.graph.passes.editor import Editor


class CanonicalReshape(NodePass):
    """Everything that only changes the shape."""

    name = "canonical-reshape"
    level = 1
    summary = "Flatten, Squeeze, Unsqueeze and Reshape become one Reshape with a constant shape."
    roots = frozenset({"Flatten", "Squeeze", "Unsqueeze", "Reshape"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """Merge with a Reshape before, then write the shape out."""
        source, out = node.inputs[0], node.outputs[0]
        dims = shape(out)
        if source is None or dims is None:
            return self.near(node, "the shape of its result is not known")
        if 0 in dims:
            return self.near(node, "the tensor is empty")
        before = source.producer()
        if before is not None and before.op_type == "Reshape" and before.inputs[0] is not None:
            self._to(node, before.inputs[0], dims, edit, origin=[before])
            return self.did("Reshape of Reshape merged")
        if node.op_type == "Reshape" and integers(node, 1) == list(dims):
            return False
        op = node.op_type
        self._to(node, source, dims, edit)
        return self.did("shape written out" if op == "Reshape" else f"{op} to Reshape")

    def _to(
        self,
        node: ir.Node,
        source: ir.Value,
        dims: Sequence[int],
        edit: Editor,
        origin: Sequence[ir.Node] = (),
    ) -> None:
        target = node.inputs[1] if node.op_type == "Reshape" else None
        if target is None or integers(node, 1) != list(dims):
            target = edit.constant(np.array(dims, dtype=np.int64), f"{node.name}_shape")
        edit.replace_with(node, "Reshape", [source, target], origin=origin)


class ReshapePairs(NodePass):
    """Reshape, an operator that does not mind, and Reshape back."""

    name = "reshape-pairs"
    level = 1
    summary = "A Reshape and its inverse around an elementwise operator or Softmax are removed."
    keeps_bits = False  # the bits stay, but the neighbours of Q/DQ nodes would change
    roots = frozenset({"Reshape"})

    _INNER = operators(
        "Relu LeakyRelu Sigmoid Tanh HardSigmoid HardSwish Elu Softplus Erf Exp Sqrt Abs Neg Gelu "
        "Softmax LogSoftmax"
    )

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """The second Reshape of a pair."""
        middle = node.inputs[0]
        inner = maker_of(middle)
        if middle is None or inner is None or inner.op_type not in self._INNER:
            return False
        first = maker_of(inner.inputs[0], "Reshape")
        if first is None or first.inputs[0] is None:
            return False
        before, between = shape(first.inputs[0]), shape(middle)
        if before is None or between is None or before != shape(node.outputs[0]):
            return False
        if only_reader(middle) is not node:
            return self.near(node, f"the output of {inner.name} is read elsewhere too")
        if inner.op_type in ("Softmax", "LogSoftmax"):
            axis = inner.attributes.get_int("axis", -1) % len(between)
            if axis != len(between) - 1 or not before or before[-1] != between[-1]:
                return self.near(node, f"{inner.name} does not work along the last axis")
            inner.attributes["axis"] = ir.AttrInt64("axis", len(before) - 1)
        edit.set_inputs(inner, [first.inputs[0], *inner.inputs[1:]])
        edit.merge_follower(inner, node)
        return self.did("Reshape pair removed")


class CanonicalSlice(NodePass):
    """Slice and Split with their numbers written out."""

    name = "canonical-slice"
    level = 1
    summary = "Slice counts from the front of the tensor, Split lists the sizes of its parts."
    roots = frozenset({"Slice", "Split"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One Slice or Split."""
        dims = shape(node.inputs[0])
        if dims is None:
            return self.near(node, "the shape of its input is not known")
        return (self._split if node.op_type == "Split" else self._slice)(node, dims, edit)

    def _split(self, node: ir.Node, dims: tuple[int, ...], edit: Editor) -> bool:
        axis = node.attributes.get_int("axis", 0)
        if axis >= 0 and input_at(node, 1) is not None:
            return False
        axis %= len(dims)
        parts = [shape(value) for value in node.outputs]
        if input_at(node, 1) is not None and not is_constant(input_at(node, 1)):
            return self.near(node, "the sizes of its parts are computed")
        if any(part is None for part in parts):
            return self.near(node, "the shape of a part is not known")
        sizes = np.array([part[axis] for part in parts if part is not None], dtype=np.int64)
        if "num_outputs" in node.attributes:
            del node.attributes["num_outputs"]
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
        edit.set_inputs(node, [node.inputs[0], edit.constant(sizes, f"{node.name}_split")])
        return self.did("Split written out")

    def _slice(self, node: ir.Node, dims: tuple[int, ...], edit: Editor) -> bool:
        settings = [constant_input(node, index) for index in range(1, 5)]
        present = [input_at(node, index) is not None for index in range(1, 5)]
        if any(here and numbers is None for here, numbers in zip(present, settings, strict=True)):
            return self.near(node, "its bounds are computed")
        starts, ends = integers(node, 1) or [], integers(node, 2) or []
        axes = integers(node, 3) or list(range(len(starts)))
        steps = integers(node, 4) or [1] * len(starts)
        if any(step <= 0 for step in steps):
            return self.near(node, "it runs backwards")
        rows = sorted(
            (axis % len(dims), *_bounds(start, end, dims[axis]), step)
            for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)
        )
        rows = [row for row in rows if row[1:] != (0, dims[row[0]], 1)]
        if not rows:
            return False  # the whole: removed as a node without effect
        canonical = [[row[i] for row in rows] for i in (1, 2, 0, 3)]
        if all(present) and canonical == [starts, ends, axes, steps]:
            return False
        names = ("starts", "ends", "axes", "steps")
        constants = [
            edit.constant(np.array(numbers, dtype=np.int64), f"{node.name}_{name}")
            for name, numbers in zip(names, canonical, strict=True)
        ]
        edit.set_inputs(node, [node.inputs[0], *constants])
        return self.did("Slice written out")


def _bounds(start: int, end: int, dim: int) -> tuple[int, int]:
    """Start and end as ONNX clamps them for positive steps."""
    return (
        min(max(start + dim if start < 0 else start, 0), dim),
        min(max(end + dim if end < 0 else end, 0), dim),
    )
