"""What the output stage of a layer does beside its work: activations and sums."""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["fuse_activations", "fuse_sums"]

_SUFFIX = {
    "Clip": "Clip",
    "Elu": "Elu",
    "HardSigmoid": "HardSigmoid",
    "HardSwish": "HardSwish",
    "LeakyRelu": "LeakyRelu",
    "PRelu": "PRelu",
    "Relu": "Relu",
    "Sigmoid": "Sigmoid",
    "Softplus": "Softplus",
    "Tanh": "Tanh",
    "exGelu": "ExGelu",
    "exSwish": "ExSwish",
}
"""Operator -> how the compiler prints it behind the layer that does it."""

_SMALL_CHIPS = {
    "rv1106b": frozenset({"Clip", "LeakyRelu", "Relu"}),
    "rk2118": frozenset({"Clip", "LeakyRelu", "PRelu", "Relu"}),
}
"""Families whose output stage has no table of a function: what it can do."""

_NO_SUM = frozenset({"rk2118"})
"""Families whose output stage adds no feature."""

_BEFORE_SUM = frozenset({"Relu", "LeakyRelu"})
"""Activations behind which a convolution can still add."""


def fuse_activations(graph: LoweringGraph, context: Context) -> None:
    """Conv and ConvTranspose + activation."""
    for node in graph:
        if node.op not in ("Conv", "ConvTranspose") or node.fused:
            continue
        follower = graph.only_reader(node.outputs[0])
        if follower is not None and follower.op in _SUFFIX and _can_do(node, follower, context):
            graph.absorb(node, follower, fused=_SUFFIX[follower.op])
            _take_slopes(graph, node, follower)
            graph.rewrites["fuse_activation"] += 1


def fuse_sums(graph: LoweringGraph, context: Context) -> None:
    """Add + Relu; Conv + Add of a feature of the same shape, with a Relu behind it."""
    order = {node: at for at, node in enumerate(graph)}
    for node in order:
        if node.op != "Add" or len(graph.features(node)) != 2:
            continue
        follower = graph.only_reader(node.outputs[0])
        if follower is not None and follower.op == "Relu":
            graph.absorb(node, follower, fused="Relu")
        home = _home(graph, node, order) if context.family not in _NO_SUM else None
        if home is not None:
            _into(graph, home, node)
            graph.rewrites["fuse_conv_add"] += 1
        elif node.fused:
            node.name += "_AddRelu"


def _can_do(node: Node, follower: Node, context: Context) -> bool:
    if node.op == "ConvTranspose":
        return follower.op in ("Relu", "Sigmoid")
    return follower.op in _SMALL_CHIPS.get(context.family, _SUFFIX)


def _take_slopes(graph: LoweringGraph, node: Node, follower: Node) -> None:
    if follower.op == "PRelu":
        graph.rewire(node, inputs=[*node.inputs, *follower.inputs[1:]])


def _home(graph: LoweringGraph, node: Node, order: dict[Node, int]) -> Node | None:
    """The convolution that takes an Add in: of two the one that runs later."""
    first, second = node.inputs
    if first == second or graph.shape(first) != graph.shape(second):
        return None
    makers = [graph.producer(each) for each in (first, second)]
    fitting = [
        maker
        for maker in makers
        if maker is not None
        and maker.op == "Conv"
        and graph.only_reader(maker.outputs[0]) is node
        and (not maker.fused or (maker.fused[0] in _BEFORE_SUM and len(maker.fused) == 1))
        and not (maker.fused and node.fused)
    ]
    if len(fitting) == 2:
        return max(fitting, key=order.__getitem__)
    return fitting[0] if fitting else None


def _into(graph: LoweringGraph, home: Node, node: Node) -> None:
    other = next(each for each in node.inputs if each != home.outputs[0])
    plain = not home.fused
    graph.remove(home)
    graph.insert(home, before=node)
    graph.absorb(home, node, fused="Add" + "".join(node.fused))
    graph.rewire(home, inputs=[*home.inputs, other])
    if plain:
        home.name += "_ConvAdd" + "".join(node.fused)
