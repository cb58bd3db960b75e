"""Convolutions in groups."""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context

__all__ = ["mark_depthwise"]


def mark_depthwise(graph: LoweringGraph, context: Context) -> None:
    """One filter a channel: the compiler prints its weight as (1, C, kh, kw)."""
    for node in graph:
        if node.op != "Conv" or len(node.inputs) < 2:
            continue
        weight = graph.tensors[node.inputs[1]]
        channels = graph.shape(node.inputs[0])[1:2]
        group = node.int("group", 1)
        if group > 1 and len(weight.shape) == 4 and (group,) == channels == weight.shape[:1]:
            node.attributes["depthwise"] = 1
            shape = (1, group, *weight.shape[2:])
            graph.add_tensor(weight.name, shape, weight.dtype, weight.values)
