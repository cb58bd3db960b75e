"""Graphs without their weights, for ONNX's C++ checks, which copy every tensor."""

from __future__ import annotations

from collections.abc import MutableSequence

import onnx
import onnx_ir as ir
from onnx_ir import serde

# Constants up to this size stay: shape inference and version conversion read shapes, axes and
# scales from them. All others become inputs of the same type.
SMALL_BYTES = 1024


def weightless_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as protobuf, with every constant above ``SMALL_BYTES`` turned into a graph input.

    The model is only read, so that another thread may do the same.
    """
    proto = onnx.ModelProto(ir_version=model.ir_version)
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    source, target = model.graph, proto.graph
    target.name = source.name or "graph"
    types: dict[tuple[ir.DataType, tuple[object, ...]], onnx.TypeProto] = {}
    for value in source.inputs:
        _declare(target.input, value, types)
    for name, value in source.initializers.items():
        tensor = value.const_value
        if tensor is not None and _is_small(tensor):
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
                _declare(target.value_info, value, types)
    for value in source.outputs:
        _declare(target.output, value, types)
    return proto


def _is_small(tensor: ir.TensorProtocol) -> bool:
    # a tensor still in its message is counted there, without making a shape of it
    if isinstance(tensor, serde.TensorProtoTensor) and tensor.raw.HasField("raw_data"):
        return len(tensor.raw.raw_data) <= SMALL_BYTES
    return bool(tensor.nbytes <= SMALL_BYTES)


def _declare(
    infos: MutableSequence[onnx.ValueInfoProto],
    value: ir.Value,
    types: dict[tuple[ir.DataType, tuple[object, ...]], onnx.TypeProto],
) -> None:
    """Add name and type of a value; a big graph has few different types, each is made once."""
    kind, shape = value.type, value.shape
    if type(kind) is ir.TensorType and shape is not None and shape.is_static():
        key = (kind.dtype, shape.dims)
        known = types.get(key)
        if known is None:
            known = types[key] = serde.serialize_value(value).type
        infos.append(onnx.ValueInfoProto(name=value.name, type=known))
    else:
        infos.append(serde.serialize_value(value))


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
