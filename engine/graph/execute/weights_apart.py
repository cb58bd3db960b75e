"""The message of a graph without its large constants, which a session is given beside it.

A session of a message with all weights in it holds them three times while it is opened: as arrays,
in the message, and as ONNX Runtime parsed them. Opening ResNet-18 (45 MB) takes a fifth of the time
where it is given the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import serde

from engine.graph.ir.graph import Graph, no_collection
from engine.graph.ir.weightless import weightless_proto

__all__ = ["constants_apart", "elsewhere", "message_and_weights"]

_INLINE = 4096
"""Bytes of a constant up to which it stays in the message."""
_PLAIN = frozenset("fiub")  # kinds of numpy's types that ONNX Runtime takes as they are


def constants_apart(graph: Graph) -> tuple[onnx.ModelProto, dict[str, ir.TensorProtocol]]:
    """The message of a graph in which nothing is said of its large constants, and those by name.

    The graph is only read. Constants that are outputs stay in the message, and so do those whose
    type numpy has not; those that nothing reads are left out.
    """
    with no_collection():
        proto = weightless_proto(graph.model)
    inner, constants = proto.graph, graph.model.graph.initializers
    declared = [value.name for value in inner.input if value.name in constants]
    inputs = [value for value in inner.input if value.name not in constants]
    del inner.input[:]
    inner.input.extend(inputs)
    apart: dict[str, ir.TensorProtocol] = {}
    for name in declared:
        value = constants[name]
        tensor = value.const_value
        # ONNX Runtime forgets a constant that nothing reads, and then misses it
        if tensor is None or not (value.uses() or value.is_graph_output()):
            continue
        if _is_apart(tensor) and not value.is_graph_output():
            apart[name] = tensor
        else:
            inner.initializer.append(serde.serialize_tensor(tensor))
            inner.initializer[-1].name = name
    return proto, apart


def message_and_weights(graph: Graph) -> tuple[bytes, Mapping[str, np.ndarray]]:
    """The serialised message that names its large constants as being elsewhere, and their values,
    which must live as long as a session of it.
    """
    proto, apart = constants_apart(graph)
    weights = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in apart.items()}
    proto.graph.initializer.extend(elsewhere(name, array) for name, array in weights.items())
    return proto.SerializeToString(), weights


def elsewhere(name: str, array: np.ndarray) -> onnx.TensorProto:
    """A constant whose values a session is given apart from the message."""
    tensor = onnx.TensorProto(name=name, dims=array.shape)
    tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "memory"), ("offset", 0), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _is_apart(tensor: ir.TensorProtocol) -> bool:
    plain = tensor.dtype.bitwidth >= 8 and tensor.dtype.numpy().kind in _PLAIN
    return plain and tensor.nbytes > _INLINE
