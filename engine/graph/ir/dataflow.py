"""Shapes that ONNX's inference leaves open because a size is computed in the graph.

Exporters write ``channels / 2`` as Shape, Gather, Add, Div, Mul; ONNX 1.23 carries constants
through some of these operators but not through Div, so the Slice behind them has no size, nor has
anything after it. Here the small integer tensors are computed, in one walk over the nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import numpy_helper

from engine.graph.ir.constants import OPSET

# Computed tensors are sizes, axes and indices of one tensor; anything larger is data.
_MAX_ELEMENTS = 64

Arrays = list[np.ndarray]
Evaluator = Callable[[onnx.NodeProto, Arrays], np.ndarray]


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
    count = 1
    for dim in tensor.dims:
        count *= dim
    numbers = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.FLOAT)
    if count <= _MAX_ELEMENTS and tensor.data_type in numbers:
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
    evaluator = _EVALUATORS.get(node.op_type)
    if evaluator is None or not all(name in constants for name in node.input):
        return
    try:
        array = np.asarray(evaluator(node, [constants[name] for name in node.input]))
    except (ValueError, IndexError, ZeroDivisionError, TypeError, OverflowError):
        return
    if array.size <= _MAX_ELEMENTS and array.dtype.kind in "if":
        constants[node.output[0]] = array


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), default)


def _divide(_: onnx.NodeProto, args: Arrays) -> np.ndarray:
    a, b = args
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if (b == 0).any():
        raise ZeroDivisionError
    # ONNX divides integers as C does: towards zero
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def _slice(_: onnx.NodeProto, args: Arrays) -> np.ndarray:
    data, starts, ends = args[:3]
    axes = args[3] if len(args) > 3 else np.arange(len(starts))
    steps = args[4] if len(args) > 4 else np.ones(len(starts), np.int64)
    window: list[slice] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise ValueError("a step of zero")
        # an end far before the first one, as exporters write it, takes all that is left
        last = None if step < 0 and end < -data.shape[int(axis)] else int(end)
        window[int(axis)] = slice(int(start), last, int(step))
    return data[tuple(window)]


def _cast(node: onnx.NodeProto, args: Arrays) -> np.ndarray:
    return args[0].astype(onnx.helper.tensor_dtype_to_np_dtype(_attribute(node, "to", 7)))


def _squeeze(_: onnx.NodeProto, args: Arrays) -> np.ndarray:
    axes = tuple(int(axis) for axis in args[1]) if len(args) > 1 else None
    return np.squeeze(args[0], axes)


def _reshape(node: onnx.NodeProto, args: Arrays) -> np.ndarray:
    kept = not _attribute(node, "allowzero", 0)
    dims = [args[0].shape[at] if not n and kept else int(n) for at, n in enumerate(args[1])]
    return args[0].reshape(dims)


def _transpose(node: onnx.NodeProto, args: Arrays) -> np.ndarray:
    perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
    return np.transpose(args[0], perm)


def _filled(node: onnx.NodeProto, args: Arrays) -> np.ndarray:
    if int(np.prod(args[0])) > _MAX_ELEMENTS:
        raise ValueError("too many numbers")
    fill = next((numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"), None)
    return np.full(args[0], np.float32(0) if fill is None else fill.reshape(-1)[0])


_EVALUATORS: dict[str, Evaluator] = {
    "Add": lambda _, a: a[0] + a[1],
    "Sub": lambda _, a: a[0] - a[1],
    "Mul": lambda _, a: a[0] * a[1],
    "Div": _divide,
    "Equal": lambda _, a: (a[0] == a[1]).astype(np.int64),
    "Where": lambda _, a: np.where(a[0], a[1], a[2]),
    "Mod": lambda _, a: np.mod(a[0], a[1]),
    "Neg": lambda _, a: -a[0],
    "Floor": lambda _, a: np.floor(a[0]),
    "Ceil": lambda _, a: np.ceil(a[0]),
    "Max": lambda _, a: np.max(np.broadcast_arrays(*a), axis=0),
    "Min": lambda _, a: np.min(np.broadcast_arrays(*a), axis=0),
    "Cast": _cast,
    "Identity": lambda _, a: a[0],
    "Gather": lambda n, a: np.take(a[0], a[1], axis=_attribute(n, "axis", 0)),
    "ConstantOfShape": _filled,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Concat": lambda n, a: np.concatenate(a, axis=_attribute(n, "axis", 0)),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": lambda _, a: np.expand_dims(a[0], tuple(int(axis) for axis in a[1])),
}
