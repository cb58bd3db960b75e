"""Queries, keys and values that one matrix gives: its rows are put in order beforehand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.cost.lowering.attention import NO_ATTENTION
from engine.cost.lowering.ends import HELD
from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context, on

__all__ = ["split_heads", "split_packed"]


def _next(graph: LoweringGraph, node: Node, op: str) -> Node | None:
    """The only reader of a node, if it is of this type."""
    reader = graph.only_reader(node.outputs[0])
    return reader if reader is not None and reader.op == op else None


def split_heads(graph: LoweringGraph, context: Context) -> None:
    """Queries, keys and values of one matrix, picked by Gather from (3, B, heads, N, D).

    For a batch of one the matrix's rows are put in order beforehand: the compiler calls it ``#3``,
    its result is split along channels.
    """
    for node in graph:
        across = node.op == "Transpose" and node.ints("perm") == (2, 0, 3, 4, 1)
        if node.op != "Transpose" or (not across and node.ints("perm") != (2, 0, 3, 1, 4)):
            continue
        unbound = _unbound(graph, node)
        picks = unbound or graph.readers(node.outputs[0])
        before = graph.producer(node.inputs[0])
        if before is None or before.op != "Reshape" or graph.is_output(node.outputs[0]):
            continue
        if graph.only_reader(before.outputs[0]) is not node:
            continue
        found = [_picked(graph, each) for each in picks]
        if unbound:
            found = list(range(len(unbound)))
        count = graph.shape(node.outputs[0])[0]
        if sorted(found) != list(range(count)) or count < 2:
            continue
        ordered = [picks[found.index(each)] for each in range(count)]
        if across:
            if graph.shape(node.outputs[0])[1] == 1:
                _split_across(graph, before, node, ordered)
        elif graph.shape(node.outputs[0])[1] == 1:
            _split_one(graph, before, node, ordered, context.whole_channels)
        elif unbound:
            _split_unbound(graph, before, node, ordered)
        else:
            _split_batch(graph, node, ordered, turned=context.family not in NO_ATTENTION)
        for each in (graph.only_reader(node.outputs[0]), node):
            if each is not None and each in graph and not any(map(graph.has_readers, each.outputs)):
                graph.remove(each)


@on("Transpose")
def split_packed(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Queries, keys and values of one matrix as torch's MultiheadAttention packs them.

    (N, 1, 3E) seen as (3, N, 1, E), a Gather of each, seen as (N, heads, D), then (heads, N, D).
    """
    if node.ints("perm") != (3, 1, 2, 0, 4):
        return
    before, squeeze = graph.producer(node.inputs[0]), graph.only_reader(node.outputs[0])
    if before is None or before.op != "Reshape" or squeeze is None or squeeze.op != "Reshape":
        return
    count, rows, batch, _, width = graph.shape(node.outputs[0])
    picks = graph.readers(squeeze.outputs[0])
    found = [_picked(graph, each) for each in picks]
    if batch != 1 or sorted(found) != list(range(count)) or count < 2:
        return
    views = [_next(graph, picks[found.index(at)], "Reshape") for at in range(count)]
    turns = [_next(graph, each, "Transpose") if each is not None else None for each in views]
    ends = [each for each in turns if each is not None and each.ints("perm") == (1, 0, 2)]
    above = graph.producer(before.inputs[0])
    if above is not None and above.op == "Reshape" and graph.only_reader(above.outputs[0]):
        graph.rewire(before, inputs=[above.inputs[0], *before.inputs[1:]])
        graph.remove(above)
    matrix = _source(graph, before.inputs[0])
    shapes = {graph.shape(each.outputs[0]) for each in ends}
    if len(ends) < count or len(shapes) != 1 or matrix is None:
        return
    heads, _, depth = shapes.pop()
    if heads * depth != width or graph.only_reader(before.outputs[0]) is not node:
        return
    _split_matrix(graph, (before, node, matrix), ends, (heads, depth, rows))
    gone = [squeeze, node, before, *picks, *(each for each in views if each is not None)]
    for each in gone:
        graph.remove(each)


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
    part = (heads, depth, 1, rows)
    dtype = graph.tensors[data].dtype
    parts = [graph.add_tensor(graph.unique(f"{name}_{at}"), part, dtype) for at in range(count)]
    sizes = graph.add_tensor(f"{name}_sizes", (count,), "int64", _sizes(depth, count))
    graph.put("Split", name, [data, sizes], parts, {"axis": 1}, before=turn)
    for part_name, end in zip(parts, ends, strict=True):
        back = graph.transpose(part_name, (0, 3, 2, 1), f"{part_name}_tp", before=end)
        result = end.outputs[0]
        graph.reshape(back, graph.shape(result), end.name, result, before=end)
        graph.remove(end)
    graph.rewrites["relocate_rs_split_axis"] += 1


def _unbound(graph: LoweringGraph, turn: Node) -> list[Node]:
    """The Reshapes behind a Split into ones of the first axis, in order; else none."""
    split = graph.only_reader(turn.outputs[0])
    if split is None or split.op != "Split" or split.int("axis") != 0:
        return []
    whole = graph.shape(turn.outputs[0])
    picks = [graph.only_reader(each) for each in split.outputs]
    found = [each for each in picks if each is not None and each.op == "Reshape"]
    if len(found) < len(picks) or any(graph.shape(each.outputs[0]) != whole[1:] for each in found):
        return []
    return found


def _picked(graph: LoweringGraph, node: Node) -> int:
    """The index that a Gather takes of the first axis; -1 of everything else."""
    if node.op != "Gather" or node.int("axis") != 0 or graph.shape(node.inputs[1]) != ():
        return -1
    index = graph.array(node.inputs[1])
    return -1 if index is None else int(index)


def _source(graph: LoweringGraph, tensor: str) -> Node | None:
    """The MatMul with a constant that a tensor comes from, a bias in between."""
    maker = graph.producer(tensor)
    if maker is not None and maker.op == "Add":
        data = next((each for each in maker.inputs if not graph.is_const(each)), "")
        maker = graph.producer(data) if graph.only_reader(data) is maker else None
    if maker is None or maker.op != "MatMul" or not graph.is_const(maker.inputs[1]):
        return None
    return maker


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
    dtype = graph.tensors[data].dtype
    name = f"{result}_swap_gather"
    order = graph.add_unknown(f"{name}_i1", (wide[0],), "int64")
    made = graph.add_tensor(graph.unique(name), wide, dtype)
    graph.put("Gather", name, [data, order], [made], {"axis": 0}, before=turn)
    _split_into(graph, made, f"{result}_swap_split", picks, turn, 0)
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
    shape = list(graph.shape(data))
    shape[axis] //= len(picks)
    dtype = graph.tensors[data].dtype
    parts = [
        graph.add_tensor(graph.unique(f"{name}_{number}"), tuple(shape), dtype)
        for number in range(len(picks))
    ]
    sizes = _sizes(shape[axis], len(picks))
    split = graph.add_tensor(f"{name}_sizes", (len(picks),), "int64", sizes)
    graph.put(
        "Split",
        name,
        [data, split],
        parts,
        {"axis": axis},
        before=at,
        sources=tuple(each for node in picks for each in node.sources),
    )
    for part, pick in zip(parts, picks, strict=True):
        result = pick.outputs[0]
        back = part
        if turned:
            back = graph.transpose(part, (0, 3, 2, 1), f"{part}_tp", before=pick)
        graph.reshape(back, graph.shape(result), f"{pick.name}_2sl_rs", result, before=pick)
        graph.remove(pick)
    if graph.producer(at.outputs[0]) is at and not graph.has_readers(at.outputs[0]):
        graph.remove(at)


def _sizes(size: int, count: int) -> Callable[[], np.ndarray]:
    return lambda: np.full(count, size, np.int64)
