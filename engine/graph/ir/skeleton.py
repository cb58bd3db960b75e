"""Graphs without their weights, for ONNX's C++ checks: those copy whatever they are given."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx_ir import serde

__all__ = ["SMALL_BYTES", "skeleton", "strip_weights"]

# Constants up to this size stay: shape inference and version conversion read shapes, axes and
# scales from them. All others become inputs of the same type.
SMALL_BYTES = 1024


def skeleton(model: ir.Model) -> onnx.ModelProto:
    """The model as protobuf, with every constant above ``SMALL_BYTES`` turned into a graph input.

    The model is only read, so that another thread may do the same.
    """
    proto = onnx.ModelProto(ir_version=model.ir_version)
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    source, target = model.graph, proto.graph
    target.name = source.name or "graph"
    for value in source.inputs:
        target.input.append(serde.serialize_value(value))
    for name, value in source.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.nbytes <= SMALL_BYTES:
            target.initializer.append(serde.serialize_tensor(tensor))
            target.initializer[-1].name = name
        elif tensor is not None:
            element = int(tensor.dtype)
            target.input.append(
                onnx.helper.make_tensor_value_info(name, element, list(tensor.shape.numpy()))
            )
    for node in source:
        serde.serialize_node_into(target.node.add(), node)
        for value in node.outputs:
            if value.name and value.type is not None and not value.is_graph_output():
                target.value_info.append(serde.serialize_value(value))
    for value in source.outputs:
        target.output.append(serde.serialize_value(value))
    return proto


def strip_weights(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Take the initializers above ``SMALL_BYTES`` out of a protobuf graph, in place.

    Each becomes a graph input of its type and shape.

    Returns:
        The tensors taken, by name, in their order; the message owns them no longer.
    """
    kept: list[onnx.TensorProto] = []
    taken: dict[str, onnx.TensorProto] = {}
    for tensor in graph.initializer:
        if tensor.ByteSize() <= SMALL_BYTES:
            kept.append(tensor)
        else:
            taken[tensor.name] = tensor
    if taken:
        names = {value.name for value in graph.input}
        graph.input.extend(
            onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
            for name, tensor in taken.items()
            if name not in names
        )
        del graph.initializer[:]
        graph.initializer.extend(kept)
    return taken
