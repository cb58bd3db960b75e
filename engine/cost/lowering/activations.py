"""Activations that the graph writes as several nodes become one of the compiler's."""

from __future__ import annotations

import math

from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.node import Node
from engine.cost.lowering.rules import Context, on


@on("Sigmoid")
def make_swish(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * sigmoid(x)`` -> ``exSwish``, named ``_2swish`` behind the Sigmoid."""
    _gate(graph, node, [node], "exSwish", "2swish")


@on("HardSigmoid")
def make_hardswish(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * hardsigmoid(x)`` -> ``HardSwish``, named ``_2hardswish`` behind the HardSigmoid."""
    sixth = math.isclose(_number(node, "alpha", 0.2), 1 / 6, rel_tol=1e-3)
    if sixth and _number(node, "beta", 0.5) == 0.5:
        _gate(graph, node, [node], "HardSwish", "2hardswish")


@on("Softplus")
def make_mish(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * tanh(softplus(x))`` -> ``exMish``, named ``_2exmish`` behind the Softplus."""
    curve = graph.reader(node.outputs[0], "Tanh")
    if curve is not None:
        _gate(graph, node, [node, curve], "exMish", "2exmish")


@on("Add")
def make_written_hardswish(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * clip(x + 3, 0, 6) / 6`` -> ``HardSwish``, named ``_2hs`` behind the Add."""
    clip = graph.reader(node.outputs[0], "Clip")
    first = graph.only_reader(clip.outputs[0]) if clip is not None else None
    second = graph.only_reader(first.outputs[0]) if first is not None else None
    if clip is None or first is None or second is None or not _holds(graph, node, 3):
        return
    x, _ = graph.operands(node)
    product, scale = (first, second) if x in first.inputs else (second, first)
    if (
        [graph.number(tensor) for tensor in clip.inputs[1:3] if tensor] == [0, 6]
        and product.op == "Mul"
        and x in product.inputs
        and len(set(product.inputs)) == 2
        and scale.op in ("Div", "Mul")
        and _holds(graph, scale, 6 if scale.op == "Div" else 1 / 6)
    ):
        graph.rewire(node, inputs=[x])
        _become(graph, [node, clip, first, second], "HardSwish", "2hs")


def _gate(graph: LoweringGraph, node: Node, curve: list[Node], op: str, suffix: str) -> None:
    """Join ``f(x) * x`` into one node where nobody else reads ``f(x)``, the last of a curve."""
    product = graph.reader(curve[-1].outputs[0], "Mul")
    gated = sorted((node.inputs[0], curve[-1].outputs[0]))
    if product is not None and sorted(product.inputs) == gated:
        _become(graph, [*curve, product], op, suffix)


def _become(graph: LoweringGraph, chain: list[Node], op: str, suffix: str) -> None:
    """Take a chain of nodes into its first."""
    node, *followers = chain
    for follower in followers:
        graph.absorb(node, follower)
    graph.become(node, op, f"{node.name}_{suffix}", inputs=node.inputs[:1], attributes={})


def _holds(graph: LoweringGraph, node: Node, number: float) -> bool:
    """Whether a node of two inputs has one constant, this number; of a Div what divides."""
    data, other = graph.operands(node)
    value = graph.number(other) if node.op != "Div" or node.inputs[0] == data else None
    return value is not None and math.isclose(value, number, rel_tol=1e-3)


def _number(node: Node, name: str, default: float) -> float:
    value = node.attributes.get(name)
    return float(value) if isinstance(value, int | float) else default
