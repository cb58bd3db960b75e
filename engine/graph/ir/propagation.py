"""ONNX's shape inference, with constants carried through a graph where that is needed and bounded.

Its data propagation holds the sizes that a graph computes (Shape, Gather, Concat ...), an object an
element, and reads every tensor of one axis so, also one of a billion elements. A chain of Concat
that each read their input twice makes as many from a file of 1 KB. So it is done only where shapes
stay open without it, and elements are counted first; real models carry some dozens.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import onnx

from engine.graph.ir.dataflow import has_open_shapes

__all__ = ["carries_little", "infer_bounded"]

MAX_CARRIED = 1 << 18
"""Elements of all carried tensors together (about 80 bytes each)."""

_MAX_RANK = 64

# Carried through Add, Sub and Mul, tensors are flat lists to ONNX: a column and a row, whose
# broadcast makes a table, are an error to it (onnx 1.23).
_ONLY_CARRIED = "broadcasting: ("


def infer_bounded(proto: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """``onnx.shape_inference.infer_shapes``, with data propagation where that is of use.

    Args:
        proto: the model.
        strict: whether types are checked and errors raised, rather than passed over.

    Raises:
        InferenceError, RuntimeError, ValueError: as ONNX raises them.
    """

    def infer(carry: bool) -> onnx.ModelProto:
        return onnx.shape_inference.infer_shapes(
            proto, check_type=strict, strict_mode=strict, data_prop=carry
        )

    inferred = infer(False)
    graph = inferred.graph
    typed = {value.name for value in (*graph.value_info, *graph.output)}
    whole = all(name in typed for node in graph.node for name in node.output if name)
    if (whole and not has_open_shapes(graph)) or not carries_little(inferred):
        return inferred
    try:
        return infer(True)
    except onnx.shape_inference.InferenceError as error:
        if _ONLY_CARRIED in str(error):
            return inferred
        raise


def carries_little(proto: onnx.ModelProto) -> bool:
    """Whether inference with data propagation holds few elements; one walk over the nodes.

    Counted is the worst case: every operator carries what it reads, Concat all of it.

    Args:
        proto: after inference without data propagation.
    """
    counts: dict[str, int] = {}
    several: set[str] = set()  # tensors of two axes and more: these are never carried
    for tensor in proto.graph.initializer:
        if len(tensor.dims) < 2:
            counts[tensor.name] = prod(tensor.dims)
    graph = proto.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) > 1:
            several.add(value.name)
        elif dims and dims[0].dim_value > 0:
            counts.setdefault(value.name, dims[0].dim_value)
    carried = 0
    read: set[str] = set()
    for node in _nodes(proto.graph):
        made = [name for name in node.output if name and name not in several]
        count = _count(node, counts) if made else None
        if count is None:
            continue
        new = {name for name in node.input if name in counts and name not in read}
        read |= new
        carried += sum(counts[name] for name in new)
        for name in made:
            counts[name] = max(count, counts.get(name, 0))
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
