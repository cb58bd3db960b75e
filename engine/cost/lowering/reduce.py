"""Sums, means and products over axes as matrices with ones; channel shuffles as convolutions."""

from __future__ import annotations

import math

import numpy as np

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on


def reduced_axes(graph: LoweringGraph, node: Node) -> tuple[int, ...]:
    """Axes of a Reduce, counted from the front; all where it names none."""
    return tuple(sorted(graph.axes(node))) or tuple(range(len(graph.shape(node.inputs[0]))))


def _ones() -> np.ndarray:
    return np.ones(1, np.float32)


def _weights(
    graph: LoweringGraph, node: Node, shape: tuple[int, ...], context: Context
) -> list[str]:
    names = [graph.add_tensor(f"{node.name}_w", shape, "float32", _ones)]
    if context.dtype == "int8":
        names.append(graph.add_tensor(f"{node.name}_b", shape[:1], "float32", _ones))
    return names


@on("ReduceSum")
def make_channel_sums(graph: LoweringGraph, node: Node, context: Context) -> None:
    """ReduceSum over channels -> Conv 1x1 with one output, named ``_2conv``."""
    shape = graph.shape(node.inputs[0])
    if len(shape) == 4 and reduced_axes(graph, node) == (1,) and node.int("keepdims", 1):
        graph.become(node, "Conv", f"{node.name}_2conv", attributes={})
        weights = _weights(graph, node, (1, shape[1], 1, 1), context)
        graph.rewire(node, inputs=[node.inputs[0], *weights])


@on("ReduceL2")
def spell_lengths(graph: LoweringGraph, node: Node, context: Context) -> None:
    """ReduceL2 over channels or the last axis -> Pow ``_pow``, a sum ``_2rsum``, Pow ``_rsum_pow``.

    The sum over the last axis is a 1 x 1 convolution between two Transposes.
    """
    x, result = node.inputs[0], node.outputs[0]
    shape, axes = graph.shape(x), reduced_axes(graph, node)
    turned = len(shape) in (2, 3) and axes == (len(shape) - 1,)
    if turned and (len(shape) == 3 or shape[0] == 1):
        wide = (shape[0], shape[1], 1, shape[2]) if len(shape) == 3 else (1, 1, *shape)
        x = graph.reshape(x, wide, before=node)
        kept, result = result, graph.like(x, (*wide[:3], 1), f"{result}-rs")
        following = graph.following(node)
        graph.reshape(result, graph.shape(kept), result, kept, before=following)
    elif not (len(shape) == 4 and axes == (1,) and node.int("keepdims", 1)):
        return
    _length(graph, node, x, result, context, turned=turned)


def _length(
    graph: LoweringGraph, node: Node, x: str, result: str, context: Context, *, turned: bool
) -> None:
    """The three nodes in place of one of four dimensions; ``turned``: along the columns."""
    shape = graph.shape(x)

    def power(data: str, exponent: float, name: str, output: str) -> None:
        number = graph.add_tensor(
            f"{name}_i1", (1,), "float32", lambda: np.array([exponent], np.float32)
        )
        # no transpose moves through it
        graph.put("Pow", name, [data, number], [output], {"stays": 1}, before=node)

    squares = graph.like(x, shape, f"{x}_pow")
    power(x, 2.0, f"{x}_pow", squares)
    total = graph.like(x, graph.shape(result), f"{result}_rsum")
    name = f"{node.name}_2rsum"
    if turned:
        data = graph.transpose(squares, (0, 3, 2, 1), f"{x}_pow_tp", before=node)
        sums = graph.like(x, (shape[0], 1, 1, shape[1]), f"{result}_rsum_conv")
        added = graph.put("Conv", f"{name}_2conv", [data], [sums], before=node)
        weights = _weights(graph, added, (1, shape[3], 1, 1), context)
        graph.rewire(added, inputs=[data, *weights])
        graph.transpose(sums, (0, 3, 2, 1), f"{sums}_tp", total, before=node)
    else:
        graph.put("ReduceSum", name, [squares], [total], {"axes": [1]}, before=node)
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
    size = math.prod(shape[axis] for axis in axes)
    after = math.prod(shape[axes[-1] + 1 :])
    if after == 1 and before > 1:
        _mean_of_rows(graph, node, before, size)
        return
    label = graph.unique(f"{x}_rs")
    data = graph.reshape(x, (before, size, 1, after), label, before=node)
    mean = graph.add_tensor(f"{label}_mm", (before, 1, 1, after), graph.tensors[x].dtype)
    matrix = graph.put("exMatMul", mean, [data], [mean], {"constant": 1, "mean": 1}, before=node)
    graph.rewire(matrix, inputs=[data, *_weights(graph, matrix, (1, size, 1, 1), context)])
    turned = graph.transpose(mean, (0, 3, 2, 1), f"{mean}_tp", before=node)
    name = f"{turned}_rs"
    if node.int("keepdims", 1):
        short = tuple(dim for at, dim in enumerate(shape) if at not in axes) or (1,)
        turned = graph.reshape(turned, short, name, before=node)
        name = f"{node.name}#1_rs"
    graph.reshape(turned, graph.shape(result), name, result, before=node)
    graph.remove(node)


def _mean_of_rows(graph: LoweringGraph, node: Node, rows: int, size: int) -> None:
    """Over the last axis: (1, K, 1, rows) by one column, which stays an exMatMul."""
    x, result = node.inputs[0], node.outputs[0]
    label = graph.unique(f"{x}_rs")
    flat = graph.reshape(x, (1, rows, 1, size), label, before=node)
    data = graph.transpose(flat, (0, 3, 2, 1), before=node)
    mean = f"{label}_mm"
    ones = graph.add_tensor(f"{mean}_w", (1, size, 1, 1), "float32", _ones)
    graph.write("exMatMul", mean, [data, ones], (1, rows, 1, 1), before=node)
    graph.reshape(mean, graph.shape(result), f"{mean}_rs", result, before=node)
    graph.remove(node)


@on("Reciprocal")
def make_divisions(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Reciprocal -> Div of one, ``X#1``."""
    graph.become(node, "Div", f"{node.name}#1")
    one = graph.add_tensor(f"{node.name}_one", (1,), "float32", _ones)
    graph.rewire(node, inputs=[one, *node.inputs])


@on("Div")
def expand_divisors(graph: LoweringGraph, node: Node, context: Context) -> None:
    """What a map is divided by is as large as the map: Expand ``_expand``."""
    shape = graph.shape(node.outputs[0])
    if len(shape) != 4 or len(graph.features(node)) < 2 or graph.shape(node.inputs[1]) == shape:
        return
    data, other = node.inputs
    name = graph.fresh(f"{other}_expand")
    sizes = graph.add_unknown(f"{name}_i1", (4,), "int64")
    wide = graph.write("Expand", name, [other, sizes], shape, before=node)
    graph.rewire(node, inputs=[data, wide])


@on("Einsum")
def make_einsums(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Einsum of two features -> exMatMul of (B, K, 1, M) and (B, K, 1, N), named ``_mm``."""
    terms = _terms(node) if len(node.inputs) == 2 else None
    if terms is not None and len(graph.features(node)) == 2:
        _einsum(graph, node, terms)


def _terms(node: Node) -> tuple[str, str, str] | None:
    equation = node.attributes.get("equation")
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    inputs, result = equation.replace(" ", "").split("->")
    parts = inputs.split(",")
    if len(parts) != 2 or any(
        len(set(subscripts)) != len(subscripts) for subscripts in (*parts, result)
    ):
        return None
    return parts[0], parts[1], result


def _einsum(graph: LoweringGraph, node: Node, terms: tuple[str, str, str]) -> None:
    first, second, result = terms
    left, right = node.inputs
    if len(first) != len(graph.shape(left)) or len(second) != len(graph.shape(right)):
        return
    sizes = dict(zip(first, graph.shape(left), strict=True))
    sizes.update(zip(second, graph.shape(right), strict=True))
    batch = [letter for letter in first if letter in second and letter in result]
    inner = [letter for letter in first if letter in second and letter not in result]
    rows = [letter for letter in first if letter not in second]
    columns = [letter for letter in second if letter not in first]
    if any(letter not in result for letter in (*rows, *columns)):
        return

    def count(letters: list[str]) -> int:
        return math.prod(sizes[letter] for letter in letters)

    def side(tensor: str, have: str, letters: list[str], width: int) -> str:
        order = [have.index(letter) for letter in letters]
        if order != sorted(order):
            tensor = graph.transpose(tensor, tuple(order), before=node)
        wide = (count(batch), count(inner), 1, width)
        return graph.reshape(tensor, wide, before=node)

    x = side(left, first, [*batch, *inner, *rows], count(rows))
    y = side(right, second, [*batch, *inner, *columns], count(columns))
    wide = (count(batch), count(rows), 1, count(columns))
    product = graph.write("exMatMul", f"{x}_mm", [x, y], wide, before=node)
    order = [*batch, *rows, *columns]
    end = node.outputs[0]
    shape = tuple(sizes[letter] for letter in order)
    if order == list(result):
        graph.reshape(product, shape, f"{product}_rs", end, before=node)
    else:
        flat = graph.reshape(product, shape, f"{product}_rs", before=node)
        perm = tuple(order.index(letter) for letter in result)
        graph.transpose(flat, perm, f"{flat}_tp", end, before=node)
    graph.remove(node)


@on("Gather")
def make_slices(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Gather of one constant index -> Slice ``X_2sl`` and a Reshape ``X_2sl_rs``."""
    x, index = node.inputs[:2]
    shape, result = graph.shape(x), node.outputs[0]
    number = graph.number(index) if graph.shape(index) == () else None
    if number is None or graph.is_const(x) or not 2 <= len(shape) <= 4:
        return
    axis = node.int("axis") % len(shape)
    at = int(number) % shape[axis]
    name = f"{node.name}_2sl"
    piece = (*shape[:axis], 1, *shape[axis + 1 :])
    places = enumerate((at, at + 1, axis), 1)
    consts = [graph.add_numbers(f"{name}_i{number}", numbers) for number, numbers in places]
    cut = graph.write("Slice", name, [x, *consts], piece, "", {"axis": axis}, before=node)
    graph.reshape(cut, graph.shape(result), f"{name}_rs", result, before=node)
    graph.remove(node)
