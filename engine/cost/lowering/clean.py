"""Nodes that do nothing on the chip are taken out."""

from __future__ import annotations

from math import prod

from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.node import Node
from engine.cost.lowering.rules import Context, on

_IDLE = frozenset({"DequantizeLinear", "Dropout", "Identity", "QuantizeLinear"})

_SMALL = 4096
"""Elements of a constant that is read."""

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})


def drop_idle(graph: LoweringGraph, context: Context) -> None:
    """Identity, Dropout, casts between floats, and movements that move nothing."""
    for node in graph:
        if _is_idle(node, graph):
            graph.bypass(node)


@on("Concat", "Relu")
def drop_repeated(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Relu of Relu, and Concat of a Concat that nobody else reads, are one node."""
    for tensor in list(node.inputs):
        maker = graph.maker(tensor, node.op)
        alone = graph.only_reader(tensor) is node
        if (
            maker is None
            or not alone
            or maker.attributes.get("axis") != node.attributes.get("axis")
        ):
            continue
        graph.remove(maker)
        at = node.inputs.index(tensor)
        graph.rewire(node, inputs=[*node.inputs[:at], *maker.inputs, *node.inputs[at + 1 :]])
        node.name = maker.name if node.op == "Relu" else node.name
        node.sources = (*maker.sources, *node.sources)


def drop_dead(graph: LoweringGraph, context: Context) -> None:
    """Nodes that nobody reads."""
    for node in reversed(graph.nodes):
        if all(not tensor or graph.unread(tensor) for tensor in node.outputs):
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
    if node.op in ("Expand", "Pad", "Reshape", "Resize", "Slice", "Squeeze", "Tile", "Unsqueeze"):
        return old.shape == new.shape and not _turns(node, graph)
    if node.op == "MaxPool":
        steps = (*node.ints("kernel_shape"), *node.ints("strides", (1,)))
        return set(steps) == {1} and len(node.outputs) == 1 and old.shape == new.shape
    if node.op == "BatchNormalization" and len(node.inputs) == 5:
        pairs = zip(node.inputs[1:], (1, 0, 0, 1), strict=True)
        return all(_all_are(graph, tensor, number) for tensor, number in pairs)
    if node.op in ("Concat", "Max", "Mean", "Min", "Sum"):
        return len(node.inputs) == 1
    if node.op in ("Add", "Div", "Mul", "Sub") and len(node.inputs) == 2:
        neutral = 0 if node.op in ("Add", "Sub") else 1
        # a bias stays one, whatever its numbers
        bias = len(dims := graph.shape(node.inputs[1])) == 1 < prod(dims)
        same = old.shape == new.shape and not old.const and not bias
        return same and _all_are(graph, node.inputs[1], neutral)
    return False


def _all_are(graph: LoweringGraph, tensor: str, number: int) -> bool:
    """Whether a small constant holds one number only; a filled one stands for unknown weights."""
    entry = graph.tensors.get(tensor)
    if entry is None or not entry.const or entry.filled or prod(entry.shape) > _SMALL:
        return False
    array = graph.array(tensor)
    return array is not None and bool((array == number).all())


def _turns(node: Node, graph: LoweringGraph) -> bool:
    """Whether a Slice or Pad of the same shape moves values all the same."""
    if node.op == "Slice" and len(node.inputs) > 4:
        steps = graph.array(node.inputs[4])
        return steps is None or bool((steps < 0).any())
    if node.op == "Pad":
        pads = graph.array(node.inputs[1]) if len(node.inputs) > 1 else None
        return pads is None or bool(pads.any())
    return False
