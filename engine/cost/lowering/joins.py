"""Reshapes before a Concat: one goes, the others fit to it."""

from __future__ import annotations

import math

from engine.cost.lowering.fours import UNARY
from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context, on

__all__ = ["drop_zero_sums", "join_early", "join_maps"]

_SMALL = 4096
"""Elements of a constant whose numbers are looked at."""


@on("Add")
def drop_zero_sums(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A sum with zeros does nothing."""
    if len(node.inputs) != 2:
        return
    consts = [each for each in node.inputs if graph.is_const(each)]
    if len(consts) != 1 or math.prod(graph.shape(consts[0])) > _SMALL:
        return
    if len(graph.shape(consts[0])) == 1 < math.prod(graph.shape(consts[0])):
        return  # a bias stays one, whatever its numbers
    other = next(each for each in node.inputs if each not in consts)
    array = graph.array(consts[0])
    if array is None or array.any() or graph.shape(other) != graph.shape(node.outputs[0]):
        return
    graph.rewire(node, inputs=[other, *consts])
    if graph.bypass(node):
        graph.rewrites["remove_invalid_add"] += 1


def join_early(graph: LoweringGraph, context: Context) -> None:
    """Maps that are laid out as rows and joined: one map of rows of the same width."""
    for node in graph:
        rows = len(graph.shape(node.outputs[0])) == 3 and node.int("axis") in (-1, 2)
        if node.op == "Concat" and rows:
            _join(graph, node)


def join_maps(graph: LoweringGraph, context: Context) -> bool:
    """As :func:`join_early` of four dimensions; whether one was changed."""
    changed = False
    for node in graph:
        if node.op == "Concat" and len(graph.shape(node.outputs[0])) == 4:
            reader = graph.only_reader(node.outputs[0])
            if reader is not None and reader.op == "Reshape":
                changed |= _join(graph, node)
    return changed


def _join(graph: LoweringGraph, node: Node) -> bool:
    shapes = [graph.shape(each) for each in node.inputs]
    axis = node.int("axis") % len(shapes[0])
    makers = [graph.producer(each) for each in node.inputs]
    for maker, each in zip(makers, node.inputs, strict=True):
        if maker is None or maker.op != "Reshape" or graph.only_reader(each) is not node:
            return False
    head = math.prod(shapes[0][:axis])
    rests = [math.prod(shape[axis:]) for shape in shapes]
    for maker in makers:
        source = graph.shape(maker.inputs[0]) if maker is not None else ()
        cut = _cut(source, head)
        if cut is None or source == shapes[makers.index(maker)]:
            continue
        tail = math.prod(source[cut + 1 :])
        if tail > 1 and all(rest % tail == 0 for rest in rests):
            _rewrite(graph, node, [each for each in makers if each is not None], maker, cut)
            return True
    return False


def _cut(source: tuple[int, ...], head: int) -> int | None:
    """The first axis of a shape of four behind so many elements."""
    if len(source) != 4:
        return None
    return next((at for at in range(1, 4) if math.prod(source[:at]) == head), None)


def _rewrite(
    graph: LoweringGraph, node: Node, makers: list[Node], chosen: Node | None, cut: int
) -> None:
    if chosen is None:
        return
    source = graph.shape(chosen.inputs[0])
    tail = math.prod(source[cut + 1 :])
    inputs = []
    total = 0
    for maker in makers:
        size = math.prod(graph.shape(maker.inputs[0])) // math.prod(source[:cut]) // tail
        total += size
        if maker is chosen:
            inputs.append(maker.inputs[0])
            continue
        shape = (*source[:cut], size, *source[cut + 1 :])
        name = graph.unique(f"{maker.outputs[0]}_j")
        inputs.append(
            graph.reshape(
                maker.inputs[0], shape, maker.name, name, before=node, sources=maker.sources
            )
        )
    result = node.outputs[0]
    whole = graph.shape(result)
    dtype = graph.tensors[result].dtype
    made = graph.unique(f"{result}-rs")
    graph.add_tensor(made, (*source[:cut], total, *source[cut + 1 :]), dtype)
    graph.rewire(node, inputs=inputs, outputs=[made])
    node.attributes["axis"] = cut
    for maker in makers:
        graph.remove(maker)
    graph.reshape(made, whole, made, result, before=graph.following(node))
    graph.rewrites["reduce_reshape_op_around_concat"] += 1
    reader = graph.only_reader(result)
    if reader is not None and reader.op in UNARY and len(reader.inputs) == 1:
        _behind(graph, reader, made)


def _behind(graph: LoweringGraph, node: Node, made: str) -> None:
    """An activation of a joined map works on it before it is laid out as rows."""
    back = graph.producer(node.inputs[0])
    if back is None:
        return
    result = node.outputs[0]
    inner = graph.like(result, graph.shape(made), f"{made}_sw")
    graph.remove(back)
    graph.rewire(node, inputs=[made], outputs=[inner])
    whole = graph.shape(result)
    graph.reshape(inner, whole, back.name, result, before=graph.following(node))
