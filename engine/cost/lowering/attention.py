"""The fused attention: two matrices with a Softmax between them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.movement import add_reshape, add_transpose, fresh
from engine.cost.lowering.rules import Context

__all__ = ["make_attention", "make_other_attention", "split_heads"]

_NO_ATTENTION = frozenset({"rk3566", "rk2118", "rv1106b"})
"""Families without the fused attention."""


def _next(graph: LoweringGraph, node: Node, op: str) -> Node | None:
    """The only reader of a node, if it is of this type."""
    reader = graph.only_reader(node.outputs[0])
    return reader if reader is not None and reader.op == op else None


def make_attention(graph: LoweringGraph, context: Context) -> None:
    """MatMul, scale, mask, Softmax, MatMul of four dimensions -> exSDPAttention, ``_2sdpa``."""
    if context.family in _NO_ATTENTION:
        return
    for node in graph:
        group = _attention(graph, node) if node.op == "Softmax" else None
        if group is not None and len(graph.shape(node.inputs[0])) == 4:
            _sdpa(graph, group)
            graph.rewrites["fuse_matmul_softmax_matmul_to_sdpa"] += 1


def make_other_attention(graph: LoweringGraph, context: Context) -> None:
    """The forms that the compiler finds when matrices are exMatMul already: ``#1_2sdpa``."""
    if context.family in _NO_ATTENTION:
        return
    for node in graph:
        if node.op != "Softmax":
            continue
        group = _attention(graph, node)
        turned = _turned_attention(graph, node) if group is None else None
        if group is not None:
            _sdpa(graph, group)
        elif turned is not None:
            _turned_sdpa(graph, turned)
        else:
            continue
        graph.rewrites["fuse_exmatmul_exsoftmax13_exmatmul_to_sdpa"] += 1


def _attention(graph: LoweringGraph, softmax: Node) -> list[Node] | None:
    rank = len(graph.shape(softmax.inputs[0]))
    if rank < 3 or softmax.int("old") or softmax.int("axis", -1) % rank != rank - 1:
        return None
    last = _next(graph, softmax, "MatMul")
    if last is None or last.inputs[0] != softmax.outputs[0] or graph.is_const(last.inputs[1]):
        return None
    before = _scores(graph, softmax)
    return [*before, last] if before is not None else None


def _scores(graph: LoweringGraph, softmax: Node) -> list[Node] | None:
    """The product of two features, its scale and its mask up to the Softmax."""
    group = [softmax]
    for ops in (("Add",), ("Mul", "Div")):
        maker = graph.producer(group[0].inputs[0])
        if maker is None or maker.op not in ops:
            continue
        if graph.only_reader(maker.outputs[0]) is not group[0]:
            return None
        data, other = maker.inputs[:2]
        if graph.is_const(data) or not _comes_from(graph, data):
            data, other = other, data
        if graph.is_const(data) or (maker.op != "Add" and not graph.is_const(other)):
            return None
        graph.rewire(maker, inputs=[data, other])
        group.insert(0, maker)
    first = graph.producer(group[0].inputs[0])
    if first is None or first.op != "MatMul" or any(graph.is_const(x) for x in first.inputs):
        return None
    if graph.only_reader(first.outputs[0]) is not group[0]:
        return None
    return [first, *group]


def _turned_attention(graph: LoweringGraph, softmax: Node) -> list[Node] | None:
    """Values @ transposed scores: the result has its channels first."""
    rank = len(graph.shape(softmax.inputs[0]))
    if rank < 3 or softmax.int("old") or softmax.int("axis", -1) % rank != rank - 1:
        return None
    turn = _next(graph, softmax, "Transpose")
    last = _next(graph, turn, "MatMul") if turn is not None else None
    if turn is None or last is None or last.inputs[1] != turn.outputs[0]:
        return None
    if turn.ints("perm") != (*range(rank - 2), rank - 1, rank - 2):
        return None
    if graph.is_const(last.inputs[0]):
        return None
    before = _scores(graph, softmax)
    return [*before, turn, last] if before is not None else None


def _turned_sdpa(graph: LoweringGraph, group: list[Node]) -> None:
    first, last = group[0], group[-1]
    query, key = first.inputs[:2]
    value, result = last.inputs[0], last.outputs[0]
    parts = [_turned(graph, query, last)]
    for each in (key, value):
        shape = graph.shape(each)
        wide = (math.prod(shape[:-2]), shape[-2], 1, shape[-1])
        parts.append(add_reshape(graph, each, wide, fresh(graph, f"{each}_rs"), before=last))
    rows = group[1 : next(at for at, each in enumerate(group) if "oftmax" in each.op)]
    for node in rows:
        other = node.inputs[1]
        parts.append(other if graph.is_const(other) else _turned(graph, other, last))
    made = f"{result}_sdpa"
    heads, depth = graph.shape(parts[2])[:2]
    shape = (heads, depth, 1, graph.shape(parts[0])[3])
    graph.add_tensor(made, shape, graph.tensors[query].dtype)
    new = Node("exSDPAttention", f"{last.name}#1_2sdpa", "exSDPAttention", parts, [made])
    new.sources = tuple(each for node in group for each in node.sources)
    graph.insert(new, before=last)
    add_reshape(graph, made, graph.shape(result), f"{made}_rs", result, before=last)
    for node in group:
        graph.remove(node)


def _comes_from(graph: LoweringGraph, tensor: str) -> bool:
    """Whether a tensor is a product of two matrices, scaled or not."""
    maker = graph.producer(tensor)
    if maker is not None and maker.op in ("Mul", "Div"):
        data = next((each for each in maker.inputs if not graph.is_const(each)), "")
        maker = graph.producer(data) if data else None
    return maker is not None and maker.op == "MatMul"


def _sdpa(graph: LoweringGraph, group: list[Node]) -> None:
    first, last = group[0], group[-1]
    query, key = first.inputs[:2]
    value, result = last.inputs[1], last.outputs[0]
    for tensor in (query, key):
        scale = _scale(graph, tensor, first)
        if scale is not None:
            data = next(each for each in scale.inputs if not graph.is_const(each))
            query, key = (data, key) if tensor == query else (query, data)
            group = [scale, *group]
    q = _turned(graph, query, last)
    shape = graph.shape(key)
    wide = (math.prod(shape[:-2]), shape[-2], 1, shape[-1])
    k = add_reshape(graph, key, wide, fresh(graph, f"{key}_rs"), before=last)
    v = _turned(graph, value, last)
    extra = []
    for node in group[group.index(first) + 1 : -2]:
        other = node.inputs[1]
        extra.append(other if graph.is_const(other) else _turned(graph, other, last))
    made = f"{result}_sdpa"
    heads, depth = graph.shape(v)[:2]
    rows = graph.shape(q)[3]
    graph.add_tensor(made, (heads, depth, 1, rows), graph.tensors[query].dtype)
    # Only of four dimensions it is found at once; else when the matrices have become exMatMul.
    name = f"{last.name}_2sdpa" if len(shape) == 4 else f"{last.name}#1_2sdpa"
    new = Node("exSDPAttention", name, "exSDPAttention", [q, k, v, *extra], [made])
    new.sources = tuple(each for node in group for each in node.sources)
    graph.insert(new, before=last)
    back = add_transpose(graph, made, (0, 3, 2, 1), f"{made}_tp", before=last)
    add_reshape(graph, back, graph.shape(result), f"{made}_tp_rs", result, before=last)
    for node in group:
        graph.remove(node)


def _scale(graph: LoweringGraph, tensor: str, reader: Node) -> Node | None:
    """A factor of one number before the scores that goes into no weight: attention takes it."""
    maker = graph.producer(tensor)
    if maker is None or maker.op not in ("Mul", "Div") or graph.only_reader(tensor) is not reader:
        return None
    consts = [each for each in maker.inputs if graph.is_const(each)]
    if len(consts) != 1 or math.prod(graph.shape(consts[0])) != 1 or _foldable(graph, maker):
        return None
    return maker


def _foldable(graph: LoweringGraph, scale: Node) -> bool:
    """Whether a scale goes into the weight of the matrix that it follows."""
    data = next((each for each in scale.inputs if not graph.is_const(each)), "")
    for _ in range(4):
        maker = graph.producer(data)
        if maker is None or graph.only_reader(data) is None:
            return False
        if maker.op == "MatMul":
            return any(graph.is_const(each) for each in maker.inputs)
        if maker.op not in ("Add", "Reshape", "Transpose"):
            return False
        data = next((each for each in maker.inputs if not graph.is_const(each)), "")
    return False


def _turned(graph: LoweringGraph, tensor: str, before: Node) -> str:
    """(..., N, K) as (B, K, 1, N)."""
    shape = graph.shape(tensor)
    rank = len(shape)
    perm = (*range(rank - 2), rank - 1, rank - 2)
    turned = add_transpose(graph, tensor, perm, fresh(graph, f"{tensor}_tp"), before=before)
    wide = (math.prod(shape[:-2]), shape[-1], 1, shape[-2])
    return add_reshape(graph, turned, wide, fresh(graph, f"{turned}_rs"), before=before)


def split_heads(graph: LoweringGraph, context: Context) -> None:
    """Queries, keys and values of one matrix, picked by Gather from (3, B, heads, N, D).

    For a batch of one the matrix's rows are put in order beforehand: the compiler calls it ``#3``,
    its result is split along channels.
    """
    for node in graph:
        if node.op != "Transpose" or node.ints("perm") != (2, 0, 3, 1, 4):
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
        if graph.shape(node.outputs[0])[1] == 1:
            _split_one(graph, before, node, ordered)
        elif unbound:
            _split_unbound(graph, before, node, ordered)
        else:
            _split_batch(graph, node, ordered)
        for each in (graph.only_reader(node.outputs[0]), node):
            if each is not None and each in graph and not any(map(graph.has_readers, each.outputs)):
                graph.remove(each)


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


def _split_one(graph: LoweringGraph, before: Node, turn: Node, picks: list[Node]) -> None:
    matrix = _source(graph, before.inputs[0])
    if matrix is None:
        return
    x = before.inputs[0]
    count, _, heads, rows, depth = graph.shape(turn.outputs[0])
    matrix.attributes["gathered"] = 1
    label = f"{matrix.outputs[0]}_mm_tp_sw_gather"
    width = count * heads * depth
    if graph.shape(x) != (1, rows, width):
        x = add_reshape(graph, x, (1, rows, width), f"{label}_in", before=turn)
    turned = add_transpose(graph, x, (0, 2, 1), label, before=turn)
    wide = (heads, count * depth, 1, rows)
    data = add_reshape(graph, turned, wide, f"{label}_rs", before=turn)
    _split_into(graph, data, f"{turn.outputs[0]}-rs_split", picks, turn, 1)
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
        x = add_reshape(graph, x, (batch, rows, width), fresh(graph, f"{label}_in"), before=turn)
    turned = add_transpose(graph, x, (0, 2, 1), fresh(graph, f"{label}_tp"), before=turn)
    wide = (count * batch * heads, depth, 1, rows)
    data = add_reshape(graph, turned, wide, fresh(graph, label), before=turn)
    dtype = graph.tensors[data].dtype
    name = f"{result}_swap_gather"
    order = graph.add_unknown(f"{name}_i1", (wide[0],), "int64")
    made = graph.add_tensor(fresh(graph, name), wide, dtype)
    gather = Node("Gather", name, "Gather", [data, order], [made], {"axis": 0})
    gather.sources = turn.sources
    graph.insert(gather, before=turn)
    _split_into(graph, made, f"{result}_swap_split", picks, turn, 0)
    graph.remove(before)


def _split_batch(graph: LoweringGraph, turn: Node, picks: list[Node]) -> None:
    x = turn.outputs[0]
    count, batch, heads, rows, depth = graph.shape(x)
    wide = (count * batch * heads, rows, 1, depth)
    data = add_reshape(graph, x, wide, fresh(graph, f"{x}_rs"), before=picks[0])
    turned = add_transpose(graph, data, (0, 3, 2, 1), f"{data}_tp", before=picks[0])
    _split_into(graph, turned, f"{picks[-1].name}_2sl_2sp", picks, picks[0], 0)


def _split_into(
    graph: LoweringGraph, data: str, name: str, picks: list[Node], at: Node, axis: int
) -> None:
    shape = list(graph.shape(data))
    shape[axis] //= len(picks)
    dtype = graph.tensors[data].dtype
    parts = [
        graph.add_tensor(fresh(graph, f"{name}_{number}"), tuple(shape), dtype)
        for number in range(len(picks))
    ]
    sizes = _sizes(shape[axis], len(picks))
    split = graph.add_tensor(f"{name}_sizes", (len(picks),), "int64", sizes)
    new = Node("Split", name, "Split", [data, split], parts, {"axis": axis})
    new.sources = tuple(each for node in picks for each in node.sources)
    graph.insert(new, before=at)
    for part, pick in zip(parts, picks, strict=True):
        result = pick.outputs[0]
        back = add_transpose(graph, part, (0, 3, 2, 1), f"{part}_tp", before=pick)
        add_reshape(graph, back, graph.shape(result), f"{pick.name}_2sl_rs", result, before=pick)
        graph.remove(pick)
    if graph.producer(at.outputs[0]) is at and not graph.has_readers(at.outputs[0]):
        graph.remove(at)


def _sizes(size: int, count: int) -> Callable[[], np.ndarray]:
    return lambda: np.full(count, size, np.int64)
