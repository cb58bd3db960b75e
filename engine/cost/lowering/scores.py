"""Attention of several in a batch on families that have no fused one: heads count as batches."""

from __future__ import annotations

import math

import numpy as np

from engine.cost.lowering.attention import NO_ATTENTION, attention_group
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.node import Node
from engine.cost.lowering.rules import Context

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
    order = graph.add_unknown(f"{label}_gather_i1", (wide[0],), "int64")
    gathered = graph.add_tensor(graph.unique(f"{label}_gather"), wide, dtype)
    graph.put(
        "Gather",
        f"{label}_gather",
        [data, order],
        [gathered],
        {"axis": 0},
        before=split,
        sources=(*view.sources, *split.sources),
    )
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
