"""The fused attention: two matrices with a Softmax between them."""

from __future__ import annotations

import math

from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.node import Node
from engine.cost.lowering.rules import Context

NO_ATTENTION = frozenset({"rk3566", "rk2118", "rv1106b"})
"""Families without the fused attention."""


def join_masks(graph: LoweringGraph, context: Context) -> None:
    """Two constants that are added to scores, the second in five dimensions, are one."""
    for node in graph:
        back = graph.reader(node.outputs[0], "Softmax")
        second = graph.producer(node.inputs[0]) if back is not None and node.inputs else None
        if node.op != "Reshape" or second is None or second.op != "Add":
            continue
        view = graph.producer(_feature(graph, second))
        first = graph.producer(view.inputs[0]) if view is not None else None
        if view is None or view.op != "Reshape" or first is None or first.op != "Add":
            continue
        x = _feature(graph, first)
        chain = (first, view, second)
        if not x or graph.shape(x) != graph.shape(node.outputs[0]):
            continue
        if any(graph.only_reader(member.outputs[0]) is None for member in chain):
            continue
        for member in chain[1:]:
            graph.remove(member)
        mask = graph.add_unknown(f"{second.name}_i1", graph.shape(x), graph.tensors[x].dtype)
        first.sources = (*first.sources, *second.sources)
        graph.rewire(first, inputs=[x, mask], outputs=list(node.outputs))
        graph.remove(node)


def _feature(graph: LoweringGraph, node: Node) -> str:
    """The one input that is no constant; nothing where there are more."""
    features = graph.features(node)
    return features[0] if len(features) == 1 and len(node.inputs) == 2 else ""


def make_attention(graph: LoweringGraph, context: Context) -> None:
    """MatMul, scale, mask, Softmax, MatMul of four dimensions -> exSDPAttention, ``_2sdpa``."""
    if context.family in NO_ATTENTION:
        return
    for node in graph:
        group = attention_group(graph, node) if node.op == "Softmax" else None
        if group is not None and len(graph.shape(node.inputs[0])) == 4:
            _sdpa(graph, group)


def make_other_attention(graph: LoweringGraph, context: Context) -> None:
    """The forms that the compiler finds when matrices are exMatMul already: ``#1_2sdpa``."""
    if context.family in NO_ATTENTION:
        return
    for node in graph:
        if node.op != "Softmax":
            continue
        group = attention_group(graph, node)
        turned = _turned_attention(graph, node) if group is None else None
        if group is not None:
            _sdpa(graph, group)
        elif turned is not None:
            _turned_sdpa(graph, turned)
        else:
            continue


def attention_group(graph: LoweringGraph, softmax: Node) -> list[Node] | None:
    """MatMul, scale, mask, Softmax, MatMul around a Softmax; None where it stands elsewhere."""
    rank = len(graph.shape(softmax.inputs[0]))
    if rank < 3 or softmax.int("old") or softmax.int("axis", -1) % rank != rank - 1:
        return None
    last = graph.reader(softmax.outputs[0], "MatMul")
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
        if maker.op != "Add" and math.prod(graph.shape(other)) != 1:
            return None  # a factor of each head
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
    turn = graph.reader(softmax.outputs[0], "Transpose")
    last = graph.reader(turn.outputs[0], "MatMul") if turn is not None else None
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
    parts += [_wide(graph, tensor, last) for tensor in (key, value)]
    rows = group[1 : next(at for at, member in enumerate(group) if "oftmax" in member.op)]
    attended = _attend(graph, group, rows, parts, f"{last.name}#1_2sdpa", query)
    graph.reshape(attended, graph.shape(result), f"{attended}_rs", result, before=last)
    for node in group:
        graph.remove(node)


def _wide(graph: LoweringGraph, tensor: str, before: Node) -> str:
    """(..., N, K) as (B, N, 1, K)."""
    shape = graph.shape(tensor)
    wide = (math.prod(shape[:-2]), shape[-2], 1, shape[-1])
    return graph.reshape(tensor, wide, before=before)


def _attend(
    graph: LoweringGraph,
    group: list[Node],
    rows: list[Node],
    parts: list[str],
    name: str,
    query: str,
) -> str:
    """The fused layer over query, key and value, and what is done to each row of scores."""
    last = group[-1]
    for node in rows:
        other = node.inputs[1]
        parts.append(other if graph.is_const(other) else _turned(graph, other, last))
    heads, depth = graph.shape(parts[2])[:2]
    shape = (heads, depth, 1, graph.shape(parts[0])[3])
    attended = f"{last.outputs[0]}_sdpa"
    graph.add_tensor(attended, shape, graph.tensors[query].dtype)
    sources = tuple(source for node in group for source in node.sources)
    graph.put("exSDPAttention", name, parts, [attended], before=last, sources=sources)
    return attended


def _comes_from(graph: LoweringGraph, tensor: str) -> bool:
    """Whether a tensor is a product of two matrices, scaled or not."""
    maker = graph.producer(tensor)
    if maker is not None and maker.op in ("Mul", "Div"):
        maker = graph.producer(graph.feature(maker))
    return maker is not None and maker.op == "MatMul"


def _sdpa(graph: LoweringGraph, group: list[Node]) -> None:
    first, last = group[0], group[-1]
    query, key = first.inputs[:2]
    value, result = last.inputs[1], last.outputs[0]
    for tensor in (query, key):
        scale = _scale(graph, tensor, first)
        if scale is not None:
            data = graph.feature(scale)
            query, key = (data, key) if tensor == query else (query, data)
            group = [scale, *group]
    scale = _scale(graph, key, first)
    if scale is not None and scale.op == "Mul":
        key = graph.feature(scale)
        group = [scale, *group]
    parts = [_turned(graph, query, last), _wide(graph, key, last), _turned(graph, value, last)]
    # Only of four dimensions it is found at once; else when the matrices have become exMatMul.
    four = len(graph.shape(key)) == 4
    name = f"{last.name}_2sdpa" if four else f"{last.name}#1_2sdpa"
    rows = group[group.index(first) + 1 : -2]
    attended = _attend(graph, group, rows, parts, name, query)
    back = graph.transpose(attended, (0, 3, 2, 1), f"{attended}_tp", before=last)
    graph.reshape(back, graph.shape(result), f"{back}_rs", result, before=last)
    for node in group:
        graph.remove(node)


def _scale(graph: LoweringGraph, tensor: str, reader: Node) -> Node | None:
    """A factor of one number before the scores that goes into no weight: attention takes it."""
    maker = graph.maker(tensor, "Mul", "Div")
    if maker is None or graph.only_reader(tensor) is not reader:
        return None
    consts = [name for name in maker.inputs if graph.is_const(name)]
    if len(consts) != 1 or not graph.is_number(consts[0]) or _foldable(graph, maker):
        return None
    return maker


def _foldable(graph: LoweringGraph, scale: Node) -> bool:
    """Whether a scale goes into the weight of the matrix that it follows."""
    data = graph.feature(scale)
    for _ in range(4):
        maker = graph.maker(data, "Add", "MatMul", "Reshape", "Transpose", alone=True)
        if maker is None:
            return False
        if maker.op == "MatMul":
            return any(graph.is_const(tensor) for tensor in maker.inputs)
        data = graph.feature(maker)
    return False


def _turned(graph: LoweringGraph, tensor: str, before: Node) -> str:
    """(..., N, K) as (B, K, 1, N)."""
    shape = graph.shape(tensor)
    rank = len(shape)
    turned = graph.transpose(tensor, (*range(rank - 2), rank - 1, rank - 2), before=before)
    wide = (math.prod(shape[:-2]), shape[-1], 1, shape[-2])
    return graph.reshape(turned, wide, before=before)
