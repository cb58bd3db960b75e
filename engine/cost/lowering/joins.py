"""Reshapes before a Concat: one goes, the others fit to it."""

from __future__ import annotations

import math

from engine.cost.lowering.fours import UNARY
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.node import Node
from engine.cost.lowering.rules import Context, on

_SMALL = 4096
"""Elements of a constant whose numbers are looked at."""


@on("Add")
def drop_zero_sums(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A sum with zeros does nothing."""
    data, other = graph.operands(node)
    dims = graph.shape(other)
    if not data or math.prod(dims) > _SMALL or len(dims) == 1 < math.prod(dims):
        return  # a bias stays one, whatever its numbers
    array = graph.array(other)
    if array is None or array.any() or graph.shape(data) != graph.shape(node.outputs[0]):
        return
    graph.rewire(node, inputs=[data, other])
    graph.bypass(node)


@on("Concat")
def join_early(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Maps that are laid out as rows and joined: one map of rows of the same width."""
    if len(graph.shape(node.outputs[0])) == 3 and node.int("axis") in (-1, 2):
        _join(graph, node)


def join_maps(graph: LoweringGraph, context: Context) -> bool:
    """As :func:`join_early` of four dimensions; whether one was changed."""
    changed = False
    for node in graph:
        four = node.op == "Concat" and len(graph.shape(node.outputs[0])) == 4
        if four and graph.reader(node.outputs[0], "Reshape") is not None:
            changed |= _join(graph, node)
    return changed


def _join(graph: LoweringGraph, node: Node) -> bool:
    shapes = [graph.shape(tensor) for tensor in node.inputs]
    axis = node.int("axis") % len(shapes[0])
    views = [
        maker
        for tensor in node.inputs
        if (maker := graph.maker(tensor, "Reshape")) is not None
        and graph.only_reader(tensor) is node
    ]
    if len(views) < len(shapes):
        return False
    head = math.prod(shapes[0][:axis])
    rests = [math.prod(shape[axis:]) for shape in shapes]
    for view in views:
        source = graph.shape(view.inputs[0])
        # the first axis of a shape of four behind so many elements
        cuts = (at for at in range(1, 4) if math.prod(source[:at]) == head)
        cut = next(cuts, None) if len(source) == 4 else None
        if cut is None or source == shapes[views.index(view)]:
            continue
        tail = math.prod(source[cut + 1 :])
        if tail > 1 and all(rest % tail == 0 for rest in rests):
            _rewrite(graph, node, views, view, cut)
            return True
    return False


def _rewrite(graph: LoweringGraph, node: Node, views: list[Node], chosen: Node, cut: int) -> None:
    source = graph.shape(chosen.inputs[0])
    tail = math.prod(source[cut + 1 :])
    inputs = []
    total = 0
    for view in views:
        data = view.inputs[0]
        size = math.prod(graph.shape(data)) // math.prod(source[:cut]) // tail
        total += size
        if view is not chosen:
            shape = (*source[:cut], size, *source[cut + 1 :])
            name = graph.unique(f"{view.outputs[0]}_j")
            data = graph.reshape(data, shape, view.name, name, before=node, sources=view.sources)
        inputs.append(data)
    result = node.outputs[0]
    node.attributes["axis"] = cut
    for view in views:
        graph.remove(view)
    graph.work_in(node, (*source[:cut], total, *source[cut + 1 :]), inputs)
    reader = graph.reader(result, *UNARY)
    if reader is not None and len(reader.inputs) == 1:
        _behind(graph, reader, node.outputs[0])


def _behind(graph: LoweringGraph, node: Node, joined: str) -> None:
    """An activation of a joined map works on it before it is laid out as rows."""
    back = graph.producer(node.inputs[0])
    if back is None:
        return
    result = node.outputs[0]
    inner = graph.like(result, graph.shape(joined), f"{joined}_sw")
    graph.remove(back)
    graph.rewire(node, inputs=[joined], outputs=[inner])
    whole = graph.shape(result)
    graph.reshape(inner, whole, back.name, result, before=graph.following(node))
