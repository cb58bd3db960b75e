"""Int8 weights that no two operators share, as ONNX Runtime's precision mode needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import UniqueNames

__all__ = ["duplicate_shared_weights"]


def duplicate_shared_weights(graph: Graph) -> Graph:
    """A copy in which every operator has int8 weights and zero points of its own.

    ``session.x64quantprecision`` turns int8 weights into uint8 operator by operator and names the
    results after what they were; ONNX Runtime 1.31 then fails on the second operator that has the
    same weight or zero point ("Attempt to replace the existing tensor"). Exporters and passes that
    merge equal constants make such graphs. One without them comes back as it is.

    What is computed from constants and shapes alone counts as a weight: ONNX Runtime computes it
    while it loads the graph.
    """
    if not any(True for _ in _shared(graph.model.graph, _fixed(graph.model.graph))):
        return graph
    copy = graph.copy()
    inner = copy.model.graph
    fixed = _fixed(inner)
    names = UniqueNames(set(copy.values) | {node.name or "" for node in inner})
    for node in list(inner):
        if _reads_int8_weight(node, fixed):
            for use in list(node.outputs[0].uses())[1:]:
                use.node.replace_input_with(use.idx, _twin(inner, node, names))
    for node, index in list(_shared(inner, _fixed(inner))):
        value = node.inputs[index]
        if value is not None:
            node.replace_input_with(index, _duplicate(inner, value, names))
    return Graph(copy.model)


def _fixed(graph: ir.Graph) -> set[ir.Value]:
    """Tensors that nodes compute from constants and shapes alone."""
    found: set[ir.Value] = set()
    for node in graph:
        if node.op_type in ("Constant", "Shape", "Size") or (
            node.inputs
            and all(v is None or v in found or v.const_value is not None for v in node.inputs)
        ):
            found.update(node.outputs)
    return found


def _reads_int8_weight(node: ir.Node, fixed: set[ir.Value]) -> bool:
    stored = node.inputs[0] if node.op_type == "DequantizeLinear" else None
    if stored is None:
        return False
    if stored in fixed:
        return stored.dtype == ir.DataType.INT8
    return stored.const_value is not None and stored.const_value.dtype == ir.DataType.INT8


def _shared(graph: ir.Graph, fixed: set[ir.Value]) -> Iterator[tuple[ir.Node, int]]:
    """(DequantizeLinear, input) whose weight or zero point an earlier one has too.

    A node with several readers counts for its weight: it is one operator's weight and another's.
    Nodes that quantize such numbers have zero points of their own too, or equal ones become one.
    """
    seen: set[ir.Value] = set()
    for node in graph:
        quantizes = node.op_type == "QuantizeLinear" and node.outputs[0] in fixed
        if not quantizes and not _reads_int8_weight(node, fixed):
            continue
        if (
            not quantizes
            and len(node.outputs[0].uses()) > 1
            and not node.outputs[0].is_graph_output()
        ):
            yield node, 0
        for index in (2,) if quantizes else (0, 2):
            value = node.inputs[index] if index < len(node.inputs) else None
            if value is None or value.const_value is None:
                continue
            if value in seen:
                yield node, index
            seen.add(value)


def _twin(graph: ir.Graph, node: ir.Node, names: UniqueNames) -> ir.Value:
    """The output of a copy of a DequantizeLinear, with constants of its own."""
    stored = node.inputs[0]
    quantizer = None if stored is None else stored.producer()
    inputs = list(node.inputs)
    if quantizer is not None:
        inputs[0] = _copied(graph, quantizer, quantizer.inputs, names)
    return _copied(graph, node, inputs, names)


def _copied(
    graph: ir.Graph, node: ir.Node, inputs: Sequence[ir.Value | None], names: UniqueNames
) -> ir.Value:
    output = node.outputs[0]
    value = ir.Value(name=names.claim(f"{output.name}_own"), type=output.type, shape=output.shape)
    twin = ir.Node(
        node.domain,
        node.op_type,
        inputs,
        list(node.attributes.values()),
        outputs=[value],
        name=names.claim(f"{node.name}_own"),
    )
    graph.insert_after(node, twin)
    return value


def _duplicate(graph: ir.Graph, value: ir.Value, names: UniqueNames) -> ir.Value:
    tensor = value.const_value
    if tensor is None:
        raise ValueError(f"{value.name} is not a constant")
    name = names.claim(f"{value.name}_own")
    own = ir.Value(
        name=name,
        type=value.type,
        shape=value.shape,
        const_value=ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=name),
    )
    graph.register_initializer(own)
    return own
