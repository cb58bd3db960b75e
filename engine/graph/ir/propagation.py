"""Whether ONNX's inference may carry constants through a graph.

Its data propagation holds the sizes that a graph computes (Shape, Gather, Concat ...), an object an
element. A chain of Concat that each read their input twice makes a billion of them from a file of 1
KB, so the elements are counted first; real models carry some dozens.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import onnx

__all__ = ["carries_little"]

MAX_CARRIED = 1 << 18
"""Elements of all carried tensors together (about 80 bytes each)."""

_MAX_RANK = 64


def carries_little(proto: onnx.ModelProto) -> bool:
    """Whether inference with data propagation holds few elements; one walk over the nodes.

    Counted is the worst case: every operator carries what it reads, Concat all of it.
    """
    # nothing else makes more elements than it reads
    if not any(node.op_type == "Concat" for node in _nodes(proto.graph)):
        return True
    counts: dict[str, int] = {}
    for tensor in proto.graph.initializer:
        if len(tensor.dims) < 2:
            counts[tensor.name] = prod(tensor.dims)
    carried = 0
    for node in _nodes(proto.graph):
        count = _count(node, counts)
        if count is None:
            continue
        for name in node.output:
            counts[name] = count
            carried += count
        if carried > MAX_CARRIED:
            return False
    return True


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else []
            for part in (*inner, *attribute.graphs):
                yield from _nodes(part)
        yield node


def _count(node: onnx.NodeProto, counts: dict[str, int]) -> int | None:
    """Elements that a node's output may carry; None where it carries nothing."""
    if node.op_type in ("Shape", "Size"):
        return _MAX_RANK
    if node.op_type == "Constant":
        return max((_literal(attribute) for attribute in node.attribute), default=0)
    known = [counts[name] for name in node.input if name in counts]
    if node.op_type == "Concat":
        return sum(known) if len(known) == len(node.input) else None
    return max(known, default=None)


def _literal(attribute: onnx.AttributeProto) -> int:
    if attribute.HasField("t"):
        return prod(attribute.t.dims) if len(attribute.t.dims) < 2 else 0
    return max(1, len(attribute.ints), len(attribute.floats))
