"""Windows of a map as the compiler's exWindow."""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.movement import add_reshape, add_transpose, fresh
from engine.cost.lowering.rules import Context

__all__ = ["make_windows"]

_SWAP = (0, 1, 3, 2, 4, 5)


def make_windows(graph: LoweringGraph, context: Context) -> None:
    """Reshape to (1, a, b, c, d, C) and Transpose of b and c -> exWindow, named ``_2win``.

    A map (1, H, W, C) is cut into windows, (1, C, windows, pixels) of the compiler, or put
    together again.
    """
    for node in graph:
        if node.op != "Transpose" or node.ints("perm") != _SWAP:
            continue
        before = graph.producer(node.inputs[0])
        after = graph.only_reader(node.outputs[0])
        if before is None or before.op != "Reshape" or graph.shape(node.inputs[0])[0] != 1:
            continue
        if graph.only_reader(before.outputs[0]) is not node:
            continue
        if after is None or after.op != "Reshape":
            continue
        _window(graph, before, node)


def _window(graph: LoweringGraph, before: Node, turn: Node) -> None:
    x, result = before.inputs[0], turn.outputs[0]
    _, first, second, third, fourth, channels = graph.shape(turn.inputs[0])
    joins = third == fourth and _is_windows(graph.shape(x), first * second, third * fourth)
    if not joins and second != fourth:
        return
    whole = (1, first * second, third * fourth, channels)
    # Joined: windows by pixels -> a map; cut: a map -> windows by pixels.
    end = (first * third, second * fourth)
    maker = graph.producer(x)
    if maker is not None and maker.op == "Reshape" and graph.only_reader(x) is before:
        x = maker.inputs[0]
        graph.remove(maker)
    flat = add_reshape(graph, x, whole, fresh(graph, f"{x}_rs"), before=turn)
    data = add_transpose(graph, flat, (0, 3, 1, 2), fresh(graph, f"{flat}_tp"), before=turn)
    name = f"{turn.name}_2win"
    wide = (1, channels, *end)
    made = graph.add_tensor(name, wide, graph.tensors[x].dtype)
    new = Node("exWindow", name, "exWindow", [data], [made])
    new.sources = (*before.sources, *turn.sources)
    graph.insert(new, before=turn)
    back = add_transpose(graph, made, (0, 2, 3, 1), f"{made}_tp", before=turn)
    graph.replace_reads(result, back)
    graph.remove(before)
    graph.remove(turn)
    graph.rewrites["fuse_reshape_tp_reshape_to_exWindow"] += 1


def _is_windows(shape: tuple[int, ...], count: int, pixels: int) -> bool:
    if len(shape) == 3:
        return shape[:2] == (count, pixels)
    return len(shape) == 4 and shape[0] == count and shape[1] * shape[2] == pixels
