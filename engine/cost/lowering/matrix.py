"""Gemm and MatMul -> the compiler's exMatMul -> 1x1 convolution where one side is constant."""

from __future__ import annotations

import math

import numpy as np

from engine.base.plain import JsonValue
from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on


def make_matmul(graph: LoweringGraph, node: Node) -> None:
    """Gemm or MatMul -> exMatMul ``X#1``: (B, K, 1, M) and (B, K, 1, N) -> (B, M, 1, N).

    With a constant on the right side the result is (B, N, 1, M): a layer over pixels.
    """
    if node.op == "Gemm" and len(graph.shape(node.inputs[0])) == 2:
        _gemm(graph, node)
    elif node.op == "MatMul":
        _matmul(graph, node)


def _gemm(graph: LoweringGraph, node: Node) -> None:
    turned = (bool(node.int("transA")), bool(node.int("transB")))
    bias = node.inputs[2] if len(node.inputs) > 2 and node.inputs[2] else ""
    if graph.is_const(node.inputs[1]):
        _constant_right(graph, node, turned, bias)
    elif not graph.is_const(node.inputs[0]):
        _two_features(graph, node, turned, bias)


def _matmul(graph: LoweringGraph, node: Node) -> None:
    left, right = node.inputs[:2]
    if min(len(graph.shape(left)), len(graph.shape(right))) < 2:
        return
    if graph.is_const(left):
        if graph.is_const(right):
            return
        _constant_left(graph, node)
    elif graph.is_const(right):
        _constant_right(graph, node, (False, False), "")
    else:
        _two_features(graph, node, (False, False), "")


def _constant_right(graph: LoweringGraph, node: Node, turned: tuple[bool, bool], bias: str) -> None:
    data, weight = node.inputs[:2]
    batch, rows, depth = _split(graph.shape(data), turned[0])
    columns = graph.shape(weight)[-2 if turned[1] else -1]
    shape = graph.shape(data)
    if rows == 1 and batch > 1 and len(graph.shape(weight)) == 2 and not turned[0]:
        # One row in each of several: the compiler takes them as the rows of one.
        batch, rows = 1, batch
        x = _flat_left(graph, node, data, (math.prod(shape[:-1]), shape[-1]))
    else:
        x = _left(graph, node, data, (batch, depth, 1, rows), turned[0])
    groups = math.prod(graph.shape(weight)[:-2])
    inputs = [x, graph.reshaped(weight, (groups * columns, depth, 1, 1), f"{node.name}_w")]
    if bias and graph.is_const(bias):
        inputs.append(graph.reshaped(bias, (columns,), f"{node.name}_b"))
    wide = (max(batch, groups), columns, 1, rows)
    product = _product(graph, node, inputs, wide, constant=groups == 1)
    _end(graph, node, graph.transpose(product, (0, 3, 2, 1), before=node))


def _flat_left(graph: LoweringGraph, node: Node, data: str, flat: tuple[int, int]) -> str:
    """(..., 1, K) as (1, K, 1, rows)."""
    stem, label = data, graph.unique(f"{data}_rs")
    if len(graph.shape(data)) == 3:
        data = graph.reshape(data, (1, flat[0], 1, flat[1]), label, before=node)
        perm = (0, 3, 2, 1)
    else:
        data = stem = graph.reshape(data, (flat[0], 1, 1, flat[1]), label, before=node)
        perm = (1, 3, 2, 0)
    turned = graph.transpose(data, perm, graph.unique(f"{stem}_tp"), before=node)
    wide = (1, flat[1], 1, flat[0])
    return turned if graph.shape(turned) == wide else graph.reshape(turned, wide, before=node)


def _left(graph: LoweringGraph, node: Node, data: str, shape: tuple[int, ...], turned: bool) -> str:
    """The left side as (B, K, 1, M)."""
    if not turned:
        rank = len(graph.shape(data))
        data = graph.transpose(data, (*range(rank - 2), rank - 1, rank - 2), before=node)
    return graph.reshape(data, shape, before=node)


def _constant_left(graph: LoweringGraph, node: Node) -> None:
    weight, data = node.inputs[:2]
    batch, depth, columns = _split(graph.shape(data), False)
    *several, rows, _ = graph.shape(weight)
    groups = math.prod(several)
    x = graph.reshape(data, (batch, depth, 1, columns), before=node)
    filters = graph.reshaped(weight, (groups * rows, depth, 1, 1), f"{node.name}_w")
    wide = (max(batch, groups), rows, 1, columns)
    _end(graph, node, _product(graph, node, [x, filters], wide, constant=groups == 1))


def _two_features(graph: LoweringGraph, node: Node, turned: tuple[bool, bool], bias: str) -> None:
    left, right = node.inputs[:2]
    batch, rows, depth = _split(graph.shape(left), turned[0])
    x = _left(graph, node, left, (batch, depth, 1, rows), turned[0])
    other, depth, columns = _split(graph.shape(right), turned[1])
    y = _left(graph, node, right, (other, depth, 1, columns), not turned[1])
    inputs = [x, y, *([bias] if bias and graph.is_const(bias) else [])]
    _end(graph, node, _product(graph, node, inputs, (max(batch, other), rows, 1, columns)))


def _split(shape: tuple[int, ...], turned: bool) -> tuple[int, int, int]:
    """Batch and the last two dimensions."""
    first, second = shape[-2:]
    if turned:
        first, second = second, first
    return math.prod(shape[:-2]), first, second


def _product(
    graph: LoweringGraph,
    node: Node,
    inputs: list[str],
    shape: tuple[int, ...],
    *,
    constant: bool = False,
) -> str:
    """The exMatMul of a node; what it writes."""
    product = f"{node.outputs[0]}_mm"
    graph.add_tensor(product, shape, graph.tensors[inputs[0]].dtype)
    flags = {flag: 1 for flag in ("batched", "gathered") if node.int(flag)}
    attributes: dict[str, JsonValue] = {**flags, **({"constant": 1} if constant else {})}
    name = f"{node.name}#1"
    graph.put("exMatMul", name, inputs, [product], attributes, before=node, dtype=node.dtype)
    return product


def _end(graph: LoweringGraph, node: Node, tensor: str) -> None:
    """A Reshape of a tensor gives the node's result in its place."""
    result = node.outputs[0]
    graph.reshape(tensor, graph.shape(result), f"{tensor}_rs", result, before=node)
    graph.remove(node)


@on("exMatMul")
def make_convolutions(graph: LoweringGraph, node: Node, context: Context) -> None:
    """ExMatMul with a constant -> Conv 1x1, ``X#1`` -> ``X#2``."""
    if not node.int("constant"):
        return
    name = _next(node.name)
    graph.become(node, "Conv", _next(name) if node.int("gathered") else name)
    if context.dtype == "int8" and len(node.inputs) == 2:
        channels = graph.shape(node.inputs[1])[0]
        bias = graph.add_tensor(f"{node.name}_b", (channels,), "float32", _zero)
        graph.rewire(node, inputs=[*node.inputs, bias])


def _zero() -> np.ndarray:
    return np.zeros(1, np.float32)


def _next(name: str) -> str:
    """``X#1`` -> ``X#2``, ``X`` -> ``X#1``."""
    stem, mark, number = name.rpartition("#")
    return f"{stem}#{int(number) + 1}" if mark and number.isdigit() else f"{name}#1"


def fuse_constants(graph: LoweringGraph, context: Context) -> bool:
    """Sums and factors of constants behind an exMatMul become its bias or part of its weight."""
    changed = False
    for node in graph:
        if node.op != "exMatMul":
            continue
        while (reader := graph.only_reader(node.outputs[0])) is not None:
            if not _takes(graph, node, reader):
                break
            _take(graph, node, reader)
            changed = True
    return changed


def _takes(graph: LoweringGraph, node: Node, reader: Node) -> bool:
    if reader.op not in ("Add", "Mul", "Div", "Sub") or len(reader.inputs) != 2:
        return False
    result = node.outputs[0]
    if reader.op in ("Div", "Sub") and reader.inputs[0] != result:
        return False
    other = reader.inputs[1] if reader.inputs[0] == result else reader.inputs[0]
    if other == result or graph.shape(reader.outputs[0]) != graph.shape(result):
        return False
    shape = graph.shape(other)
    if not node.int("constant"):
        return len(node.inputs) == 2 and reader.op in ("Add", "Mul")
    if not graph.is_const(other) or len(shape) not in (0, 1, 4):
        return False
    return math.prod(shape) == 1 or (len(shape) == 4 and math.prod(shape) == shape[1])


def _take(graph: LoweringGraph, node: Node, reader: Node) -> None:
    result = node.outputs[0]
    other = reader.inputs[1] if reader.inputs[0] == result else reader.inputs[0]
    inputs = list(node.inputs)
    if not node.int("constant"):
        inputs.append(other)
    elif reader.op in ("Add", "Sub") and len(inputs) == 2:
        inputs.append(graph.reshaped(other, graph.shape(result)[1:2], f"{node.name}_b"))
    graph.absorb(node, reader)
    graph.rewire(node, inputs=inputs)


def absorb_scales(graph: LoweringGraph) -> bool:
    """A factor of one number before an exMatMul of two features becomes its third input."""
    changed = False
    for node in graph:
        if node.op != "exMatMul" or node.int("constant") or len(node.inputs) != 2:
            continue
        for at, tensor in enumerate(node.inputs):
            maker = graph.maker(tensor, "Mul", alone=True)
            data, factor = graph.operands(maker) if maker is not None else ("", "")
            if maker is None or not data or not graph.is_number(factor):
                continue
            inputs = list(node.inputs)
            inputs[at] = data
            graph.remove(maker)
            graph.rewire(node, inputs=[*inputs, factor])
            node.sources = (*node.sources, *maker.sources)
            changed = True
            break
    return changed
