"""Activations that the graph writes as several nodes become one of the compiler's."""

from __future__ import annotations

import math
from math import prod

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["make_hardswish", "make_mish", "make_swish", "make_written_hardswish"]


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


def make_mish(graph: LoweringGraph, context: Context) -> None:
    """``x * tanh(softplus(x))`` -> ``exMish``, named ``_2exmish`` behind the Softplus."""
    for node in graph:
        if node.op != "Softplus":
            continue
        curve = graph.only_reader(node.outputs[0])
        product = graph.only_reader(curve.outputs[0]) if curve is not None else None
        if (
            curve is None
            or product is None
            or curve.op != "Tanh"
            or product.op != "Mul"
            or sorted(product.inputs) != sorted((node.inputs[0], curve.outputs[0]))
        ):
            continue
        _become(graph, node, [curve, product], "exMish", "2exmish")
        graph.rewrites["replace_softplus_tanh_mul_by_exmish"] += 1


def make_written_hardswish(graph: LoweringGraph, context: Context) -> None:
    """``x * clip(x + 3, 0, 6) / 6`` -> ``HardSwish``, named ``_2hs`` behind the Add."""
    for node in graph:
        if node.op != "Add" or not _holds(graph, node, 3):
            continue
        x = graph.features(node)[0]
        clip = graph.only_reader(node.outputs[0])
        if clip is None or clip.op != "Clip" or _bounds(graph, clip) != (0, 6):
            continue
        first = graph.only_reader(clip.outputs[0])
        second = graph.only_reader(first.outputs[0]) if first is not None else None
        if first is None or second is None:
            continue
        product, scale = (first, second) if x in first.inputs else (second, first)
        if (
            product.op == "Mul"
            and x in product.inputs
            and len(set(product.inputs)) == 2
            and (
                (scale.op == "Div" and _holds(graph, scale, 6))
                or (scale.op == "Mul" and _holds(graph, scale, 1 / 6))
            )
        ):
            graph.rewire(node, inputs=[x])
            _become(graph, node, [clip, first, second], "HardSwish", "2hs")
            graph.rewrites["replace_torch_hardswish"] += 1


def _become(graph: LoweringGraph, node: Node, followers: list[Node], op: str, suffix: str) -> None:
    """Take a chain of nodes into its first."""
    for each in followers:
        graph.remove(each)
        node.sources = (*node.sources, *each.sources)
    graph.rewire(node, inputs=node.inputs[:1], outputs=list(followers[-1].outputs))
    node.op = node.kind = op
    node.attributes = {}
    node.name = f"{node.name}_{suffix}"


def _holds(graph: LoweringGraph, node: Node, number: float) -> bool:
    """Whether a node of two inputs has one constant, this number."""
    if len(node.inputs) != 2 or len(graph.features(node)) != 1:
        return False
    if node.op == "Div" and graph.is_const(node.inputs[0]):
        return False
    constant = next(each for each in node.inputs if graph.is_const(each))
    if prod(graph.shape(constant)) != 1:
        return False
    array = graph.array(constant)
    return array is not None and math.isclose(float(array.reshape(-1)[0]), number, rel_tol=1e-3)


def _bounds(graph: LoweringGraph, node: Node) -> tuple[float, ...]:
    found = []
    for name in node.inputs[1:3]:
        array = graph.array(name) if name and prod(graph.shape(name)) == 1 else None
        if array is None:
            return ()
        found.append(float(array.reshape(-1)[0]))
    return tuple(found)


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
