"""Windows of a map as the compiler's exWindow."""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context, on

__all__ = ["make_windows"]

_SWAP = (0, 1, 3, 2, 4, 5)


@on("Transpose")
def make_windows(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Reshape to (1, a, b, c, d, C) and Transpose of b and c -> exWindow, named ``_2win``.

    A map (1, H, W, C) is cut into windows, (1, C, windows, pixels) of the compiler, or put
    together again.
    """
    before = graph.maker(node.inputs[0], "Reshape", alone=True)
    after = graph.reader(node.outputs[0], "Reshape")
    if node.ints("perm") != _SWAP or before is None or after is None:
        return
    if graph.shape(node.inputs[0])[0] == 1:
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
    maker = graph.maker(x, "Reshape", alone=True)
    if maker is not None:
        x = maker.inputs[0]
        graph.remove(maker)
    flat = graph.reshape(x, whole, before=turn)
    data = graph.transpose(flat, (0, 3, 1, 2), before=turn)
    name = f"{turn.name}_2win"
    wide = (1, channels, *end)
    made = graph.add_tensor(name, wide, graph.tensors[x].dtype)
    graph.put(
        "exWindow", name, [data], [made], before=turn, sources=(*before.sources, *turn.sources)
    )
    back = graph.transpose(made, (0, 2, 3, 1), f"{made}_tp", before=turn)
    graph.replace_reads(result, back)
    graph.remove(before)
    graph.remove(turn)
    graph.rewrites["fuse_reshape_tp_reshape_to_exWindow"] += 1


def _is_windows(shape: tuple[int, ...], count: int, pixels: int) -> bool:
    if len(shape) == 3:
        return shape[:2] == (count, pixels)
    return len(shape) == 4 and shape[0] == count and shape[1] * shape[2] == pixels
