"""QDQ graphs as ONNX Runtime runs them fastest, with the same numbers.

Activations of int8 become uint8; weights that no integer kernel reads are dequantized at once, as
the runtime would do it again in every run.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.base.errors import GraphError
from engine.base.text import sanitize
from engine.graph.execute.means import means_in_stages
from engine.graph.ir.graph import Graph, no_collection
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.spec import add_constant, array_of, constant_of, maker_of, set_input

# int8 q with zero point z and uint8 q + 128 with zero point z + 128 stand for the same number
OFFSET = 128

# operators that only move integers about; a shift by 128 passes through them
_MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
# operators that give values on as they are, or choose among them
_PASSES = _MOVES | {
    *("Clip", "Concat", "DepthToSpace", "Dropout", "Expand", "Gather", "MaxPool", "Max", "Min"),
    *("Pad", "Relu", "Resize", "Slice", "SpaceToDepth", "Split", "Tile"),
}
# operators that hold integers within bounds (input 1 a constant): the bound is shifted with them
_BOUNDS = frozenset({"Max", "Min"})
# operators whose input 1 is a weight; ONNX Runtime has kernels for uint8 inputs with int8 weights
_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_EIGHT_BITS = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
_FOUR_BITS = frozenset({ir.DataType.INT4, ir.DataType.UINT4})
_SIXTEEN_BITS = frozenset({ir.DataType.INT16, ir.DataType.UINT16})


def is_quantized(graph: Graph) -> bool:
    """Whether the graph has Q/DQ nodes."""
    return any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in graph.nodes)


@no_collection()
def lower_for_runtime(graph: Graph) -> Graph:
    """A copy in the form that ONNX Runtime has kernels for.

    Activations of int8 become uint8, with zero points larger by 128. The numbers that the graph
    computes stay the same bit by bit: int8 saturates at -128..127 where uint8 saturates at 0..255,
    and 128 is added to both sides of ``q - zero_point``. ONNX Runtime 1.31 has integer kernels for
    U8S8 on every CPU, for S8S8 only in places (it leaves Conv and Relu in float on x86), and U8S8
    takes about half the time of S8S8 with VNNI.

    Weights (input 1 of Conv, ConvTranspose, Gemm, MatMul) stay int8, biases int32; constants that
    are operands of other operators are lowered with them. A quantized tensor stays int8 where it
    is a graph output or is read by more than DequantizeLinear and operators that move data.

    Constants that no integer kernel can read (16 bits; 4 bits; weights that meet activations of
    another kind than 8 bits) are dequantized here. Without that the runtime would do so in every
    run, and compute 4-bit matrices in ways of its own (MatMulNBits, which rounds the activations).
    Weights of 4 bits that meet 8-bit activations become int8 with zero point 0: ``q - zero_point``
    is at most 15.

    Means of int8 over large windows are taken in stages, as on the chip (:mod:`.means`).

    Names of tensors stay. A graph where nothing of this applies comes back as it is.
    """
    staged = means_in_stages(graph)
    if not any(
        _gives_int8(node) or _reads_int8_constant(node) or _is_folded(node) or _is_widened(node)
        for node in staged.nodes
    ):
        return staged
    copy = graph.copy() if staged is graph else staged
    lowering = _Lowering(copy.model.graph)
    for node in list(copy.model.graph):
        if _gives_int8(node):
            lowering.activation(node)
        elif _is_folded(node):
            lowering.fold(node)
        elif _is_widened(node):
            lowering.widen(node)
        elif _reads_int8_constant(node):
            lowering.operand(node)
    return Graph(copy.model)


@no_collection()
def fold_constants(graph: Graph, *, own: bool = False) -> Graph:
    """A copy in which every dequantized constant is float; the numbers stay bit by bit.

    A graph without any comes back as it is. With ``own`` the graph itself is rewritten, which the
    caller has made and uses no more.
    """
    names = [node.name or "" for node in graph.nodes if _constant_dtype(node) is not None]
    if not names:
        return graph
    copy = graph if own else graph.copy()
    folding = _Lowering(copy.model.graph)
    for name in names:
        folding.fold(copy.node(name))
    return Graph(copy.model)


def _array(value: ir.Value) -> np.ndarray:
    array = array_of(value)
    if array is None:
        raise GraphError(
            f"{sanitize(value.name or '')!r} is not a constant.", remedy="Export the model again."
        )
    return array


def _zero_point(node: ir.Node) -> ir.Value | None:
    return node.inputs[2] if len(node.inputs) > 2 else None


def _gives_int8(node: ir.Node) -> bool:
    if node.op_type != "QuantizeLinear":
        return False
    zero = array_of(_zero_point(node))
    if zero is not None:
        return zero.dtype == np.int8
    output_dtype = node.attributes.get("output_dtype")
    return output_dtype is not None and output_dtype.as_int() == ir.DataType.INT8.value


def _reads_int8_constant(node: ir.Node) -> bool:
    if node.op_type != "DequantizeLinear":
        return False
    tensor = constant_of(node.inputs[0])
    if tensor is None or tensor.dtype != ir.DataType.INT8 or node.outputs[0].is_graph_output():
        return False
    scale = array_of(node.inputs[1])
    readers = [(use.node.op_type, use.idx) for use in node.outputs[0].uses()]
    as_weight = any(op in _WEIGHTED and index == 1 for op, index in readers)
    return scale is not None and scale.size == 1 and bool(readers) and not as_weight


def _meets_integers(reader: ir.Node) -> bool:
    """Whether a weighted node takes 8-bit activations, as integer kernels do.

    ONNX Runtime moves DequantizeLinear behind operators that only pass values on.
    """
    waiting, seen = [reader.inputs[0]], set()
    while waiting:
        value = waiting.pop()
        source = maker_of(value)
        if source is None or source in seen:
            continue
        seen.add(source)
        if source.op_type == "DequantizeLinear" and _stored_in_8_bits(source):
            return True
        if source.op_type in _PASSES:
            waiting.extend(source.inputs)
    return False


def _stored_in_8_bits(node: ir.Node) -> bool:
    zero = array_of(_zero_point(node))
    if zero is not None:
        return zero.dtype in (np.int8, np.uint8)
    return node.inputs[0] is None or node.inputs[0].dtype in (*_EIGHT_BITS, None)


def _constant_dtype(node: ir.Node) -> ir.DataType | None:
    """The stored dtype of the constant that a DequantizeLinear reads; None for anything else."""
    if node.op_type != "DequantizeLinear" or node.outputs[0].is_graph_output():
        return None
    tensor = constant_of(node.inputs[0])
    known = tensor is not None and all(array_of(value) is not None for value in node.inputs[1:])
    return tensor.dtype if tensor is not None and known else None


def _is_folded(node: ir.Node) -> bool:
    dtype = _constant_dtype(node)
    if dtype is None or not node.outputs[0].uses():
        return False
    if dtype in _SIXTEEN_BITS:
        return True
    readers = [(use.node, use.idx) for use in node.outputs[0].uses()]
    weights = all(one.op_type in _WEIGHTED and index > 0 for one, index in readers)
    if dtype in _FOUR_BITS:
        return not _is_widened(node)
    return weights and not any(_meets_integers(one) for one, _ in readers)


def _is_widened(node: ir.Node) -> bool:
    if _constant_dtype(node) not in _FOUR_BITS or node.attributes.get_int("block_size", 0) != 0:
        return False
    readers = [(use.node, use.idx) for use in node.outputs[0].uses()]
    return bool(readers) and all(
        one.op_type in _WEIGHTED and index == 1 and _meets_integers(one) for one, index in readers
    )


def _steps(node: ir.Node) -> tuple[np.ndarray, np.ndarray]:
    """``q - zero_point`` of a constant as int32, and its scale, shaped to multiply it."""
    data, scale_value = node.inputs[:2]
    if data is None or scale_value is None:
        raise GraphError(
            f"{sanitize(node.name or '')!r} lacks an input.", remedy="Export the model again."
        )
    steps: np.ndarray = _array(data).astype(np.int32)
    scale = _array(scale_value).astype(np.float32)
    zero = _zero_point(node)
    zeros = np.zeros(scale.shape, np.int32) if zero is None else _array(zero).astype(np.int32)
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)

    def shaped(array: np.ndarray) -> np.ndarray:
        if block:
            spread = np.repeat(array, block, axis=axis)
            return np.asarray(np.take(spread, range(steps.shape[axis]), axis=axis))
        if array.ndim:
            return array.reshape([-1 if i == axis % steps.ndim else 1 for i in range(steps.ndim)])
        return array

    return steps - shaped(zeros), shaped(scale)


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
        reading = self._readers(node.outputs[0])
        if reading is None:
            return
        tensors, readers, bounds = reading
        for bound in bounds:
            limit = bound.inputs[1]
            if limit is not None:
                bound.replace_input_with(1, self._shift(limit))
        self._raise_zero_point(node)
        node.attributes.pop("output_dtype", None)
        for tensor in tensors:
            tensor.type = ir.TensorType(ir.DataType.UINT8)
        for reader in readers:
            self._raise_zero_point(reader)

    def operand(self, node: ir.Node) -> None:
        """Lower a constant that is no weight, with the DequantizeLinear that reads it."""
        constant = node.inputs[0]
        if constant is None or (node.inputs[2:3] and array_of(_zero_point(node)) is None):
            return
        node.replace_input_with(0, self._shift(constant))
        self._raise_zero_point(node)

    def fold(self, node: ir.Node) -> None:
        """Replace a dequantized constant by its numbers."""
        steps, scale = _steps(node)
        out = node.outputs[0]
        name = out.name or ""
        real = (steps.astype(np.float32) * scale).astype(np.float32)
        out.name = self._names.claim(f"{name}/folded")
        value = self._new(name, real, claimed=True)
        out.replace_all_uses_with(value)
        self._graph.remove(node, safe=True)

    def widen(self, node: ir.Node) -> None:
        """Store a constant of 4 bits in int8, with zero point 0."""
        steps, _ = _steps(node)
        scale = array_of(node.inputs[1])
        zero = np.zeros(() if scale is None else scale.shape, np.int8)
        name = node.outputs[0].name or ""
        node.replace_input_with(0, self._new(f"{name}_s8", steps.astype(np.int8)))
        set_input(node, 2, self._new(f"{name}_zero_s8", zero))

    def _readers(
        self, start: ir.Value
    ) -> tuple[list[ir.Value], list[ir.Node], list[ir.Node]] | None:
        tensors, readers, bounds = [start], [], []
        for tensor in tensors:  # grows while it is read
            if tensor.is_graph_output():
                return None
            for use in tensor.uses():
                if use.idx != 0:
                    return None
                if use.node.op_type == "DequantizeLinear":
                    zero = _zero_point(use.node)
                    if zero is not None and array_of(zero) is None:
                        return None
                    readers.append(use.node)
                elif use.node.op_type in _MOVES:
                    tensors.append(use.node.outputs[0])
                elif use.node.op_type in _BOUNDS and array_of(use.node.inputs[1]) is not None:
                    tensors.append(use.node.outputs[0])
                    bounds.append(use.node)
                else:
                    return None
        return tensors, readers, bounds

    def _raise_zero_point(self, node: ir.Node) -> None:
        zero = _zero_point(node)
        if zero is not None:
            node.replace_input_with(2, self._shift(zero))
            return
        scale = array_of(node.inputs[1])
        size = 1 if scale is None else scale.size
        if size not in self._plain:
            shape = () if scale is None else scale.shape
            self._plain[size] = self._new("zero_point_u8", np.full(shape, OFFSET, np.uint8))
        set_input(node, 2, self._plain[size])

    def _shift(self, value: ir.Value) -> ir.Value:
        if value not in self._shifted:
            raised = (_array(value).astype(np.int16) + OFFSET).astype(np.uint8)
            self._shifted[value] = self._new(f"{value.name}_u8", raised)
        return self._shifted[value]

    def _new(self, hint: str, array: np.ndarray, *, claimed: bool = False) -> ir.Value:
        name = hint if claimed else self._names.claim(hint)
        return add_constant(self._graph, name, array)
