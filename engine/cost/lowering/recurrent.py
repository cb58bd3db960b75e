"""LSTM and GRU: one layer of the compiler each."""

from __future__ import annotations

from engine.cost.lowering.ends import HELD
from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.movement import add_reshape, add_transpose, fresh
from engine.cost.lowering.rules import Context

__all__ = ["make_recurrent"]


def make_recurrent(graph: LoweringGraph, context: Context) -> None:
    """LSTM -> exLSTM, GRU -> exGRU, which write (steps, batch, directions x hidden) themselves.

    Those whose steps are read in another form stay as they are.
    """
    for node in graph:
        if node.op not in ("GRU", "LSTM"):
            continue
        if any(graph.has_readers(each) or graph.is_output(each) for each in node.outputs[1:]):
            continue
        turn = _only(graph, node, "Transpose")
        if turn is not None and turn.ints("perm") == (0, 2, 1, 3):
            last = _only(graph, turn, "Reshape")
        else:
            turn, last = None, _only(graph, node, "Reshape")
        if last is None:
            continue
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
        x = add_transpose(graph, x, (1, 3, 2, 0), fresh(graph, name), before=last)
        rows = add_reshape(graph, x, (1, width, 1, steps), fresh(graph, f"{name}_rs"), before=last)
        held += [x, rows]
        rows = add_transpose(graph, rows, (0, 3, 2, 1), fresh(graph, f"{rows}_tp"), before=last)
    else:
        rows = add_reshape(graph, x, (steps, width, 1, 1), fresh(graph, f"{name}_rs"), before=last)
        held.append(rows)
    for maker in map(graph.producer, held):
        if maker is not None:
            maker.op = HELD[maker.op == "Transpose"]
    graph.rewire(last, inputs=[rows, *last.inputs[1:]])


def _only(graph: LoweringGraph, node: Node, op: str) -> Node | None:
    """The one reader of a node's first output."""
    if not node.outputs[0]:
        return None
    reader = graph.only_reader(node.outputs[0])
    return reader if reader is not None and reader.op == op else None
