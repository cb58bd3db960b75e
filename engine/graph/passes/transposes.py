"""Transposes: merged, cancelled, moved to where they cancel.

* Transpose of a Transpose is one Transpose, or none.
* A Transpose that only moves axes of length 1 is a Reshape.
* Between Transposes and their inverses, elementwise and axis-wise operators run in the layout from
  before, so that both ends go: models exported with channels last come back to NCHW.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.passes.base import NodePass, Pass, shape
from engine.graph.passes.editor import Editor
from engine.graph.passes.layout import Region, permutation


class TransposeChains(NodePass):
    """Transposes in a row."""

    name = "transpose-chains"
    level = 3
    summary = "Transposes in a row are merged; a pair of inverses is removed."
    keeps_bits = False
    roots = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """A Transpose that reads a Transpose."""
        source = node.inputs[0]
        before = None if source is None else source.producer()
        if before is None or before.op_type != "Transpose" or before.inputs[0] is None:
            return False
        outer, inner = permutation(node), permutation(before)
        if outer is None or inner is None:
            return self.near(node, "the rank is not known")
        merged = tuple(inner[axis] for axis in outer)
        if merged == tuple(range(len(merged))) and not node.outputs[0].is_graph_output():
            edit.redirect(node.outputs[0], before.inputs[0])
            edit.remove(node)
            return self.did("inverse Transposes removed")
        edit.replace_with(node, "Transpose", [before.inputs[0]], {"perm": merged}, origin=[before])
        return self.did("Transposes merged")


class TransposeToReshape(NodePass):
    """Transposes that move no data."""

    name = "transpose-to-reshape"
    level = 3
    summary = "A Transpose that only moves axes of length 1 becomes a Reshape."
    keeps_bits = False
    roots = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """A Transpose of a tensor of known shape."""
        dims, perm = shape(node.inputs[0]), permutation(node)
        if dims is None or perm is None:
            return self.near(node, "the shape is not known")
        moved = [axis for axis in perm if dims[axis] != 1]
        after = [dims[axis] for axis in perm]
        if moved != sorted(moved) or 0 in dims or tuple(after) == dims:
            return False
        target = edit.constant(integer_array(after), f"{node.name}_shape")
        edit.replace_with(node, "Reshape", [node.inputs[0], target])
        return self.did("Transpose to Reshape")


def integer_array(numbers: list[int]) -> np.ndarray:
    """Numbers as the int64 vector that ONNX wants for shapes and axes."""
    return np.array(numbers, dtype=np.int64)


class LayoutPropagation(Pass):
    """Operators between Transposes, run in the layout from before."""

    name = "transpose-regions"
    level = 3
    summary = "Transposes move through elementwise and axis-wise operators to where they cancel."
    keeps_bits = False

    def apply(self, edit: Editor) -> None:
        """Each Transpose and each node is looked at once per permutation."""
        nodes = edit.nodes()
        order = {node: index for index, node in enumerate(nodes)}
        seen: set[tuple[ir.Node, tuple[int, ...]]] = set()
        for node in nodes:
            if node.op_type != "Transpose" or not edit.owns(node):
                continue
            perm = permutation(node)
            if perm is None or (node, perm) in seen:
                continue
            region = Region(perm, node)
            seen.update((entry, perm) for entry in region.entries)
            if not region.nodes:
                continue
            if not seen.isdisjoint((inner, perm) for inner in region.nodes):
                continue
            seen.update((inner, perm) for inner in region.nodes)
            if region.transposes_saved <= 0:
                self.near(node, "moving it would need as many Transposes elsewhere")
                continue
            region.rewrite(edit, order)
            self.did("Transposes moved to cancel")
