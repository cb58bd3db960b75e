"""Operators that the compiler writes with others: what it has no layer of, or a cheaper one.

Source: what rknn-toolkit2 2.3.2 prints of graphs of single operators (tests/cost/asked).
"""

from __future__ import annotations

from math import prod

import numpy as np

from engine.base.plain import JsonValue
from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on


@on("Abs", "Neg", "Sub", "Sum")
def spell_elementwise(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Neg, Abs, Sum, and Sub of a constant, by Mul, LeakyRelu and Add."""
    x, *others = node.inputs
    if graph.is_const(x):
        return
    if node.op == "Sum":
        if others:
            _add_up(graph, node)
        return
    if node.op == "Abs":
        graph.become(
            node, "LeakyRelu", graph.fresh(f"{node.name}_2leakyrelu"), attributes={"alpha": -1.0}
        )
    elif node.op == "Neg":
        minus = np.full((1, 1, 1, 1), -1.0, np.float32)
        number = graph.add_tensor(f"{node.name}_i1", minus.shape, "float32", lambda: minus)
        graph.become(node, "Mul", graph.fresh(f"{node.name}#1"), inputs=[x, number])
    elif len(others) == 1 and graph.is_const(others[0]):
        (other,) = others
        number = graph.reshaped(other, graph.shape(other), f"{other}_negative", np.negative)
        graph.become(node, "Add", graph.fresh(f"{node.name}_2add"), inputs=[x, number])


def _add_up(graph: LoweringGraph, node: Node) -> None:
    total, *others = node.inputs
    entry = graph.tensors[node.outputs[0]]
    following = graph.following(node)
    graph.remove(node)
    for at, term in enumerate(others, 1):
        name = graph.fresh(f"{node.name}_2add{at}")
        added = node.outputs[0]
        if at < len(others):
            added = graph.add_tensor(f"{name}_o", entry.shape, entry.dtype)
        graph.put("Add", name, [total, term], [added], before=following, sources=node.sources)
        total = added


@on("CumSum")
def spell_running_sums(graph: LoweringGraph, node: Node, context: Context) -> None:
    """CumSum along an axis of a map is a 1 x 1 convolution with a triangle of ones."""
    x, result = node.inputs[0], node.outputs[0]
    shape = graph.shape(x)
    axes = graph.whole(node.inputs[1]) if len(shape) == 4 and len(node.inputs) > 1 else None
    if not axes or axes[0] % 4 == 0 or graph.is_const(x):
        return
    axis = axes[0] % 4
    name, data, sums = graph.unique(f"{x}_rs"), x, result
    following, sources = graph.following(node), node.sources
    graph.remove(node)
    if axis == 2:
        data = graph.transpose(x, (0, 2, 1, 3), name, before=following, sources=sources)
    elif axis == 3:
        rows = (prod(shape[:3]), shape[3], 1, 1)
        data = graph.reshape(x, rows, name, before=following, sources=sources)
    wide = graph.shape(data)
    weight = graph.add_unknown(f"{name}_mm_i1", (wide[1], wide[1], 1, 1), "float32")
    if axis != 1:
        sums = graph.like(x, wide, f"{name}_mm")
    graph.put("Conv", f"{name}_mm#1", [data, weight], [sums], before=following, sources=sources)
    back = f"{name}_mm_tp_rs"
    if axis == 2:
        graph.transpose(sums, (0, 2, 1, 3), f"{back}_tp", result, before=following)
    elif axis == 3:
        graph.reshape(sums, shape, back, result, before=following)


@on("Concat")
def spell_focus(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Every second pixel, four times, joined as channels: a 2 x 2 convolution of stride 2.

    Of a map with its channels last, as Swin merges patches, it stands between two Transposes.
    """
    axis = node.int("axis") % 4
    if len(node.inputs) != 4 or axis not in (1, 3):
        return
    phases = [_phase(graph, tensor, first=2 if axis == 1 else 1) for tensor in node.inputs]
    (x, *others) = {root for root, _ in phases}
    order = (0, 1, 2, 3) if axis == 1 else (0, 3, 1, 2)
    if others or len(graph.shape(x)) != 4:
        return
    shape = tuple(graph.shape(x)[at] for at in order)
    out = tuple(graph.shape(node.outputs[0])[at] for at in order)
    if sorted(phase for _, phase in phases) != [(0, 0), (0, 1), (1, 0), (1, 1)]:
        return
    if out != (shape[0], 4 * shape[1], shape[2] // 2, shape[3] // 2):
        return
    name = graph.fresh(f"{node.name}_2conv")
    weight = graph.add_unknown(f"{name}_i1", (out[1], shape[1], 2, 2), "float32")
    result, following = node.outputs[0], graph.following(node)
    graph.remove(node)
    pixels = result
    if axis == 3:
        first = _first_slice(graph, node.inputs[0])
        x = graph.transpose(x, order, f"{first}_2tp", before=following)
        pixels = graph.add_tensor(name, out, graph.tensors[x].dtype)
    window: dict[str, JsonValue] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    conv = graph.put(
        "Conv", name, [x, weight], [pixels], window, before=following, sources=node.sources
    )
    if axis == 3:
        graph.transpose(pixels, (0, 2, 3, 1), f"{name}_tp", result, before=following)
    for tensor in node.inputs:
        conv.sources = (*conv.sources, *_drop_chain(graph, tensor))


def _first_slice(graph: LoweringGraph, tensor: str) -> str:
    """The name of the first of the slices that a tensor comes from."""
    name = ""
    while (maker := graph.maker(tensor, "Slice")) is not None:
        name, tensor = maker.name, maker.inputs[0]
    return name


def _phase(graph: LoweringGraph, tensor: str, first: int) -> tuple[str, tuple[int, int]]:
    """What strided slices cut a tensor from, and their first row and column; -1: none.

    ``first`` is the axis of the rows.
    """
    phase = [-1, -1]
    while (maker := graph.maker(tensor, "Slice")) is not None:
        numbers = [values for values in map(graph.whole, maker.inputs[1:]) if values is not None]
        if len(numbers) != 4:
            break
        starts, _, axes, steps = numbers
        shape, out = graph.shape(maker.inputs[0]), graph.shape(tensor)
        for start, axis, step in zip(starts, axes, steps, strict=True):
            at = axis % len(shape) - first
            whole = at in (0, 1) and step == 2 and start in (0, 1)
            whole = whole and shape[at + first] == 2 * out[at + first]
            if not whole or phase[at] >= 0:
                return tensor, (-1, -1)
            phase[at] = start
        tensor = maker.inputs[0]
    return tensor, (phase[0], phase[1])


def _drop_chain(graph: LoweringGraph, tensor: str) -> tuple[str, ...]:
    """Take out slices that nobody reads any more; their source nodes."""
    sources: tuple[str, ...] = ()
    while (maker := graph.maker(tensor, "Slice")) is not None and graph.unread(tensor):
        sources = (*sources, *maker.sources)
        tensor = maker.inputs[0]
        graph.remove(maker)
    return sources
