"""How much a graph asks for when it runs, told from its shapes before anything does."""

from __future__ import annotations

from collections import Counter
from math import prod

import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import human_bytes, sanitize, shape_text
from engine.graph.ir.graph import Graph
from engine.graph.ir.spec import constant_of, shape_of

MAX_TENSOR = 2 << 30
"""Bytes of one tensor. NPUs of these chips address 4 GiB, in which a float16 copy takes half."""

MAX_AT_ONCE = 8 << 30
"""Bytes of all tensors that a run holds at once, beside the weights."""

MAX_FROM_NOTHING = 256 << 20
"""Bytes of one tensor that depends on no input, where the weights are not that many either."""

_MAX_GROWTH = 8
"""So many times the bytes of the weights may be made of them: 4 bits unpacked to float32."""

MAX_ENDS = 1000
"""Outputs of a graph, and inputs: opening a session takes ONNX Runtime the square of their number,
and networks have some dozens."""

MAX_STEPS = 1 << 34
"""Elements that a pooling operator looks at in a run, padding included: about ten seconds; a large
one of a real network has a hundredth of it."""

_POOLING = frozenset({"AveragePool", "LpPool", "MaxPool"})

_MEASURES = frozenset({"Shape", "Size"})


def check_amounts(graph: Graph) -> None:
    """Refuse a graph that would take more memory or steps than any network for these chips does.

    Sizes that are not known count as nothing.

    Raises:
        GraphError: a tensor, all that a run holds at once, a pooling window or the number of
            outputs is too large; names it with its size.
    """
    for what, ends in (
        ("inputs", graph.model.graph.inputs),
        ("outputs", graph.model.graph.outputs),
    ):
        if len(ends) > MAX_ENDS:
            raise _too_many(what, len(ends))
    from_nothing = max(MAX_FROM_NOTHING, _MAX_GROWTH * graph.weight_bytes)
    fixed: set[ir.Value] = set(graph.model.graph.initializers.values())
    sizes: dict[ir.Value, int] = {}
    readers: dict[ir.Value, int] = {}
    now = 0
    for value in graph.model.graph.inputs:
        _note(value, sizes, readers, MAX_TENSOR)
    now = sum(sizes.values())
    for node in graph.model.graph:
        constant = _is_constant(node, fixed)
        _check_window(node)
        for value in node.outputs:
            now += _note(value, sizes, readers, from_nothing if constant else MAX_TENSOR)
            if constant:
                fixed.add(value)
        if now > MAX_AT_ONCE:
            raise _too_much(node, now)
        for read, times in Counter(value for value in node.inputs if value is not None).items():
            if read in readers:
                readers[read] -= times
                now -= sizes[read] if readers[read] == 0 else 0


def _check_window(node: ir.Node) -> None:
    """Compare what a pooling operator looks at with :data:`MAX_STEPS`."""
    if node.op_type not in _POOLING or node.outputs[0].shape is None:
        return
    kernel = prod(max(size, 1) for size in node.attributes.get_ints("kernel_shape", ()))
    outputs = prod(max(dim, 1) for dim in shape_of(node.outputs[0].shape))
    if kernel * outputs > MAX_STEPS:
        raise GraphError(
            f"{node.op_type} at node {sanitize(node.name or '', 120)!r} looks at {kernel:,} "
            f"elements for each of {outputs:,} results; up to {MAX_STEPS:,} together are taken.",
            cause="Its kernel_shape is wrong: most of the window lies in the padding.",
            remedy="Correct kernel_shape and pads, or cut it off with 'outputs'.",
        )


def _too_many(what: str, count: int) -> GraphError:
    return GraphError(
        f"The model has {count:,} {what}; up to {MAX_ENDS:,} are taken.",
        cause="Inner tensors were exported as outputs, or the file is damaged."
        if what == "outputs"
        else "The file is damaged, or weights were exported as inputs.",
        remedy=f"Name those that you need in '{what}'.",
    )


def _is_constant(node: ir.Node, fixed: set[ir.Value]) -> bool:
    if node.op_type in _MEASURES:
        return True
    return all(value is None or value in fixed for value in node.inputs)


def _note(
    value: ir.Value, sizes: dict[ir.Value, int], readers: dict[ir.Value, int], limit: int
) -> int:
    size = _bytes(value)
    limit = min(limit, MAX_TENSOR)
    if size > limit and constant_of(value) is None:
        raise _too_large(value, size, limit)
    sizes[value] = size
    readers[value] = len(value.uses()) + value.is_graph_output()
    return size if readers[value] else 0


def _bytes(value: ir.Value) -> int:
    dims = shape_of(value.shape)
    if value.shape is None or value.dtype in (None, ir.DataType.UNDEFINED, ir.DataType.STRING):
        return 0
    count = 1
    for dim in dims:
        count *= max(dim, 0)
    return int(count * value.dtype.bitwidth // 8)


def _too_large(value: ir.Value, size: int, limit: int) -> GraphError:
    producer = value.producer()
    maker = "" if producer is None else f" ({producer.op_type}, node {producer.name!r})"
    why = "that depends on no input " if limit < MAX_TENSOR else ""
    return GraphError(
        f"The tensor {sanitize(value.name or '', 120)!r}{sanitize(maker, 200)} has "
        f"{human_bytes(size)} ({shape_text(shape_of(value.shape))}); a tensor {why}may have up to "
        f"{human_bytes(limit)}.",
        cause="The sizes in the model are wrong, or it is not a network for an NPU.",
        remedy="Check the sizes given for the inputs, or cut the part off with 'outputs'.",
    )


def _too_much(node: ir.Node, now: int) -> GraphError:
    return GraphError(
        f"At node {sanitize(node.name or node.op_type, 120)!r} a run would hold "
        f"{human_bytes(now)} of tensors at once; up to {human_bytes(MAX_AT_ONCE)} are taken.",
        cause="The inputs are very large, or many large tensors are kept to the end.",
        remedy="Give smaller sizes for the inputs, or cut the model into parts.",
    )
