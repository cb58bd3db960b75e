"""Activations that the graph writes as several nodes become one of the compiler's."""

from __future__ import annotations

import math

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["make_hardswish", "make_swish"]


def make_swish(graph: LoweringGraph, context: Context) -> None:
    """``x * sigmoid(x)`` -> ``exSwish``, named ``_2swish`` behind the Sigmoid."""
    for node in graph:
        if node.op == "Sigmoid" and _gate(graph, node, "exSwish", "2swish"):
            graph.rewrites["fuse_sigmoid_mul_to_swish"] += 1


def make_hardswish(graph: LoweringGraph, context: Context) -> None:
    """``x * hardsigmoid(x)`` -> ``HardSwish``, named ``_2hardswish`` behind the HardSigmoid."""
    for node in graph:
        if (
            node.op == "HardSigmoid"
            and math.isclose(_number(node, "alpha", 0.2), 1 / 6, rel_tol=1e-3)
            and _number(node, "beta", 0.5) == 0.5
            and _gate(graph, node, "HardSwish", "2hardswish")
        ):
            graph.rewrites["fuse_hardsigmoid_mul_to_hardswish"] += 1


def _gate(graph: LoweringGraph, node: Node, op: str, suffix: str) -> bool:
    """Join ``f(x) * x`` into one node where nobody else reads ``f(x)``."""
    follower = graph.only_reader(node.outputs[0])
    if follower is None or follower.op != "Mul":
        return False
    if sorted(follower.inputs) != sorted((node.inputs[0], node.outputs[0])):
        return False
    x = node.inputs[0]
    graph.remove(follower)
    graph.rewire(node, inputs=[x], outputs=list(follower.outputs))
    node.op = node.kind = op
    node.name = f"{node.name}_{suffix}"
    node.sources = (*node.sources, *follower.sources)
    return True


def _number(node: Node, name: str, default: float) -> float:
    value = node.attributes.get(name)
    return float(value) if isinstance(value, int | float) else default
