"""What the vendor's compiler is known to crash at: told before it is asked.

Seen with rknn-toolkit2 2.3.2 and int8 files with parameters of their own, as this program hands
them over: attention whose scores go from one product of matrices into Softmax as they are ends in
SIGSEGV at ``optimization_level`` 3, on every family with a fused attention (rk3562, rk3576, rk3588,
rv1106 and rv1126b; asked in three and four dimensions, with a scale of the queries and without).
With a scale or a mask between them, at level 2, in float16, and on rk3566 and rv1103b it compiles.

``op_target`` is known to do nothing to an operator whose output has not four dimensions. The
compiler puts a Reshape around it at every level, and the name goes to that one; in a file without
Q/DQ it then refuses the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.cost.lowering.attention import NO_ATTENTION
from engine.facts.npu import NpuDtype

if TYPE_CHECKING:
    from engine.cost.lowered import Node
    from engine.cost.lowering.graph import LoweringGraph

OP_TARGET_RANK = 4
"""Dimensions of the tensors that ``op_target`` has an effect on."""
_PLAIN = frozenset({"Cast", "Dropout", "Identity"})
"""What does nothing to the scores."""


def known_crashes(
    graph: LoweringGraph, family: str, dtype: NpuDtype, own: Mapping[str, NpuDtype]
) -> tuple[str, ...]:
    """Sentences on what of a model crashes the compiler, and what to do.

    Args:
        graph: as it was read, without Q/DQ.
        family: of the chip.
        dtype: of the model.
        own: source node -> dtype, of layers that have another one.
    """
    if family in NO_ATTENTION:
        return ()
    names = [
        node.name
        for node in graph
        if node.op == "Softmax"
        and own.get(node.name, dtype) == "int8"
        and _is_product(graph, node)
        and any(reader.op == "MatMul" for reader in graph.readers(node.outputs[0]))
    ]
    if not names:
        return ()
    layers = f"{len(names)} attention layer{'s' if len(names) > 1 else ''}"
    warning = (
        f"rknn-toolkit2 2.3.2 crashes at optimization_level 3 with {layers} without a scale or mask"
        f" before Softmax (the first is {names[0]}). `compile` then takes level 2 by itself;"
        " optimization_level 2 in the recipe, or a scale between MatMul and Softmax, avoids it."
    )
    return (warning,)


def _is_product(graph: LoweringGraph, softmax: Node) -> bool:
    """Whether a Softmax reads a product of two features, along its last axis."""
    shape = graph.shape(softmax.inputs[0])
    if len(shape) < 3 or softmax.int("axis", -1) % len(shape) != len(shape) - 1:
        return False
    maker = graph.producer(softmax.inputs[0])
    while maker is not None and maker.op in _PLAIN:
        maker = graph.producer(maker.inputs[0])
    return maker is not None and maker.op == "MatMul" and len(graph.features(maker)) == 2


def targets_with_effect(
    graph: LoweringGraph, targets: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The entries of ``op_target`` that the compiler follows, and a sentence on the others.

    Args:
        graph: as it was read, without Q/DQ.
        targets: source node -> where it is asked to run.
    """
    idle = [
        node.name
        for node in graph
        if node.name in targets and len(graph.shape(node.outputs[0])) != OP_TARGET_RANK
    ]
    if not idle:
        return dict(targets), ()
    warning = (
        f"op_target has no effect on {idle[0]}"
        f"{f' and {len(idle) - 1} more' if len(idle) > 1 else ''}: the output has not four "
        "dimensions, and rknn-toolkit2 moves the name to a Reshape. Take it out of op_target, or "
        "write the operator in four dimensions."
    )
    return {name: target for name, target in targets.items() if name not in idle}, (warning,)
