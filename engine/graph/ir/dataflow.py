"""Shapes that ONNX's inference leaves open because a size is computed in the graph.

Exporters write ``channels / 2`` as Shape, Gather, Add, Div, Mul; ONNX 1.23 carries constants
through some of these operators but not through Div, so the Slice behind them has no size, nor has
anything after it. Here the small integer tensors are computed, in one walk over the nodes.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from engine.graph.ir.folding import FOLDED, fold
from engine.graph.ir.naming import OPSET, STANDARD_DOMAINS

# Computed tensors are sizes, axes and indices of one tensor; anything larger is data.
_MAX_ELEMENTS = 64


def has_open_shapes(graph: onnx.GraphProto) -> bool:
    """Whether a typed value of the graph has an unknown rank or dimension."""
    # a big graph has few different types: as bytes they are told apart faster than they are read
    seen: set[bytes] = set()
    for value in (*graph.value_info, *graph.output):
        key = value.type.SerializeToString()
        if key in seen:
            continue
        if value.type.HasField("tensor_type") and _is_open(value.type):
            return True
        seen.add(key)
    return False


def _is_open(kind: onnx.TypeProto) -> bool:
    if not kind.tensor_type.HasField("shape"):
        return True
    return any(not dim.HasField("dim_value") for dim in kind.tensor_type.shape.dim)


def complete_shapes(proto: onnx.ModelProto) -> None:
    """Fill open shapes of inner values and outputs, in place; linear in the number of nodes.

    Args:
        proto: at the pinned opset, after ONNX's own inference.
    """
    graph = proto.graph
    types = {v.name: v.type for v in (*graph.value_info, *graph.output, *graph.input)}
    constants: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        types.setdefault(tensor.name, _type_of(tensor))
        _note(constants, tensor.name, tensor)
    infos = {value.name: value for value in (*graph.value_info, *graph.output)}
    imports = list(proto.opset_import)
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    _note(constants, node.output[0], attribute.t)
        if any(name and (name not in types or _is_open(types[name])) for name in node.output):
            _infer(node, types, constants, imports, proto.ir_version)
        _evaluate(node, types, constants)
    for name, info in infos.items():
        if _is_open(info.type) and name in types:
            info.type.CopyFrom(types[name])
    for node in graph.node:
        for name in node.output:
            if name and name in types and name not in infos:
                graph.value_info.add(name=name).type.CopyFrom(types[name])


def _type_of(tensor: onnx.TensorProto) -> onnx.TypeProto:
    return onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))


def _note(constants: dict[str, np.ndarray], name: str, tensor: onnx.TensorProto) -> None:
    numbers = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.FLOAT)
    if math.prod(tensor.dims) <= _MAX_ELEMENTS and tensor.data_type in numbers:
        constants[name] = numpy_helper.to_array(tensor)


def _infer(
    node: onnx.NodeProto,
    types: dict[str, onnx.TypeProto],
    constants: dict[str, np.ndarray],
    imports: list[onnx.OperatorSetIdProto],
    ir_version: int,
) -> None:
    inputs = {name: types[name] for name in node.input if name and name in types}
    if len(inputs) != len({name for name in node.input if name}):
        return
    data = {
        name: numpy_helper.from_array(np.ascontiguousarray(constants[name]), name)
        for name in node.input
        if name in constants
    }
    try:
        schema = onnx.defs.get_schema(node.op_type, OPSET, node.domain)
        inferred = onnx.shape_inference.infer_node_outputs(
            schema, node, inputs, data, opset_imports=imports, ir_version=ir_version
        )
    except (
        onnx.defs.SchemaError,
        onnx.shape_inference.InferenceError,
        RuntimeError,
        ValueError,
    ):
        return  # the whole graph was checked before; a shape that stays open is not an error
    for name, kind in inferred.items():
        if name not in types or _is_open(types[name]):
            types[name] = kind


def _evaluate(
    node: onnx.NodeProto, types: dict[str, onnx.TypeProto], constants: dict[str, np.ndarray]
) -> None:
    if node.op_type in ("Shape", "Size"):
        kind = types.get(node.input[0])
        if kind is not None and not _is_open(kind) and not node.attribute:
            dims = np.array([dim.dim_value for dim in kind.tensor_type.shape.dim], np.int64)
            constants[node.output[0]] = dims if node.op_type == "Shape" else dims.prod()
        return
    known = all(not name or name in constants for name in node.input)
    if node.op_type not in FOLDED or node.domain not in STANDARD_DOMAINS or not known:
        return
    attributes = {
        held.name: numpy_helper.to_array(held.t)
        if held.HasField("t")
        else onnx.helper.get_attribute_value(held)
        for held in node.attribute
    }
    arrays = [constants.get(name) for name in node.input]
    try:
        array = fold(node.op_type, arrays, attributes, largest=_MAX_ELEMENTS)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError):
        return
    if array.size <= _MAX_ELEMENTS and array.dtype.kind in "bif":
        constants[node.output[0]] = array
