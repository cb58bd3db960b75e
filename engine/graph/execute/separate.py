"""Int8 weights that no two operators share, as ONNX Runtime's precision mode needs them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import UniqueNames

__all__ = ["separate_weights"]


def separate_weights(graph: Graph) -> Graph:
    """A copy in which every operator has int8 weights and zero points of its own.

    ``session.x64quantprecision`` turns int8 weights into uint8 operator by operator and names the
    results after what they were; ONNX Runtime 1.31 then fails on the second operator that has the
    same weight or zero point ("Attempt to replace the existing tensor"). Exporters and passes that
    merge equal constants make such graphs. One without them comes back as it is.
    """
    if not any(True for _ in _shared(graph.model.graph)):
        return graph
    copy = graph.copy()
    inner = copy.model.graph
    names = UniqueNames(set(copy.values) | {node.name or "" for node in inner})
    for node in list(inner):
        if _reads_int8_weight(node):
            for use in list(node.outputs[0].uses())[1:]:
                use.node.replace_input_with(use.idx, _twin(inner, node, names))
    for node, index in list(_shared(inner)):
        value = node.inputs[index]
        if value is not None:
            node.replace_input_with(index, _duplicate(inner, value, names))
    return Graph(copy.model)


def _reads_int8_weight(node: ir.Node) -> bool:
    if node.op_type != "DequantizeLinear" or node.inputs[0] is None:
        return False
    tensor = node.inputs[0].const_value
    return tensor is not None and tensor.dtype == ir.DataType.INT8


def _shared(graph: ir.Graph) -> Iterator[tuple[ir.Node, int]]:
    """(DequantizeLinear, input) whose weight or zero point an earlier one has too.

    A node with several readers counts for its weight: it is one operator's weight and another's.
    """
    seen: set[ir.Value] = set()
    for node in graph:
        if not _reads_int8_weight(node):
            continue
        if len(node.outputs[0].uses()) > 1 and not node.outputs[0].is_graph_output():
            yield node, 0
        for index in (0, 2):
            value = node.inputs[index] if index < len(node.inputs) else None
            if value is None or value.const_value is None:
                continue
            if value in seen:
                yield node, index
            seen.add(value)


def _twin(graph: ir.Graph, node: ir.Node, names: UniqueNames) -> ir.Value:
    """The output of a copy of a DequantizeLinear, with constants of its own."""
    output = node.outputs[0]
    value = ir.Value(name=names.claim(f"{output.name}_own"), type=output.type, shape=output.shape)
    twin = ir.Node(
        node.domain,
        node.op_type,
        node.inputs,
        list(node.attributes.values()),
        outputs=[value],
        name=names.claim(f"{node.name}_own"),
    )
    graph.insert_after(node, twin)
    return value


def _duplicate(graph: ir.Graph, value: ir.Value, names: UniqueNames) -> ir.Value:
    tensor = value.const_value
    if tensor is None:
        raise ValueError(f"{value.name} is no constant")
    name = names.claim(f"{value.name}_own")
    own = ir.Value(
        name=name,
        type=value.type,
        shape=value.shape,
        const_value=ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=name),
    )
    graph.register_initializer(own)
    return own
