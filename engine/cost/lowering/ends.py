"""Movements that stay: rows that come first at the ends, heads, LSTM and GRU."""

from __future__ import annotations

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.movement import MOVEMENTS, perm_of
from engine.cost.lowering.rules import Context, on

HELD = ("exReshape", "exTranspose")
"""A Reshape and a Transpose that no other movement joins."""

_LONGEST = 4
"""Movements between a norm and the end."""

_SWAP = (1, 0, 2)


def hold_ends(graph: LoweringGraph, context: Context) -> None:
    """A Reshape for such a Transpose, which stays; what is behind it sees batches of one row."""
    for node in graph:
        if node.op != "Transpose" or node.ints("perm") != _SWAP:
            continue
        x, result = node.inputs[0], node.outputs[0]
        shape = graph.shape(x)
        if len(shape) != 3:
            continue
        if x in graph.inputs and shape[0] == 1 < shape[1]:
            if graph.only_reader(x) is node and _feeds_matrix(graph, result):
                _hold_input(graph, node)
        elif _ends(graph, result) and shape[1] == 1 < shape[0]:
            norm = _norm_of(graph, x)
            if norm is not None and norm.op == "exNorm":
                _hold_output(graph, node)
            elif norm is not None:
                following = graph.following(node)
                graph.remove(node)
                _hold_rows(graph, x, result, f"{norm.name}#1_rs_tp", following)
    for result in graph.outputs:
        shape = graph.shape(result)
        maker = graph.producer(result)
        if maker is None or len(shape) != 3 or not shape[1] == 1 < shape[0]:
            continue
        norm = _norm_of(graph, result)
        if norm is not None and _ends(graph, result) and len(maker.outputs) == 1:
            _hold_norm(graph, result, maker, norm)


def _hold_norm(graph: LoweringGraph, result: str, maker: Node, norm: Node) -> None:
    """An output of several batches behind a norm."""
    kept = graph.tensors[result]
    inner = graph.add_tensor(graph.unique(f"{result}_inner"), kept.shape, kept.dtype)
    following = graph.following(maker)
    graph.rewire(maker, outputs=[inner])
    number = "" if norm.op == "exNorm" else "#1"
    _hold_rows(graph, inner, result, f"{norm.name}{number}_rs_tp", following)


def _hold_rows(graph: LoweringGraph, x: str, result: str, name: str, before: Node | None) -> None:
    """Batches of one row as they are before the output; ``name`` is of the Transpose to them."""
    rows, _, wide = graph.shape(x)
    seen = graph.reshape(x, (rows, 1, 1, wide), before=before)
    graph.reshape(seen, graph.shape(result), f"{result}-rs", result, before=before)
    _hold(graph, result, name)


def _hold(graph: LoweringGraph, tensor: str, name: str) -> None:
    """Keep the Reshape that writes a tensor; ``name`` is of the Transpose beside it."""
    maker = graph.producer(tensor)
    if maker is not None:
        maker.op = HELD[0]
        maker.attributes["turn"] = name


def _ends(graph: LoweringGraph, result: str) -> bool:
    return graph.is_output(result) and not graph.has_readers(result)


def _feeds_matrix(graph: LoweringGraph, tensor: str) -> bool:
    """Whether matrices read it, and sums with what they give: a recurrent layer has its own way."""
    readers = graph.readers(tensor)
    if graph.is_output(tensor) or any(reader.op not in ("Add", "MatMul") for reader in readers):
        return False
    return any(reader.op == "MatMul" and graph.is_const(reader.inputs[1]) for reader in readers)


def _norm_of(graph: LoweringGraph, tensor: str) -> Node | None:
    """The norm that writes it, but for movements."""
    for _ in range(_LONGEST):
        maker = graph.maker(tensor, *MOVEMENTS)
        if maker is None:
            break
        tensor = maker.inputs[0]
    return graph.maker(tensor, "LayerNormalization", "exNorm")


def _hold_input(graph: LoweringGraph, node: Node) -> None:
    x, result = node.inputs[0], node.outputs[0]
    _, rows, wide = graph.shape(x)
    name = graph.unique(f"{x}_rs")
    held = graph.reshape(x, (rows, 1, 1, wide), name, before=node, sources=node.sources)
    _hold(graph, held, f"{result}_tp")
    back = f"{result}_held"
    graph.reshape(held, (rows, 1, wide), graph.unique(back), result, before=node)
    graph.remove(node)


def _hold_output(graph: LoweringGraph, node: Node) -> None:
    x, result = node.inputs[0], node.outputs[0]
    rows, _, wide = graph.shape(x)
    sources = node.sources
    seen = graph.reshape(x, (rows, 1, 1, wide), before=node)
    name = graph.unique(f"{node.name}_held")
    turned = graph.transpose(seen, (1, 0, 2, 3), node.name, name, before=node, sources=sources)
    following = graph.following(node)
    graph.remove(node)
    graph.reshape(turned, (1, rows, wide), f"{result}-rs", result, before=following)
    _hold(graph, result, node.name)


@on(*HELD)
def release_ends(graph: LoweringGraph, node: Node, context: Context) -> None:
    """What was held is a Reshape again; the Transpose beside it has the name of the old one."""
    node.op = node.op[2:]
    name = str(node.attributes.pop("turn", ""))
    if not name:
        _join(graph, node)
        return
    ends = graph.is_output(node.outputs[0])
    turn = graph.producer(node.inputs[0]) if ends else graph.only_reader(node.outputs[0])
    if turn is None or turn.op != "Transpose":
        return
    turn.name = name
    shape = graph.shape(turn.inputs[0])
    if ends and perm_of(turn, len(shape)) == (0, 3, 2, 1) and shape[0] == shape[2] == 1:
        # It exchanges the dimensions of one as well, which not every NPU does.
        turn.attributes["perm"] = [2, 3, 0, 1]


def _join(graph: LoweringGraph, node: Node) -> None:
    """Two Reshapes in a row are one."""
    above = graph.maker(node.inputs[0], "Reshape", alone=True)
    if above is not None and node.op == "Reshape":
        graph.remove(above)
        graph.rewire(node, inputs=[above.inputs[0], *node.inputs[1:]])


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
        for movement in (turn, last):
            if movement is not None:
                graph.absorb(node, movement)
        node.op = node.kind = f"ex{node.op}"
    elif batch == 1 < directions and graph.shape(last.outputs[0]) == (steps, 2 * hidden):
        _hold_directions(graph, node, last, context)
        if turn is not None:
            graph.remove(turn)


def _hold_directions(graph: LoweringGraph, node: Node, last: Node, context: Context) -> None:
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
