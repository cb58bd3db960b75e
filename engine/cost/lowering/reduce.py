"""Sums, means and products over axes as matrices with ones; channel shuffles as convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context, on

__all__ = [
    "expand_divisors",
    "make_channel_sums",
    "make_divisions",
    "make_einsums",
    "make_means",
    "make_slices",
    "spell_lengths",
]


def reduced_axes(graph: LoweringGraph, node: Node) -> tuple[int, ...]:
    """Axes of a Reduce, counted from the front; all where it names none."""
    rank = len(graph.shape(node.inputs[0]))
    axes = list(node.ints("axes"))
    if not axes and len(node.inputs) > 1 and node.inputs[1]:
        given = graph.array(node.inputs[1])
        axes = [int(each) for each in given.reshape(-1)] if given is not None else []
    return tuple(sorted(each % rank for each in axes)) if axes else tuple(range(rank))


def _ones() -> np.ndarray:
    return np.ones(1, np.float32)


def _weights(
    graph: LoweringGraph, node: Node, shape: tuple[int, ...], context: Context
) -> list[str]:
    names = [graph.add_tensor(f"{node.name}_w", shape, "float32", _ones)]
    if context.dtype == "int8":
        names.append(graph.add_tensor(f"{node.name}_b", shape[:1], "float32", _ones))
    return names


def make_channel_sums(graph: LoweringGraph, context: Context) -> None:
    """ReduceSum over channels -> Conv 1x1 with one output, named ``_2conv``."""
    for node in graph:
        shape = graph.shape(node.inputs[0]) if node.inputs else ()
        if node.op != "ReduceSum" or len(shape) != 4 or reduced_axes(graph, node) != (1,):
            continue
        if not node.int("keepdims", 1):
            continue
        graph.become(node, "Conv", f"{node.name}_2conv", attributes={})
        weights = _weights(graph, node, (1, shape[1], 1, 1), context)
        graph.rewire(node, inputs=[node.inputs[0], *weights])
        graph.rewrites["convert_reduce_sum_to_conv"] += 1


def spell_lengths(graph: LoweringGraph, context: Context) -> None:
    """ReduceL2 over channels or the last axis -> Pow ``_pow``, a sum ``_2rsum``, Pow ``_rsum_pow``.

    The sum over the last axis is a 1 x 1 convolution between two Transposes.
    """
    for node in graph:
        shape = graph.shape(node.inputs[0]) if node.op == "ReduceL2" else ()
        axes = reduced_axes(graph, node) if shape else ()
        if len(shape) == 4 and axes == (1,) and node.int("keepdims", 1):
            _length(graph, node, node.inputs[0], node.outputs[0])
        elif len(shape) in (2, 3) and axes == (len(shape) - 1,):
            x, result = node.inputs[0], node.outputs[0]
            wide = (shape[0], shape[1], 1, shape[2]) if len(shape) == 3 else (1, 1, *shape)
            if len(shape) == 2 and shape[0] != 1:
                continue
            data = graph.reshape(x, wide, before=node)
            name = graph.unique(f"{result}-rs")
            made = graph.add_tensor(name, (*wide[:3], 1), graph.tensors[x].dtype)
            graph.reshape(made, graph.shape(result), made, result, before=graph.following(node))
            _length(graph, node, data, made, context, turned=True)
        else:
            continue
        graph.rewrites["convert_reduce_L2_to_pow_sum_pow"] += 1


def _length(
    graph: LoweringGraph,
    node: Node,
    x: str,
    result: str,
    context: Context | None = None,
    *,
    turned: bool = False,
) -> None:
    """The three nodes in place of one of four dimensions; ``turned``: along the columns."""
    shape, dtype = graph.shape(x), graph.tensors[x].dtype

    def power(data: str, exponent: float, name: str, output: str) -> None:
        number = graph.add_tensor(
            f"{name}_i1", (1,), "float32", lambda: np.array([exponent], np.float32)
        )
        made = Node("Pow", name, "Pow", [data, number], [output], sources=node.sources)
        made.attributes["stays"] = 1  # no transpose moves through it
        graph.insert(made, before=node)

    squares = graph.add_tensor(graph.unique(f"{x}_pow"), shape, dtype)
    power(x, 2.0, f"{x}_pow", squares)
    total = graph.add_tensor(graph.unique(f"{result}_rsum"), graph.shape(result), dtype)
    name = f"{node.name}_2rsum"
    if not turned:
        added = graph.put("ReduceSum", name, [squares], [total], {"axes": [1]}, before=node)
    elif context is not None:
        data = graph.transpose(squares, (0, 3, 2, 1), f"{x}_pow_tp", before=node)
        out = (shape[0], 1, 1, shape[1])
        sums = graph.add_tensor(graph.unique(f"{result}_rsum_conv"), out, dtype)
        added = graph.put("Conv", f"{name}_2conv", [data], [sums], before=node)
        weights = _weights(graph, added, (1, shape[3], 1, 1), context)
        graph.rewire(added, inputs=[data, *weights])
        graph.transpose(sums, (0, 3, 2, 1), f"{sums}_tp", total, before=node)
    power(total, 0.5, f"{result}_rsum_pow", result)
    graph.remove(node)


@on("ReduceMean")
def make_means(graph: LoweringGraph, node: Node, context: Context) -> None:
    """ReduceMean over axes in a row -> a matrix with one output, named ``_mm`` behind its input."""
    if not node.inputs:
        return
    x, result = node.inputs[0], node.outputs[0]
    shape = graph.shape(x)
    axes = reduced_axes(graph, node)
    if not shape or (len(shape) == 4 and axes == (2, 3)):
        return
    if axes != tuple(range(axes[0], axes[-1] + 1)):
        return
    before = math.prod(shape[: axes[0]])
    size = math.prod(shape[each] for each in axes)
    after = math.prod(shape[axes[-1] + 1 :])
    keep = bool(node.int("keepdims", 1))
    if after == 1 and before > 1:
        _mean_of_rows(graph, node, before, size)
        return
    dtype = graph.tensors[x].dtype
    label = graph.unique(f"{x}_rs")
    data = graph.reshape(x, (before, size, 1, after), label, before=node)
    made = graph.add_tensor(f"{label}_mm", (before, 1, 1, after), dtype)
    new = Node("exMatMul", made, "exMatMul", [data], [made], {"constant": 1, "mean": 1})
    new.sources = node.sources
    new.inputs += _weights(graph, new, (1, size, 1, 1), context)
    graph.insert(new, before=node)
    turned = graph.transpose(made, (0, 3, 2, 1), f"{made}_tp", before=node)
    end = f"{turned}_rs"
    if keep:
        short = tuple(each for at, each in enumerate(shape) if at not in axes) or (1,)
        flat = graph.reshape(turned, short, end, before=node)
        name = f"{node.name}#1_rs"
        graph.reshape(flat, graph.shape(result), name, result, before=node)
    else:
        graph.reshape(turned, graph.shape(result), end, result, before=node)
    graph.remove(node)
    graph.rewrites["convert_reducemean_to_einsum"] += 1


def _mean_of_rows(graph: LoweringGraph, node: Node, rows: int, size: int) -> None:
    """Over the last axis: (1, K, 1, rows) by one column, which stays an exMatMul."""
    x, result = node.inputs[0], node.outputs[0]
    dtype = graph.tensors[x].dtype
    label = graph.unique(f"{x}_rs")
    flat = graph.reshape(x, (1, rows, 1, size), label, before=node)
    data = graph.transpose(flat, (0, 3, 2, 1), graph.unique(f"{label}_tp"), before=node)
    made = graph.add_tensor(f"{label}_mm", (1, rows, 1, 1), dtype)
    ones = graph.add_tensor(f"{made}_w", (1, size, 1, 1), "float32", _ones)
    graph.put("exMatMul", made, [data, ones], [made], before=node)
    graph.reshape(made, graph.shape(result), f"{made}_rs", result, before=node)
    graph.remove(node)
    graph.rewrites["convert_reducemean_to_einsum"] += 1


@on("Reciprocal")
def make_divisions(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Reciprocal -> Div of one, ``X#1``."""
    graph.become(node, "Div", f"{node.name}#1")
    one = graph.add_tensor(f"{node.name}_one", (1,), "float32", _ones)
    graph.rewire(node, inputs=[one, *node.inputs])
    graph.rewrites["convert_reciprocal_to_div"] += 1


def expand_divisors(graph: LoweringGraph, context: Context) -> None:
    """What a map is divided by is as large as the map: Expand ``_expand``."""
    for node in graph:
        shape = graph.shape(node.outputs[0]) if node.op == "Div" else ()
        if len(shape) != 4 or any(graph.is_const(each) for each in node.inputs):
            continue
        data, other = node.inputs
        if graph.shape(other) == shape:
            continue
        name = graph.fresh(f"{other}_expand")
        made = graph.add_tensor(name, shape, graph.tensors[other].dtype)
        sizes = graph.add_unknown(f"{name}_i1", (4,), "int64")
        graph.put("Expand", name, [other, sizes], [made], before=node)
        graph.rewire(node, inputs=[data, made])
        graph.rewrites["convert_div_to_expand_div"] += 1


def make_einsums(graph: LoweringGraph, context: Context) -> None:
    """Einsum of two features -> exMatMul of (B, K, 1, M) and (B, K, 1, N), named ``_mm``."""
    for node in graph:
        if node.op == "Einsum" and len(node.inputs) == 2:
            terms = _terms(node)
            if terms is not None and not any(graph.is_const(each) for each in node.inputs):
                _einsum(graph, node, terms)


def _terms(node: Node) -> tuple[str, str, str] | None:
    equation = node.attributes.get("equation")
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    inputs, result = equation.replace(" ", "").split("->")
    parts = inputs.split(",")
    if len(parts) != 2 or any(len(set(each)) != len(each) for each in (*parts, result)):
        return None
    return parts[0], parts[1], result


def _einsum(graph: LoweringGraph, node: Node, terms: tuple[str, str, str]) -> None:
    first, second, result = terms
    left, right = node.inputs
    if len(first) != len(graph.shape(left)) or len(second) != len(graph.shape(right)):
        return
    sizes = dict(zip(first, graph.shape(left), strict=True))
    sizes.update(zip(second, graph.shape(right), strict=True))
    batch = [each for each in first if each in second and each in result]
    inner = [each for each in first if each in second and each not in result]
    rows = [each for each in first if each not in second]
    columns = [each for each in second if each not in first]
    if any(each not in result for each in (*rows, *columns)):
        return

    def count(letters: list[str]) -> int:
        return math.prod(sizes[each] for each in letters)

    def side(tensor: str, have: str, letters: list[str], width: int) -> str:
        order = [have.index(each) for each in letters]
        if order != sorted(order):
            tensor = graph.transpose(tensor, tuple(order), before=node)
        wide = (count(batch), count(inner), 1, width)
        return graph.reshape(tensor, wide, before=node)

    x = side(left, first, [*batch, *inner, *rows], count(rows))
    y = side(right, second, [*batch, *inner, *columns], count(columns))
    wide = (count(batch), count(rows), 1, count(columns))
    made = graph.add_tensor(f"{x}_mm", wide, graph.tensors[left].dtype)
    graph.put("exMatMul", made, [x, y], [made], before=node)
    order = [*batch, *rows, *columns]
    end = node.outputs[0]
    shape = tuple(sizes[each] for each in order)
    if order == list(result):
        graph.reshape(made, shape, f"{made}_rs", end, before=node)
    else:
        flat = graph.reshape(made, shape, f"{made}_rs", before=node)
        perm = tuple(order.index(each) for each in result)
        graph.transpose(flat, perm, f"{flat}_tp", end, before=node)
    graph.remove(node)
    graph.rewrites["convert_2in_einsum_to_exmatmul"] += 1


@on("Gather")
def make_slices(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Gather of one constant index -> Slice ``X_2sl`` and a Reshape ``X_2sl_rs``."""
    if graph.is_const(node.inputs[0]):
        return
    x, index = node.inputs[:2]
    shape = graph.shape(x)
    if not graph.is_const(index) or graph.shape(index) != () or not 2 <= len(shape) <= 4:
        return
    axis = node.int("axis") % len(shape)
    name = f"{node.name}_2sl"
    whole = (*shape[:axis], 1, *shape[axis + 1 :])
    made = graph.add_tensor(name, whole, graph.tensors[x].dtype)
    given = graph.array(index)
    at = int(given) % shape[axis] if given is not None else 0
    consts = [
        graph.add_tensor(f"{name}_i{number}", (1,), "int64", _number(each))
        for number, each in enumerate((at, at + 1, axis), 1)
    ]
    graph.put("Slice", name, [x, *consts], [made], {"axis": axis}, before=node)
    graph.reshape(made, graph.shape(node.outputs[0]), f"{name}_rs", node.outputs[0], before=node)
    graph.remove(node)
    graph.rewrites["convert_gather_to_slice_reshape"] += 1


def _number(value: int) -> Callable[[], np.ndarray]:
    return lambda: np.array([value], np.int64)
