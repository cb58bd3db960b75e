"""Transposes and reshapes around convolutions of one pixel, whose pixels may lie in any order."""

from __future__ import annotations

from engine.cost.lowering.fours import UNARY
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.layouts import settle_layouts
from engine.cost.lowering.maps import push_maps
from engine.cost.lowering.movement import perm_of
from engine.cost.lowering.node import Node
from engine.cost.lowering.rules import Context

_ROUNDS = 8


def settle_convolutions(graph: LoweringGraph, context: Context) -> None:
    """Transposes that keep the channels go behind a 1x1 convolution, batches into its height."""
    for _ in range(_ROUNDS):
        changed = False
        for node in graph:
            if node.op == "Conv" and node.int("constant"):
                changed |= _batched(graph, node) or _behind(graph, node) or _lifted(graph, node)
            elif node.op in UNARY:
                changed |= _passed(graph, node)
        changed |= push_maps(graph, context, matrices=True)
        if not changed:
            return
        settle_layouts(graph, context)


def _before(graph: LoweringGraph, node: Node) -> Node | None:
    turn = graph.maker(node.inputs[0], "Transpose", alone=True)
    return turn if turn is not None and len(graph.shape(turn.inputs[0])) == 4 else None


def _moved(graph: LoweringGraph, node: Node) -> list[Node]:
    """The Transpose before a layer if it keeps the channels, with a Reshape that it needs to."""
    turn = _before(graph, node)
    if turn is None:
        return []
    perm = perm_of(turn, 4)
    if perm[1] == 1:
        return [turn]
    view = graph.maker(turn.inputs[0], "Reshape", alone=True)
    if view is None:
        return []
    source, shape = graph.shape(view.inputs[0]), graph.shape(view.outputs[0])
    whole = len(source) == 4 and source[0] == 1 and perm[1] == 0 and source[1] == shape[0]
    return [view, turn] if whole and source[1] > 1 else []


def _go_behind(graph: LoweringGraph, node: Node, moves: list[Node]) -> None:
    """Let a layer over channels read what is moved; what it writes is moved instead."""
    x, result, turn = moves[0].inputs[0], node.outputs[0], moves[-1]
    source, channels = graph.shape(x), graph.shape(result)[1]
    data = graph.like(result, (source[0], channels, *source[2:]), f"{turn.name}_sw")
    following = graph.following(node)
    wide = (channels, *graph.shape(turn.inputs[0])[1:])
    for move in moves[::-1]:
        graph.remove(move)
    graph.rewire(node, inputs=[x, *node.inputs[1:]], outputs=[data])
    if len(moves) > 1:
        name = graph.unique(f"{moves[0].name}_sw")
        data = graph.reshape(data, wide, moves[0].name, name, before=following)
    perm = perm_of(turn, 4)
    graph.transpose(data, perm, turn.name, result, before=following, sources=turn.sources)


def _behind(graph: LoweringGraph, node: Node) -> bool:
    moves = _moved(graph, node)
    if not moves:
        return False
    _go_behind(graph, node, moves)
    return True


def _passed(graph: LoweringGraph, node: Node) -> bool:
    """An activation between two such convolutions works before the transpose."""
    moves = _moved(graph, node)
    x = moves[0].inputs[0] if moves else ""
    if not moves or graph.only_reader(x) is not moves[0]:
        return False
    for neighbour in (graph.producer(x), graph.only_reader(node.outputs[0])):
        if neighbour is None or neighbour.op != "Conv" or not neighbour.int("constant"):
            return False
    _go_behind(graph, node, moves)
    return True


def _lifted(graph: LoweringGraph, node: Node) -> bool:
    turn, after = _before(graph, node), graph.reader(node.outputs[0], "Transpose")
    if turn is None or after is None:
        return False
    perm = perm_of(after, 4)
    if perm[1] != 1 or perm == (0, 1, 2, 3):
        return False
    x = node.inputs[0]
    result = after.outputs[0]
    graph.remove(after)
    moved = graph.transpose(x, perm, after.name, graph.unique(f"{x}_sw"), before=node)
    graph.rewire(node, inputs=[moved, *node.inputs[1:]], outputs=[result])
    return True


def _batched(graph: LoweringGraph, node: Node) -> bool:
    """(B, K, 1, M) between two transposes -> (1, K, B, M)."""
    turn, after = _before(graph, node), graph.reader(node.outputs[0], "Transpose")
    if turn is None or after is None:
        return False
    batch, depth, height, rows = graph.shape(node.inputs[0])
    if batch == 1 or height != 1:
        return False
    first, second = perm_of(turn, 4), perm_of(after, 4)
    order = (2, 1, 0, 3)
    dtype = graph.tensors[node.outputs[0]].dtype
    channels = graph.shape(node.outputs[0])[1]
    x = graph.add_tensor(graph.unique(f"{node.inputs[0]}_b"), (1, depth, batch, rows), dtype)
    batched = graph.add_tensor(
        graph.unique(f"{node.outputs[0]}_b"), (1, channels, batch, rows), dtype
    )
    graph.rewire(turn, outputs=[x])
    turn.attributes["perm"] = [first[axis] for axis in order]
    graph.rewire(node, inputs=[x, *node.inputs[1:]], outputs=[batched])
    graph.rewire(after, inputs=[batched])
    after.attributes["perm"] = [order[axis] for axis in second]
    return True
