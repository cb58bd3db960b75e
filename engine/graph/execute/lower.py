"""QDQ graphs as ONNX Runtime runs them fastest: int8 activations become uint8."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import printable
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.spec import constant_of

__all__ = ["OFFSET", "is_quantized", "lower_for_runtime"]

# int8 q with zero point z and uint8 q + 128 with zero point z + 128 stand for the same number
OFFSET = 128

# operators that only move integers about; a shift by 128 passes through them
_MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
# operators whose input 1 is a weight; ONNX Runtime has kernels for uint8 inputs with int8 weights
_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def is_quantized(graph: Graph) -> bool:
    """Whether the graph has Q/DQ nodes."""
    return any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in graph.nodes)


def lower_for_runtime(graph: Graph) -> Graph:
    """A copy whose int8 activations are uint8, with zero points larger by 128.

    The numbers that the graph computes stay the same bit by bit: int8 saturates at -128..127 where
    uint8 saturates at 0..255, and 128 is added to both sides of ``q - zero_point``. ONNX Runtime
    1.31 has integer kernels for U8S8 on every CPU, for S8S8 only in places (it leaves Conv and Relu
    in float on x86), and U8S8 takes about half the time of S8S8 with VNNI.

    Weights (input 1 of Conv, ConvTranspose, Gemm, MatMul) stay int8, biases int32; constants that
    are operands of other operators are lowered with them. A quantized tensor stays int8 where it
    is a graph output or is read by more than DequantizeLinear and operators that move data.
    Names of tensors stay. A graph without int8 activations comes back as it is.
    """
    if not any(_gives_int8(node) or _reads_int8_constant(node) for node in graph.nodes):
        return graph
    copy = graph.copy()
    lowering = _Lowering(copy.model.graph)
    for node in list(copy.model.graph):
        if _gives_int8(node):
            lowering.activation(node)
        elif _reads_int8_constant(node):
            lowering.operand(node)
    return Graph(copy.model)


def _constant(value: ir.Value | None) -> np.ndarray | None:
    tensor = constant_of(value)
    return None if tensor is None else tensor.numpy()


def _array(value: ir.Value) -> np.ndarray:
    array = _constant(value)
    if array is None:
        raise GraphError(f"{printable(value.name or '')!r} is no constant.")
    return array


def _zero_point(node: ir.Node) -> ir.Value | None:
    return node.inputs[2] if len(node.inputs) > 2 else None


def _gives_int8(node: ir.Node) -> bool:
    if node.op_type != "QuantizeLinear":
        return False
    zero = _constant(_zero_point(node))
    if zero is not None:
        return zero.dtype == np.int8
    wanted = node.attributes.get("output_dtype")
    return wanted is not None and wanted.as_int() == ir.DataType.INT8.value


def _reads_int8_constant(node: ir.Node) -> bool:
    if node.op_type != "DequantizeLinear":
        return False
    tensor = constant_of(node.inputs[0])
    if tensor is None or tensor.dtype != ir.DataType.INT8 or node.outputs[0].is_graph_output():
        return False
    scale = _constant(node.inputs[1])
    readers = [(use.node.op_type, use.idx) for use in node.outputs[0].uses()]
    as_weight = any(op in _WEIGHTED and index == 1 for op, index in readers)
    return scale is not None and scale.size == 1 and bool(readers) and not as_weight


class _Lowering:
    """Rewrites one graph; zero points and constants that several nodes share stay shared."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        names = {value.name or "" for node in graph for value in node.outputs}
        names.update(graph.initializers)
        names.update(value.name or "" for value in graph.inputs)
        self._names = UniqueNames(names)
        self._shifted: dict[ir.Value, ir.Value] = {}
        self._plain: dict[int, ir.Value] = {}

    def activation(self, node: ir.Node) -> None:
        """Lower the output of a QuantizeLinear, where every reader can take it."""
        found = self._readers(node.outputs[0])
        if found is None:
            return
        tensors, readers = found
        self._raise_zero_point(node)
        node.attributes.pop("output_dtype", None)
        for tensor in tensors:
            tensor.type = ir.TensorType(ir.DataType.UINT8)
        for reader in readers:
            self._raise_zero_point(reader)

    def operand(self, node: ir.Node) -> None:
        """Lower a constant that is no weight, with the DequantizeLinear that reads it."""
        constant = node.inputs[0]
        if constant is None or (node.inputs[2:3] and _constant(_zero_point(node)) is None):
            return
        node.replace_input_with(0, self._shift(constant))
        self._raise_zero_point(node)

    def _readers(self, start: ir.Value) -> tuple[list[ir.Value], list[ir.Node]] | None:
        tensors, readers = [start], []
        for tensor in tensors:  # grows while it is read
            if tensor.is_graph_output():
                return None
            for use in tensor.uses():
                if use.idx != 0:
                    return None
                if use.node.op_type == "DequantizeLinear":
                    zero = _zero_point(use.node)
                    if zero is not None and _constant(zero) is None:
                        return None
                    readers.append(use.node)
                elif use.node.op_type in _MOVES:
                    tensors.append(use.node.outputs[0])
                else:
                    return None
        return tensors, readers

    def _raise_zero_point(self, node: ir.Node) -> None:
        zero = _zero_point(node)
        if zero is not None:
            node.replace_input_with(2, self._shift(zero))
            return
        scale = _constant(node.inputs[1])
        size = 1 if scale is None else scale.size
        if size not in self._plain:
            shape = () if scale is None else scale.shape
            self._plain[size] = self._new("zero_point_u8", np.full(shape, OFFSET, np.uint8))
        node.resize_inputs(3)
        node.replace_input_with(2, self._plain[size])

    def _shift(self, value: ir.Value) -> ir.Value:
        if value not in self._shifted:
            raised = (_array(value).astype(np.int16) + OFFSET).astype(np.uint8)
            self._shifted[value] = self._new(f"{value.name}_u8", raised)
        return self._shifted[value]

    def _new(self, wish: str, array: np.ndarray) -> ir.Value:
        name = self._names.claim(wish)
        tensor = ir.tensor(array, name=name)
        value = ir.Value(
            name=name,
            shape=ir.Shape(array.shape),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self._graph.register_initializer(value)
        return value
