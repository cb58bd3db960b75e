"""Queries, keys and values that one matrix gives: its rows are put in order beforehand."""

from __future__ import annotations

from engine.cost.lowered import Node
from engine.cost.lowering.attention import NO_ATTENTION
from engine.cost.lowering.ends import HELD
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on


@on("Transpose")
def split_heads(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Queries, keys and values of one matrix, picked by Gather from (3, B, heads, N, D).

    For a batch of one the matrix's rows are put in order beforehand: the compiler calls it ``#3``,
    its result is split along channels.
    """
    across = node.ints("perm") == (2, 0, 3, 4, 1)
    before = graph.maker(node.inputs[0], "Reshape", alone=True)
    if before is None or not (across or node.ints("perm") == (2, 0, 3, 1, 4)):
        return
    unbound = _unbound(graph, node)
    picks = unbound or graph.readers(node.outputs[0])
    if graph.is_output(node.outputs[0]):
        return
    places = list(range(len(unbound))) or [_picked(graph, pick) for pick in picks]
    count, batch = graph.shape(node.outputs[0])[:2]
    if sorted(places) != list(range(count)) or count < 2:
        return
    ordered = [picks[places.index(number)] for number in range(count)]
    if across:
        if batch == 1:
            _split_across(graph, before, node, ordered)
    elif batch == 1:
        _split_one(graph, before, node, ordered, context.whole_channels)
    elif unbound:
        _split_unbound(graph, before, node, ordered)
    else:
        _split_batch(graph, node, ordered, turned=context.family not in NO_ATTENTION)
    for member in (graph.only_reader(node.outputs[0]), node):
        if (
            member is not None
            and member in graph
            and not any(map(graph.has_readers, member.outputs))
        ):
            graph.remove(member)


@on("Transpose")
def split_packed(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Queries, keys and values of one matrix as torch's MultiheadAttention packs them.

    (N, 1, 3E) seen as (3, N, 1, E), a Gather of each, seen as (N, heads, D), then (heads, N, D).
    """
    before = graph.maker(node.inputs[0], "Reshape")
    squeeze = graph.reader(node.outputs[0], "Reshape")
    if node.ints("perm") != (3, 1, 2, 0, 4) or before is None or squeeze is None:
        return
    count, rows, batch, _, width = graph.shape(node.outputs[0])
    picks = graph.readers(squeeze.outputs[0])
    places = [_picked(graph, pick) for pick in picks]
    if batch != 1 or sorted(places) != list(range(count)) or count < 2:
        return
    ordered = (picks[places.index(at)] for at in range(count))
    seen = [graph.reader(pick.outputs[0], "Reshape") for pick in ordered]
    views = [view for view in seen if view is not None]
    turns = [graph.reader(view.outputs[0], "Transpose") for view in views]
    ends = [turn for turn in turns if turn is not None and turn.ints("perm") == (1, 0, 2)]
    above = graph.maker(before.inputs[0], "Reshape", alone=True)
    if above is not None:
        graph.rewire(before, inputs=[above.inputs[0], *before.inputs[1:]])
        graph.remove(above)
    matrix = _source(graph, before.inputs[0])
    shapes = {graph.shape(view.outputs[0]) for view in ends}
    if len(ends) < count or len(shapes) != 1 or matrix is None:
        return
    heads, _, depth = shapes.pop()
    if heads * depth == width and graph.only_reader(before.outputs[0]) is node:
        _split_matrix(graph, (before, node, matrix), ends, (heads, depth, rows))
        for member in (squeeze, node, before, *picks, *views):
            graph.remove(member)


def _split_matrix(
    graph: LoweringGraph,
    nodes: tuple[Node, Node, Node],
    ends: list[Node],
    size: tuple[int, int, int],
) -> None:
    before, turn, matrix = nodes
    heads, depth, rows = size
    count = len(ends)
    matrix.attributes["gathered"] = 1
    label = f"{matrix.outputs[0]}_rs_sw_gather"
    flat = (1, rows, count * heads * depth)
    x = graph.reshape(before.inputs[0], flat, graph.unique(f"{label}_in"), before=turn)
    turned = graph.transpose(x, (0, 2, 1), graph.unique(label), before=turn)
    wide = (heads, count * depth, 1, rows)
    data = graph.reshape(turned, wide, graph.unique(f"{label}_rs"), before=turn)
    name = f"{turn.outputs[0]}-rs_rs_tp_split"
    parts = _parts(graph, data, name, count, 1, turn, turn.sources)
    for part_name, end in zip(parts, ends, strict=True):
        back = graph.transpose(part_name, (0, 3, 2, 1), f"{part_name}_tp", before=end)
        result = end.outputs[0]
        graph.reshape(back, graph.shape(result), end.name, result, before=end)
        graph.remove(end)


def _unbound(graph: LoweringGraph, turn: Node) -> list[Node]:
    """The Reshapes behind a Split into ones of the first axis, in order; else none."""
    split = graph.reader(turn.outputs[0], "Split")
    if split is None or split.int("axis") != 0:
        return []
    whole = graph.shape(turn.outputs[0])
    picks = [graph.reader(output, "Reshape") for output in split.outputs]
    views = [view for view in picks if view is not None]
    if len(views) < len(picks) or any(graph.shape(view.outputs[0]) != whole[1:] for view in views):
        return []
    return views


def _picked(graph: LoweringGraph, node: Node) -> int:
    """The index that a Gather takes of the first axis; -1 of everything else."""
    if node.op != "Gather" or node.int("axis") != 0 or graph.shape(node.inputs[1]) != ():
        return -1
    index = graph.number(node.inputs[1])
    return -1 if index is None else int(index)


def _source(graph: LoweringGraph, tensor: str) -> Node | None:
    """The MatMul with a constant that a tensor comes from, a bias in between."""
    added = graph.maker(tensor, "Add")
    if added is not None:
        data = graph.feature(added)
        tensor = data if graph.only_reader(data) is added else ""
    matrix = graph.maker(tensor, "MatMul")
    return matrix if matrix is not None and graph.is_const(matrix.inputs[1]) else None


def _split_one(
    graph: LoweringGraph, before: Node, turn: Node, picks: list[Node], group: int
) -> None:
    """The matrix's rows are put in order by head and part, or by head where depths break groups."""
    matrix = _source(graph, before.inputs[0])
    if matrix is None:
        return
    x = before.inputs[0]
    count, _, heads, rows, depth = graph.shape(turn.outputs[0])
    whole = depth % group == 0
    biased = graph.producer(matrix.outputs[0]) is not graph.producer(x)
    label = f"{matrix.outputs[0]}_mm{'_tp_sw' * biased}_gather"
    width = count * heads * depth
    if graph.shape(x) != (1, rows, width):
        x = graph.reshape(x, (1, rows, width), f"{label}_in", before=turn)
    turned = graph.transpose(x, (0, 2, 1), label, before=turn)
    if whole:
        matrix.attributes["gathered"] = 1
        wide = (heads, count * depth, 1, rows)
        data = graph.reshape(turned, wide, f"{label}_rs", before=turn)
        _split_into(graph, data, f"{turn.outputs[0]}-rs_split", picks, turn, 1)
    else:
        wide = (heads, depth, count, rows)
        data = graph.reshape(turned, wide, f"{turn.outputs[0]}#1", before=turn)
        _split_into(graph, data, f"{picks[-1].name}_2sl_2sp", picks, turn, 2)
    graph.remove(before)


def _split_across(graph: LoweringGraph, before: Node, turn: Node, picks: list[Node]) -> None:
    """Attention between channels: the parts are split with the rows as channels."""
    x = before.inputs[0]
    count, _, heads, depth, rows = graph.shape(turn.outputs[0])
    label = f"{before.name}_rs"
    if graph.shape(x) != (1, rows, count * heads * depth):
        return
    turned = graph.transpose(x, (0, 2, 1), graph.unique(f"{label}_tp"), before=turn)
    wide = (heads, count, depth, rows)
    data = graph.reshape(turned, wide, f"{label}#1", before=turn)
    data = graph.transpose(data, (0, 3, 1, 2), f"{turn.outputs[0]}-rs_tp#1", before=turn)
    _split_into(graph, data, f"{picks[-1].name}_2sl_2sp", picks, turn, 2)
    graph.remove(before)


def _split_unbound(graph: LoweringGraph, before: Node, turn: Node, picks: list[Node]) -> None:
    """Of several in a batch: heads are rows of a map, which a Gather puts in order."""
    if _source(graph, before.inputs[0]) is None:
        return
    x, result = before.inputs[0], turn.outputs[0]
    count, batch, heads, rows, depth = graph.shape(result)
    width = count * heads * depth
    label = f"{before.outputs[0]}_rs"
    if graph.shape(x) != (batch, rows, width):
        x = graph.reshape(x, (batch, rows, width), graph.unique(f"{label}_in"), before=turn)
    turned = graph.transpose(x, (0, 2, 1), graph.unique(f"{label}_tp"), before=turn)
    wide = (count * batch * heads, depth, 1, rows)
    data = graph.reshape(turned, wide, graph.unique(label), before=turn)
    name = f"{result}_swap_gather"
    inputs = [data, graph.add_unknown(f"{name}_i1", (wide[0],), "int64")]
    gathered = graph.unique(name)
    graph.write("Gather", name, inputs, wide, gathered, {"axis": 0}, before=turn)
    _split_into(graph, gathered, f"{result}_swap_split", picks, turn, 0)
    graph.remove(before)


def _split_batch(graph: LoweringGraph, turn: Node, picks: list[Node], *, turned: bool) -> None:
    """``turned``: an attention wants all three with the channels first, else two of them."""
    x = turn.outputs[0]
    before = graph.producer(turn.inputs[0])
    if before is not None:  # five dimensions stay as they are
        before.op, turn.op = HELD
    count, batch, heads, rows, depth = graph.shape(x)
    wide = (count * batch * heads, rows, 1, depth)
    data = graph.reshape(x, wide, before=picks[0])
    if turned:
        data = graph.transpose(data, (0, 3, 2, 1), f"{data}_tp", before=picks[0])
    name = f"{picks[-1].name}_2sl_2sp"
    _split_into(graph, data, name, picks, picks[0], 0, turned=turned)


def _split_into(
    graph: LoweringGraph,
    data: str,
    name: str,
    picks: list[Node],
    at: Node,
    axis: int,
    *,
    turned: bool = True,
) -> None:
    sources = tuple(source for node in picks for source in node.sources)
    parts = _parts(graph, data, name, len(picks), axis, at, sources)
    for part, pick in zip(parts, picks, strict=True):
        result = pick.outputs[0]
        back = part
        if turned:
            back = graph.transpose(part, (0, 3, 2, 1), f"{part}_tp", before=pick)
        graph.reshape(back, graph.shape(result), f"{pick.name}_2sl_rs", result, before=pick)
        graph.remove(pick)
    if graph.producer(at.outputs[0]) is at and not graph.has_readers(at.outputs[0]):
        graph.remove(at)


def _parts(
    graph: LoweringGraph,
    data: str,
    name: str,
    count: int,
    axis: int,
    before: Node,
    sources: tuple[str, ...],
) -> list[str]:
    """A Split of a tensor into equal parts; what it writes."""
    shape = list(graph.shape(data))
    shape[axis] //= count
    parts = [graph.like(data, tuple(shape), f"{name}_{at}") for at in range(count)]
    sizes = graph.add_numbers(f"{name}_sizes", *[shape[axis]] * count)
    graph.put("Split", name, [data, sizes], parts, {"axis": axis}, before=before, sources=sources)
    return parts
