"""LSTM and GRU: one layer of the compiler each."""

from __future__ import annotations

from engine.cost.lowering.ends import HELD
from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context, on

__all__ = ["make_recurrent"]


@on("GRU", "LSTM")
def make_recurrent(graph: LoweringGraph, node: Node, context: Context) -> None:
    """LSTM -> exLSTM, GRU -> exGRU, which write (steps, batch, directions x hidden) themselves.

    Those whose steps are read in another form stay as they are.
    """
    if not node.outputs[0] or not all(map(graph.unread, node.outputs[1:])):
        return
    turn = graph.reader(node.outputs[0], "Transpose")
    if turn is not None and turn.ints("perm") != (0, 2, 1, 3):
        turn = None
    last = graph.reader((turn or node).outputs[0], "Reshape")
    if last is None:
        return
    steps, directions, batch, hidden = (*graph.shape(node.outputs[0]), 0, 0, 0, 0)[:4]
    plain = turn is not None or directions == 1 or batch == 1
    if plain and graph.shape(last.outputs[0]) == (steps, batch, directions * hidden):
        for each in (turn, last):
            if each is not None:
                graph.absorb(node, each)
        node.op = node.kind = f"ex{node.op}"
        graph.rewrites["fuse_transpose_reshape_into_recurrent"] += 1
    elif batch == 1 < directions and graph.shape(last.outputs[0]) == (steps, 2 * hidden):
        _hold(graph, node, last, context)
        if turn is not None:
            graph.remove(turn)


def _hold(graph: LoweringGraph, node: Node, last: Node, context: Context) -> None:
    """Both directions as the rows of a matrix: turned first where their values fill groups."""
    x, result = node.outputs[0], last.outputs[0]
    steps, directions, _, hidden = graph.shape(x)
    width, name = directions * hidden, f"{result}_tp"
    held: list[str] = []
    if hidden % context.whole_channels == 0:
        x = graph.transpose(x, (1, 3, 2, 0), graph.unique(name), before=last)
        rows = graph.reshape(x, (1, width, 1, steps), graph.unique(f"{name}_rs"), before=last)
        held += [x, rows]
        rows = graph.transpose(rows, (0, 3, 2, 1), before=last)
    else:
        rows = graph.reshape(x, (steps, width, 1, 1), graph.unique(f"{name}_rs"), before=last)
        held.append(rows)
    for maker in map(graph.producer, held):
        if maker is not None:
            maker.op = HELD[maker.op == "Transpose"]
    graph.rewire(last, inputs=[rows, *last.inputs[1:]])
