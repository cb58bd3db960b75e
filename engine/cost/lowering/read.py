"""Of a graph what the rewrites need: names, shapes and attributes; weights stay where they are.

What depends on no input is a constant. Beside it stands what the estimates take from the build:
which layer a node is, the graph without Q/DQ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from engine.base.errors import UsageError
from engine.base.plain import JsonValue
from engine.base.text import sanitize, shape_text
from engine.cost.lowered import Node, Tensor
from engine.cost.lowering.graph import LoweringGraph
from engine.graph.ir import constant_of, spec_of
from engine.graph.ir.folding import FOLDED, fold
from engine.graph.layers import LayerMap
from engine.graph.passes import with_closed_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

    from engine.graph.ir import Graph

# What depends on no input: small numbers are computed, large ones only when somebody asks.

_SMALL = 1 << 14
"""Elements of a result that is computed at once: shapes, indexes, scalars, slopes."""

_KEPT = frozenset({"DequantizeLinear", "If", "Loop", "QuantizeLinear", "Scan"})
"""Not constants, whatever they read: weights that are stored in int8 are looked through later."""


def fold_constants(nodes: list[Node], tensors: dict[str, Tensor]) -> list[Node]:
    """The nodes that depend on an input; what the others write are constants in ``tensors``."""
    left = []
    for node in nodes:
        folded = _folded(node, tensors) if len(node.outputs) == 1 else None
        constants = _unknown(node, tensors) if folded is None else [folded]
        if not constants:
            left.append(node)
        tensors.update((constant.name, constant) for constant in constants)
    return left


def _unknown(node: Node, tensors: dict[str, Tensor]) -> list[Tensor]:
    """Constants that the compiler computes and no rewrite asks for: zeros stand for them."""
    read = [tensors.get(name) for name in node.inputs if name]
    if not read or not all(tensor is not None and tensor.const for tensor in read):
        return []
    if node.op in _KEPT:
        return []
    written = [tensors.get(name) for name in node.outputs if name]
    if None in written:
        return []
    return [replace(t, values=_zeros(t), filled=True) for t in written if t is not None]


def _zeros(tensor: Tensor) -> Callable[[], np.ndarray]:
    return lambda: np.broadcast_to(np.zeros((), tensor.dtype or "float32"), tensor.shape)


def _folded(node: Node, tensors: dict[str, Tensor]) -> Tensor | None:
    name = node.outputs[0]
    known = tensors.get(name)
    read = [tensors.get(name) for name in node.inputs if name]
    if known is None or not all(read):
        return None
    if node.op in ("Shape", "Size"):
        dims = read[0].shape if read[0] else ()
        start, end = node.int("start"), node.int("end", len(dims))
        value = np.array(math.prod(dims) if node.op == "Size" else dims[start:end], dtype=np.int64)
        return Tensor(name, value.shape, "int64", lambda: value)
    if node.op not in FOLDED or not read or not all(tensor and tensor.const for tensor in read):
        return None
    filled = any(tensor.filled for tensor in read if tensor)
    largest = max(math.prod(tensor.shape) for tensor in (*read, known) if tensor)
    inputs = [tensors.get(name) if name else None for name in node.inputs]

    @cache
    def compute() -> np.ndarray:
        arrays = [tensor.values() if tensor and tensor.values else None for tensor in inputs]
        return fold(node.op, arrays, node.attributes, largest=max(largest, _SMALL))

    if largest > _SMALL:
        return Tensor(name, known.shape, known.dtype, compute, filled)
    try:
        value = compute()
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return Tensor(name, value.shape, value.dtype.name, lambda: value, filled)


def read_graph(graph: Graph) -> LoweringGraph:
    """The nodes of a graph with static shapes, Constant nodes taken as constants.

    Shapes that follow from those of the inputs, through a Range for instance, are worked out.

    Raises:
        UsageError: a shape is dynamic, or depends on data.
    """
    fixed = all(spec.static for spec in graph.inputs)
    graph = with_closed_shapes(graph)
    tensors: dict[str, Tensor] = {}
    for value in graph.values.values():
        if value.name:
            tensors[value.name] = _tensor(value, fixed)
    nodes = []
    for node in graph.nodes:
        filled = _filled(node)
        if filled is not None:
            tensors[filled.name] = filled
        elif node.op_type != "Constant":
            nodes.append(_node(node))
    nodes = fold_constants(nodes, tensors)
    for split in nodes:
        if split.op == "Split" and len(split.inputs) == 1:
            _give_sizes(split, tensors)
    return LoweringGraph(
        nodes,
        tensors,
        [str(value.name) for value in graph.model.graph.inputs],
        [str(value.name) for value in graph.model.graph.outputs],
    )


def _tensor(value: ir.Value, fixed: bool) -> Tensor:
    name = str(value.name)
    data = constant_of(value)
    if data is not None:
        return Tensor(name, tuple(data.shape.numpy()), data.dtype.numpy().name, data.numpy)
    spec = spec_of(value)
    if not spec.static:
        raise UsageError(
            f"The shape of {sanitize(name, 80)!r} is not fixed: {shape_text(spec.shape)}.",
            cause="It depends on the data: an operator such as NonZero decides it at run time."
            if fixed
            else "The model has dynamic dimensions, and a chip's cost depends on them.",
            remedy="Cut the graph before it with 'outputs'."
            if fixed
            else "Give the sizes of its inputs (input_size_list), then estimate again.",
        )
    return Tensor(name, spec.shape, spec.dtype)


def _filled(node: ir.Node) -> Tensor | None:
    """What a ConstantOfShape of a known shape writes; its numbers are not made until asked for."""
    shape = node.inputs[0] if node.op_type == "ConstantOfShape" and node.inputs else None
    data = constant_of(shape) if shape is not None else None
    if data is None:
        return None
    dims = tuple(int(size) for size in data.numpy())
    attribute = node.attributes.get("value")
    fill = attribute.as_tensor().numpy().reshape(-1)[0] if attribute is not None else np.float32(0)
    name = str(node.outputs[0].name)
    return Tensor(name, dims, fill.dtype.name, lambda: np.broadcast_to(fill, dims), True)


def _node(node: ir.Node) -> Node:
    name = str(node.name)
    return Node(
        op=node.op_type,
        name=name,
        kind=node.op_type,
        inputs=[str(value.name) if value is not None else "" for value in node.inputs],
        outputs=[str(value.name) if value.name else "" for value in node.outputs],
        attributes={key: _plain(attribute) for key, attribute in node.attributes.items()},
        sources=(name,),
    )


def _give_sizes(split: Node, tensors: dict[str, Tensor]) -> None:
    """The compiler makes a constant of the sizes that it works out, as of those that are given."""
    axis = split.int("axis")
    sizes = np.array([tensors[tensor].shape[axis] for tensor in split.outputs], np.int64)
    name = f"{split.name}_split"
    tensors[name] = Tensor(name, sizes.shape, "int64", lambda: sizes)
    split.inputs.append(name)


def _plain(attribute: ir.Attr) -> JsonValue:
    value = attribute.value
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple) and all(isinstance(v, str | int | float) for v in value):
        return list(value)
    return None


T = TypeVar("T")

_QDQ = ("QuantizeLinear", "DequantizeLinear")


def ids_of_sources(layers: LayerMap) -> dict[str, str]:
    """Node of the loaded graph -> ``layer.id``; the first layer where a node became several."""
    ids: dict[str, str] = {}
    for layer in layers.layers:
        for name in (*layer.nodes, *layer.sources):
            ids.setdefault(name, layer.id)
    return ids


def nodes_of_layers(layers: LayerMap, values: Mapping[str, T]) -> dict[str, T]:
    """Entries by ``layer.id`` as entries by each node that the layer comes from.

    An id is the name of a node nearly always, so that it stands for that node as well.
    """
    by_node: dict[str, T] = dict(values)
    for layer in layers.layers:
        value = values.get(layer.id)
        if value is not None:
            by_node.update(dict.fromkeys((*layer.nodes, *layer.sources), value))
    return by_node


def without_qdq(graph: LoweringGraph) -> LoweringGraph:
    """The float graph of a quantized source model: what reads a Q or DQ reads what is before it.

    A weight that is stored in int8 is a constant still. The graph itself is left as it is; it is
    returned where it has no such node.
    """
    if not any(node.op in _QDQ for node in graph.nodes):
        return graph
    tensors = dict(graph.tensors)
    before: dict[str, str] = {}
    outputs = set(graph.outputs)
    kept: list[Node] = []
    for node in graph.copy().nodes:
        node.inputs = [before.get(name, name) for name in node.inputs]
        if node.op not in _QDQ or not node.inputs or not node.outputs:
            kept.append(node)
            continue
        source, target = node.inputs[0], node.outputs[0]
        if target in outputs and not _renamed(kept, source, target, graph.inputs):
            kept.append(node)  # the graph's input is its output: the node stays
            continue
        if target in outputs:
            tensors[target] = tensors.get(source, tensors[target])
            before[source] = before[target] = target
        else:
            before[target] = source
    # what stood before an output was renamed may have been read already
    for node in kept:
        node.inputs = [before.get(name, name) for name in node.inputs]
    return LoweringGraph(kept, tensors, graph.inputs, graph.outputs)


def _renamed(nodes: Iterable[Node], old: str, new: str, inputs: list[str]) -> bool:
    """Whether the node that writes ``old`` writes ``new`` instead."""
    if old in inputs:
        return False
    for node in nodes:
        if old in node.outputs:
            node.outputs = [new if tensor == old else tensor for tensor in node.outputs]
            return True
    return False
