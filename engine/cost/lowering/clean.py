"""Nodes that do nothing on the chip are taken out."""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["drop_dead", "drop_idle"]

_IDLE = frozenset({"DequantizeLinear", "Dropout", "Identity", "QuantizeLinear"})

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})


def drop_idle(graph: LoweringGraph, context: Context) -> None:
    """Identity, Dropout, casts between floats, and movements that move nothing."""
    for node in graph:
        if _is_idle(node, graph) and graph.bypass(node):
            graph.rewrites["remove_invalid"] += 1


def drop_dead(graph: LoweringGraph, context: Context) -> None:
    """Nodes that nobody reads."""
    for node in reversed(graph.nodes):
        wanted = any(
            each and (graph.is_output(each) or graph.has_readers(each)) for each in node.outputs
        )
        if not wanted:
            graph.remove(node)


def _is_idle(node: Node, graph: LoweringGraph) -> bool:
    if not node.inputs or not node.outputs:
        return False
    old, new = graph.tensors.get(node.inputs[0]), graph.tensors.get(node.outputs[0])
    if old is None or new is None:
        return False
    if node.op in _IDLE:
        return True
    if node.op == "Cast":
        return old.dtype == new.dtype or {old.dtype, new.dtype} <= _FLOATS
    if node.op == "Transpose":
        perm = node.ints("perm")
        return perm == tuple(range(len(perm))) and bool(perm)
    if node.op in ("Expand", "Pad", "Reshape", "Slice", "Squeeze", "Tile", "Unsqueeze"):
        return old.shape == new.shape and not _turns(node, graph)
    if node.op == "MaxPool":
        steps = (*node.ints("kernel_shape"), *node.ints("strides", (1,)))
        return set(steps) == {1} and len(node.outputs) == 1 and old.shape == new.shape
    if node.op in ("Concat", "Max", "Mean", "Min", "Sum"):
        return len(node.inputs) == 1
    return False


def _turns(node: Node, graph: LoweringGraph) -> bool:
    """Whether a Slice or Pad of the same shape moves values all the same."""
    if node.op == "Slice" and len(node.inputs) > 4:
        steps = graph.array(node.inputs[4])
        return steps is None or bool((steps < 0).any())
    if node.op == "Pad":
        pads = graph.array(node.inputs[1]) if len(node.inputs) > 1 else None
        return pads is None or bool(pads.any())
    return False
