"""Attention of several in a batch on families that have no fused one: heads count as batches."""

from __future__ import annotations

import math

import numpy as np

from engine.cost.lowering.attention import NO_ATTENTION, attention_group
from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["flatten_scores"]

_LOOKED_AT = 1 << 20
"""Elements of a mask whose numbers are looked at: one of zeros does nothing."""


def flatten_scores(graph: LoweringGraph, context: Context) -> None:
    """Scores (B, heads, M, N) are computed as (B * heads, M, N), scale and mask with them."""
    if context.family not in NO_ATTENTION:
        return
    for node in graph:
        group = attention_group(graph, node) if node.op == "Softmax" else None
        if group is None or len(graph.shape(node.inputs[0])) != 4:
            continue
        group = _without_zeros(graph, group)
        if _fits(graph, group):
            _split_rows(graph, group)
            _flatten(graph, group)
            _turn_first(graph, group[0])
            graph.rewrites["swap_reshape_softmax"] += 1


def _without_zeros(graph: LoweringGraph, group: list[Node]) -> list[Node]:
    """The group without a mask of zeros."""
    for node in group:
        mask = node.inputs[1] if node.op == "Add" else ""
        if not mask or not graph.is_const(mask) or math.prod(graph.shape(mask)) > _LOOKED_AT:
            continue
        if graph.tensors[mask].filled:
            continue
        array = graph.array(mask)
        if array is None or array.any() or not graph.bypass(node):
            continue
        graph.rewrites["remove_invalid_add"] += 1
        return [each for each in group if each is not node]
    return group


def _fits(graph: LoweringGraph, group: list[Node]) -> bool:
    """Whether there are several in the batch, and nothing is spread over them but constants."""
    batch, heads = graph.shape(group[0].outputs[0])[:2]
    for node in (group[0], group[-1]):
        for each in node.inputs:
            if graph.shape(each)[:2] != (batch, heads):
                return False
    scores = graph.shape(group[0].outputs[0])
    for node in group[1:-2]:
        other = node.inputs[1]
        if not graph.is_const(other) and graph.shape(other) != scores:
            return False
    return batch > 1


def _turn_first(graph: LoweringGraph, product: Node) -> None:
    """Queries are turned for a product before they are multiplied with one number."""
    view = graph.producer(product.inputs[0])
    scale = graph.producer(view.inputs[0]) if view is not None else None
    if view is None or scale is None or scale.op != "Mul" or len(scale.inputs) != 2:
        return
    if graph.only_reader(view.inputs[0]) is not view or graph.only_reader(view.outputs[0]) is None:
        return
    factors = [each for each in scale.inputs if graph.is_const(each)]
    if len(factors) != 1 or math.prod(graph.shape(factors[0])) != 1:
        return
    (data,) = (each for each in scale.inputs if each not in factors)
    query, flat = scale.outputs[0], view.outputs[0]
    turned = graph.transpose(data, (0, 1, 3, 2), graph.unique(f"{query}_tp"), before=scale)
    batch, rows, depth = graph.shape(flat)
    shape = (batch, depth, rows)
    wide = graph.reshape(turned, shape, before=scale)
    made = graph.like(query, shape, f"{query}_sw")
    graph.remove(view)
    graph.rewire(scale, inputs=[wide, *factors], outputs=[made])
    graph.transpose(made, (0, 2, 1), flat, before=product)
    graph.rewrites["swap_mul_transpose"] += 1


def _flatten(graph: LoweringGraph, group: list[Node]) -> None:
    first, last = group[0], group[-1]
    count = math.prod(graph.shape(first.outputs[0])[:2])
    for node in group:
        inputs = []
        for each in node.inputs:
            shape = graph.shape(each)
            if any(maker is graph.producer(each) for maker in group if maker is not node):
                inputs.append(each)  # changed already
            elif graph.is_const(each):
                whole = graph.shape(node.outputs[0])
                inputs.append(_flat_const(graph, each, whole) if math.prod(shape) > 1 else each)
            else:
                flat = (count, *shape[2:])
                name = graph.unique(f"{each}_rs")
                inputs.append(graph.reshape(each, flat, name, before=node))
        result = node.outputs[0]
        whole = graph.shape(result)
        flat = (count, *whole[2:])
        dtype = graph.tensors[result].dtype
        if node is last:
            node.attributes["batched"] = 1
            made = graph.add_tensor(graph.unique(f"{result}_sw"), flat, dtype)
            following = graph.following(node)
            graph.rewire(node, inputs=inputs, outputs=[made])
            graph.reshape(made, whole, f"{made}_rs", result, before=following)
        else:
            graph.rewire(node, inputs=inputs)
            graph.add_tensor(result, flat, dtype)
        if node.op == "Softmax":
            node.attributes["axis"] = -1


def _flat_const(graph: LoweringGraph, tensor: str, whole: tuple[int, ...]) -> str:
    """A mask for each of all heads."""
    kept = graph.tensors[tensor]
    if math.prod(kept.shape[:-2]) == 1:
        whole = (1, 1, *(1, 1, *kept.shape)[-2:])
    shape = (whole[0] * whole[1], *whole[2:])

    def spread() -> np.ndarray:
        array = kept.values() if kept.values is not None else np.zeros(())
        return np.broadcast_to(array, whole).reshape(shape)

    return graph.add_tensor(graph.unique(f"{tensor}_sw"), shape, kept.dtype, spread)


def _split_rows(graph: LoweringGraph, group: list[Node]) -> None:
    """Queries, keys and values that a Split takes of each head: a Gather puts them in order.

    (B, N, heads, 3 D) is seen as (B * heads * 3, D, 1, N), ordered by part and split there.
    """
    turns = [graph.producer(each) for each in (*group[0].inputs[:2], group[-1].inputs[1])]
    ways = [(0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)]
    split: Node | None = None
    for turn, way in zip(turns, ways, strict=True):
        if turn is None or turn.op != "Transpose" or turn.ints("perm") != way:
            return
        if graph.only_reader(turn.inputs[0]) is not turn:
            return
        if graph.only_reader(turn.outputs[0]) not in group:
            return
        maker = graph.producer(turn.inputs[0])
        if maker is None or maker.op != "Split" or split not in (None, maker):
            return
        split = maker
    if split is None or len(split.outputs) != 3 or split.int("axis") not in (-1, 3):
        return
    view = graph.producer(split.inputs[0])
    if view is None or view.op != "Reshape" or graph.only_reader(view.outputs[0]) is not split:
        return
    parts = {graph.shape(each) for each in split.outputs}
    if len(parts) == 1 and len(graph.shape(view.outputs[0])) == 4:
        _gather(graph, view, split, [each for each in turns if each is not None])


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
    order = graph.add_unknown(f"{label}_gather_i1", (wide[0],), "int64")
    made = graph.add_tensor(graph.unique(f"{label}_gather"), wide, dtype)
    graph.put(
        "Gather",
        f"{label}_gather",
        [data, order],
        [made],
        {"axis": 0},
        before=split,
        sources=(*view.sources, *split.sources),
    )
    part = (batch * heads, depth, 1, rows)
    outputs = list(split.outputs)
    pieces = [graph.add_tensor(graph.unique(f"{each}_sw"), part, dtype) for each in outputs]
    graph.rewire(split, inputs=[made, *split.inputs[1:]], outputs=pieces)
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
    graph.rewrites["reduce_reshape_op_around_split"] += 1
