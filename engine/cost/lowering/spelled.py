"""Operators that the compiler writes with others: what it has no layer of, or a cheaper one.

Source: what rknn-toolkit2 2.3.2 prints of graphs of single operators (tests/cost/asked).
"""

from __future__ import annotations

from math import prod

import numpy as np

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context, on

__all__ = ["spell_elementwise", "spell_focus", "spell_running_sums"]


def spell_elementwise(graph: LoweringGraph, context: Context) -> None:
    """Neg, Abs, Sum, and Sub of a constant, by Mul, LeakyRelu and Add."""
    for node in graph:
        if not node.inputs or graph.is_const(node.inputs[0]):
            continue
        if node.op == "Neg":
            minus = _scalar(graph, f"{node.name}_i1", -1.0)
            _become(graph, node, "Mul", f"{node.name}#1", [node.inputs[0], minus])
        elif node.op == "Abs":
            _become(graph, node, "LeakyRelu", f"{node.name}_2leakyrelu", node.inputs)
            node.attributes = {"alpha": -1.0}
        elif node.op == "Sub" and len(node.inputs) == 2 and graph.is_const(node.inputs[1]):
            made = _negative(graph, node.inputs[1])
            _become(graph, node, "Add", f"{node.name}_2add", [node.inputs[0], made])
        elif node.op == "Sum" and len(node.inputs) > 1:
            _add_up(graph, node)


def _become(graph: LoweringGraph, node: Node, op: str, name: str, inputs: list[str]) -> None:
    graph.become(node, op, graph.fresh(name), inputs=list(inputs))
    graph.rewrites["spell_elementwise"] += 1


def _add_up(graph: LoweringGraph, node: Node) -> None:
    total, result = node.inputs[0], node.outputs[0]
    found = graph.tensors[result]
    following = graph.following(node)
    graph.remove(node)
    for at, each in enumerate(node.inputs[1:], 1):
        name = graph.fresh(f"{node.name}_2add{at}")
        last = at == len(node.inputs) - 1
        made = result if last else graph.add_tensor(f"{name}_o", found.shape, found.dtype)
        graph.put("Add", name, [total, each], [made], before=following, sources=node.sources)
        total = made
    graph.rewrites["convert_sum_to_add"] += 1


def _negative(graph: LoweringGraph, tensor: str) -> str:
    number = graph.tensors[tensor]
    values = number.values or (lambda: np.zeros(number.shape, np.float32))
    return graph.add_tensor(f"{tensor}_negative", number.shape, number.dtype, lambda: -values())


def _scalar(graph: LoweringGraph, name: str, value: float) -> str:
    array = np.full((1, 1, 1, 1), value, np.float32)
    return graph.add_tensor(name, array.shape, "float32", lambda: array)


def spell_running_sums(graph: LoweringGraph, context: Context) -> None:
    """CumSum along an axis of a map is a 1 x 1 convolution with a triangle of ones."""
    for node in graph:
        shape = graph.shape(node.inputs[0]) if node.op == "CumSum" else ()
        given = graph.array(node.inputs[1]) if len(shape) == 4 and len(node.inputs) > 1 else None
        if given is None or graph.is_const(node.inputs[0]):
            continue
        axis = int(given.reshape(-1)[0]) % 4
        if axis == 0:
            continue
        x, result = node.inputs[0], node.outputs[0]
        name, data = graph.unique(f"{x}_rs"), x
        following = graph.following(node)
        graph.remove(node)
        if axis == 2:
            data = graph.transpose(x, (0, 2, 1, 3), name, before=following, sources=node.sources)
        elif axis == 3:
            rows = (prod(shape[:3]), shape[3], 1, 1)
            data = graph.reshape(x, rows, name, before=following, sources=node.sources)
        wide = graph.shape(data)
        weight = graph.add_unknown(f"{name}_mm_i1", (wide[1], wide[1], 1, 1), "float32")
        made = result
        if axis != 1:
            made = graph.like(x, wide, f"{name}_mm")
        graph.put(
            "Conv", f"{name}_mm#1", [data, weight], [made], before=following, sources=node.sources
        )
        back = f"{name}_mm_tp_rs"
        if axis == 2:
            graph.transpose(made, (0, 2, 1, 3), f"{back}_tp", result, before=following)
        elif axis == 3:
            graph.reshape(made, shape, back, result, before=following)
        graph.rewrites["convert_cumsum_to_matmul"] += 1


@on("Concat")
def spell_focus(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Every second pixel, four times, joined as channels: a 2 x 2 convolution of stride 2.

    Of a map with its channels last, as Swin merges patches, it stands between two Transposes.
    """
    if len(node.inputs) != 4:
        return
    axis = node.int("axis") % 4
    if axis not in (1, 3):
        return
    phases: list[tuple[int, int]] = []
    roots: set[str] = set()
    for each in node.inputs:
        root, phase = _phase(graph, each, first=2 if axis == 1 else 1)
        roots.add(root)
        phases.append(phase)
    (x, *others) = roots
    order = (0, 1, 2, 3) if axis == 1 else (0, 3, 1, 2)
    if others or len(graph.shape(x)) != 4:
        return
    shape = tuple(graph.shape(x)[at] for at in order)
    out = tuple(graph.shape(node.outputs[0])[at] for at in order)
    if sorted(phases) != [(0, 0), (0, 1), (1, 0), (1, 1)]:
        return
    if out != (shape[0], 4 * shape[1], shape[2] // 2, shape[3] // 2):
        return
    gone = list(node.inputs)
    name = graph.fresh(f"{node.name}_2conv")
    weight = graph.add_unknown(f"{name}_i1", (out[1], shape[1], 2, 2), "float32")
    result, following = node.outputs[0], graph.following(node)
    graph.remove(node)
    made = result
    if axis == 3:
        first = _first_slice(graph, gone[0])
        x = graph.transpose(x, order, f"{first}_2tp", before=following)
        made = graph.add_tensor(name, out, graph.tensors[x].dtype)
    conv = graph.put(
        "Conv",
        name,
        [x, weight],
        [made],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        before=following,
        sources=node.sources,
    )
    if axis == 3:
        graph.transpose(made, (0, 2, 3, 1), f"{name}_tp", result, before=following)
    for each in gone:
        conv.sources = (*conv.sources, *_drop_chain(graph, each))
    graph.rewrites["convert_slice_concat_to_conv"] += 1


def _first_slice(graph: LoweringGraph, tensor: str) -> str:
    """The name of the first of the slices that a tensor comes from."""
    name = ""
    while (maker := graph.producer(tensor)) is not None and maker.op == "Slice":
        name, tensor = maker.name, maker.inputs[0]
    return name


def _phase(graph: LoweringGraph, tensor: str, first: int) -> tuple[str, tuple[int, int]]:
    """What strided slices cut a tensor from, and their first row and column; -1: none.

    ``first`` is the axis of the rows.
    """
    phase = [-1, -1]
    while (maker := graph.producer(tensor)) is not None and maker.op == "Slice":
        arrays = [graph.array(each) for each in maker.inputs[1:] if each]
        numbers = [[int(v) for v in each.reshape(-1)] for each in arrays if each is not None]
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
    found: tuple[str, ...] = ()
    while (maker := graph.producer(tensor)) is not None and maker.op == "Slice":
        if graph.has_readers(tensor) or graph.is_output(tensor):
            break
        found = (*found, *maker.sources)
        tensor = maker.inputs[0]
        graph.remove(maker)
    return found
