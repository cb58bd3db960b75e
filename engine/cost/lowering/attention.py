"""Attention: two matrices with a Softmax between them, fused where the family can."""

from __future__ import annotations

import math

import numpy as np

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on

NO_ATTENTION = frozenset({"rk3566", "rk2118", "rv1106b"})
"""Families without the fused attention."""


@on("Reshape")
def join_masks(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Two constants that are added to scores, the second in five dimensions, are one."""
    second = graph.maker(node.inputs[0], "Add", alone=True)
    if second is None or graph.reader(node.outputs[0], "Softmax") is None:
        return
    view = graph.maker(graph.operands(second)[0], "Reshape", alone=True)
    first = graph.maker(view.inputs[0], "Add", alone=True) if view is not None else None
    if view is None or first is None:
        return
    x, _ = graph.operands(first)
    if not x or graph.shape(x) != graph.shape(node.outputs[0]):
        return
    graph.remove(view)
    graph.remove(second)
    mask = graph.add_unknown(f"{second.name}_i1", graph.shape(x), graph.tensors[x].dtype)
    first.sources = (*first.sources, *second.sources)
    graph.rewire(first, inputs=[x, mask], outputs=list(node.outputs))
    graph.remove(node)


@on("Softmax")
def make_attention(graph: LoweringGraph, node: Node, context: Context) -> None:
    """MatMul, scale, mask, Softmax, MatMul of four dimensions -> exSDPAttention, ``_2sdpa``."""
    group = attention_group(graph, node) if context.family not in NO_ATTENTION else None
    if group is not None and len(graph.shape(node.inputs[0])) == 4:
        _sdpa(graph, group)


@on("Softmax")
def make_other_attention(graph: LoweringGraph, node: Node, context: Context) -> None:
    """The forms that the compiler finds when matrices are exMatMul already: ``#1_2sdpa``."""
    if context.family in NO_ATTENTION:
        return
    group = attention_group(graph, node)
    turned = _turned_attention(graph, node) if group is None else None
    if group is not None:
        _sdpa(graph, group)
    elif turned is not None:
        _turned_sdpa(graph, turned)


def attention_group(graph: LoweringGraph, softmax: Node) -> list[Node] | None:
    """MatMul, scale, mask, Softmax, MatMul around a Softmax; None where it stands elsewhere."""
    last = graph.reader(softmax.outputs[0], "MatMul")
    if last is None or last.inputs[0] != softmax.outputs[0] or graph.is_const(last.inputs[1]):
        return None
    before = _scores(graph, softmax)
    return [*before, last] if before is not None else None


def _scores(graph: LoweringGraph, softmax: Node) -> list[Node] | None:
    """The product of two features, its scale and its mask up to the Softmax of its rows."""
    rank = len(graph.shape(softmax.inputs[0]))
    if rank < 3 or softmax.int("old") or softmax.int("axis", -1) % rank != rank - 1:
        return None
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
    turn = graph.reader(softmax.outputs[0], "Transpose")
    last = graph.reader(turn.outputs[0], "MatMul") if turn is not None else None
    if turn is None or last is None or last.inputs[1] != turn.outputs[0]:
        return None
    if turn.ints("perm") != _rows_and_columns(len(graph.shape(turn.outputs[0]))):
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
    attended = _attend(graph, group, rows, parts, f"{last.name}#1_2sdpa")
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
) -> str:
    """The fused layer over query, key and value, and what is done to each row of scores."""
    last = group[-1]
    for node in rows:
        other = node.inputs[1]
        parts.append(other if graph.is_const(other) else _turned(graph, other, last))
    heads, depth = graph.shape(parts[2])[:2]
    shape = (heads, depth, 1, graph.shape(parts[0])[3])
    attended = f"{last.outputs[0]}_sdpa"
    sources = tuple(source for node in group for source in node.sources)
    return graph.write("exSDPAttention", name, parts, shape, attended, before=last, sources=sources)


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
    attended = _attend(graph, group, rows, parts, name)
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


def _rows_and_columns(rank: int) -> tuple[int, ...]:
    """The axes of matrices that are turned."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _turned(graph: LoweringGraph, tensor: str, before: Node) -> str:
    """(..., N, K) as (B, K, 1, N)."""
    shape = graph.shape(tensor)
    turned = graph.transpose(tensor, _rows_and_columns(len(shape)), before=before)
    wide = (math.prod(shape[:-2]), shape[-1], 1, shape[-2])
    return graph.reshape(turned, wide, before=before)


# Attention of several in a batch on families that have no fused one: heads count as batches.

_LOOKED_AT = 1 << 20
"""Elements of a mask whose numbers are looked at: one of zeros does nothing."""


@on("Softmax")
def flatten_scores(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Scores (B, heads, M, N) are computed as (B * heads, M, N), scale and mask with them."""
    group = attention_group(graph, node) if context.family in NO_ATTENTION else None
    if group is None or len(graph.shape(node.inputs[0])) != 4:
        return
    group = _without_zeros(graph, group)
    if _fits(graph, group):
        _split_rows(graph, group)
        _flatten(graph, group)
        _turn_first(graph, group[0])


def _without_zeros(graph: LoweringGraph, group: list[Node]) -> list[Node]:
    """The group without a mask of zeros."""
    for node in group:
        mask = node.inputs[1] if node.op == "Add" and graph.is_const(node.inputs[1]) else ""
        if not mask or graph.tensors[mask].filled or math.prod(graph.shape(mask)) > _LOOKED_AT:
            continue
        array = graph.array(mask)
        if array is not None and not array.any() and graph.bypass(node):
            return [member for member in group if member is not node]
    return group


def _fits(graph: LoweringGraph, group: list[Node]) -> bool:
    """Whether there are several in the batch, and nothing is spread over them but constants."""
    scores = graph.shape(group[0].outputs[0])
    ends = (tensor for node in (group[0], group[-1]) for tensor in node.inputs)
    others = [node.inputs[1] for node in group[1:-2]]
    return (
        scores[0] > 1
        and all(graph.shape(tensor)[:2] == scores[:2] for tensor in ends)
        and all(graph.is_const(tensor) or graph.shape(tensor) == scores for tensor in others)
    )


def _turn_first(graph: LoweringGraph, product: Node) -> None:
    """Queries are turned for a product before they are multiplied with one number."""
    view = graph.maker(product.inputs[0], alone=True)
    scale = graph.maker(view.inputs[0], "Mul", alone=True) if view is not None else None
    data, factor = graph.operands(scale) if scale is not None else ("", "")
    if view is None or scale is None or not graph.is_number(factor):
        return
    query, flat = scale.outputs[0], view.outputs[0]
    turned = graph.transpose(data, (0, 1, 3, 2), graph.unique(f"{query}_tp"), before=scale)
    batch, rows, depth = graph.shape(flat)
    shape = (batch, depth, rows)
    wide = graph.reshape(turned, shape, before=scale)
    scaled = graph.like(query, shape, f"{query}_sw")
    graph.remove(view)
    graph.rewire(scale, inputs=[wide, factor], outputs=[scaled])
    graph.transpose(scaled, (0, 2, 1), flat, before=product)


def _flatten(graph: LoweringGraph, group: list[Node]) -> None:
    first, last = group[0], group[-1]
    count = math.prod(graph.shape(first.outputs[0])[:2])
    for node in group:
        result = node.outputs[0]
        whole = graph.shape(result)
        inputs = []
        for tensor in node.inputs:
            if any(maker is graph.producer(tensor) for maker in group if maker is not node):
                inputs.append(tensor)  # changed already
            elif graph.is_const(tensor):
                inputs.append(
                    tensor if graph.is_number(tensor) else _flat_const(graph, tensor, whole)
                )
            else:
                flat = (count, *graph.shape(tensor)[2:])
                inputs.append(graph.reshape(tensor, flat, before=node))
        flat = (count, *whole[2:])
        if node is last:
            node.attributes["batched"] = 1
            following = graph.following(node)
            flattened = graph.like(result, flat, f"{result}_sw")
            graph.rewire(node, inputs=inputs, outputs=[flattened])
            graph.reshape(flattened, whole, f"{flattened}_rs", result, before=following)
        else:
            graph.rewire(node, inputs=inputs)
            graph.add_tensor(result, flat, graph.tensors[result].dtype)
        if node.op == "Softmax":
            node.attributes["axis"] = -1


def _flat_const(graph: LoweringGraph, tensor: str, whole: tuple[int, ...]) -> str:
    """A mask for each of all heads."""
    own = graph.shape(tensor)
    if math.prod(own[:-2]) == 1:
        whole = (1, 1, *(1, 1, *own)[-2:])
    shape = (whole[0] * whole[1], *whole[2:])

    def spread(array: np.ndarray) -> np.ndarray:
        return np.broadcast_to(array, whole).reshape(shape)

    return graph.reshaped(tensor, shape, graph.unique(f"{tensor}_sw"), spread)


def _split_rows(graph: LoweringGraph, group: list[Node]) -> None:
    """Queries, keys and values that a Split takes of each head: a Gather puts them in order.

    (B, N, heads, 3 D) is seen as (B * heads * 3, D, 1, N), ordered by part and split there.
    """
    turns = [graph.producer(tensor) for tensor in (*group[0].inputs[:2], group[-1].inputs[1])]
    ways = [(0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)]
    makers: set[Node | None] = set()
    for turn, way in zip(turns, ways, strict=True):
        if turn is None or turn.op != "Transpose" or turn.ints("perm") != way:
            return
        if graph.only_reader(turn.outputs[0]) not in group:
            return
        makers.add(graph.maker(turn.inputs[0], "Split", alone=True))
    split = makers.pop()
    if makers or split is None or len(split.outputs) != 3 or split.int("axis") not in (-1, 3):
        return
    view = graph.maker(split.inputs[0], "Reshape", alone=True)
    parts = {graph.shape(output) for output in split.outputs}
    if view is not None and len(parts) == 1 and len(graph.shape(view.outputs[0])) == 4:
        _gather(graph, view, split, [turn for turn in turns if turn is not None])


def _gather(graph: LoweringGraph, view: Node, split: Node, turns: list[Node]) -> None:
    x = view.inputs[0]
    batch, rows, heads, depth = graph.shape(split.outputs[0])
    count = len(split.outputs)
    dtype = graph.tensors[x].dtype
    wide = (batch * heads * count, depth, 1, rows)
    label = f"{view.outputs[0]}_tp"
    flat = (batch, rows, count * heads * depth)
    if graph.shape(x) != flat:
        x = graph.reshape(x, flat, graph.unique(f"{label}_in"), before=split)
    turned = graph.transpose(x, (0, 2, 1), graph.unique(label), before=split)
    data = graph.reshape(turned, wide, view.name, graph.unique(f"{label}_rs"), before=split)
    name, sources = f"{label}_gather", (*view.sources, *split.sources)
    inputs = [data, graph.add_unknown(f"{name}_i1", (wide[0],), "int64")]
    gathered = graph.unique(name)
    graph.write("Gather", name, inputs, wide, gathered, {"axis": 0}, before=split, sources=sources)
    part = (batch * heads, depth, 1, rows)
    outputs = list(split.outputs)
    pieces = [graph.add_tensor(graph.unique(f"{output}_sw"), part, dtype) for output in outputs]
    graph.rewire(split, inputs=[gathered, *split.inputs[1:]], outputs=pieces)
    split.attributes["axis"] = 0
    for turn in turns:
        piece = pieces[outputs.index(turn.inputs[0])]
        result = turn.outputs[0]
        whole = graph.shape(result)
        if turn.ints("perm") != (0, 2, 3, 1):
            name = graph.unique(f"{turn.inputs[0]}_tp")
            piece = graph.transpose(piece, (0, 3, 2, 1), name, before=turn)
        graph.reshape(piece, whole, result, before=turn)
        graph.remove(turn)
    graph.remove(view)
