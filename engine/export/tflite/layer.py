"""A node of the graph as one layer of the file: what it reads, what it writes, how it computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.export.tflite.emitter import (
    Constant,
    Emitter,
    Form,
    Operand,
    Target,
    constant_array,
    refused,
)
from engine.export.tflite.writer import Quant
from engine.frontends.tflite.schema import RELU, RELU6
from engine.graph.ir import Graph

_FUSED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Sub", "Mul"})
"""Operators that have a fused activation in TFLite."""


@dataclass(frozen=True)
class Layer:
    """A node, and the activation and quantization behind it.

    Attributes:
        inputs: operands and constants in the node's order; None for one that is left out.
        outputs: where it writes, one for each output that is used.
        quantized: whether it computes with integers.
        done: nodes behind it that it has taken in.
    """

    node: ir.Node
    inputs: tuple[Operand | Constant | None, ...]
    outputs: tuple[Target, ...]
    quantized: bool
    done: tuple[ir.Node, ...]

    @property
    def data(self) -> Operand:
        """Its first input; UnsupportedOperatorError where that is a constant."""
        first = self.inputs[0]
        if not isinstance(first, Operand):
            raise refused(self.node, "its first input is a constant")
        return first

    def read(self, emitter: Emitter, form: Form) -> int:
        """The tensor of its first input: integers, or float32 where it computes in that."""
        if self.quantized:
            return emitter.read(self.data, form)
        return emitter.as_float(self.data, form)

    @property
    def target(self) -> Target:
        """Its only output."""
        return self.outputs[0]

    def constant(self, index: int) -> Constant | None:
        """A constant input; None where it is left out.

        Raises:
            UnsupportedOperatorError: it is computed.
        """
        operand = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(operand, Operand):
            raise refused(self.node, f"its input {index} is computed, not a constant")
        return operand

    def required(self, index: int, why: str) -> Constant:
        """A constant input that must be there; ``why`` tells of one that is not.

        Raises:
            UnsupportedOperatorError: it is left out, or computed.
        """
        constant = self.constant(index)
        if constant is None:
            raise refused(self.node, why)
        return constant

    def ints(self, index: int) -> list[int]:
        """The values of a constant input of integers; empty where it is left out."""
        constant = self.constant(index)
        return [] if constant is None else constant.ints()

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the node; text as ``str``."""
        attribute = self.node.attributes.get(name)
        value = default if attribute is None else attribute.value
        return value.decode() if isinstance(value, bytes) else value

    @property
    def axes(self) -> list[int]:
        """The axes of a reduction: its second input, or its attribute; all where there are none."""
        axes = self.ints(1) or [int(axis) for axis in self.attribute("axes", ())]
        if not axes and self.attribute("noop_with_empty_axes", 0):
            return []
        return axes or list(range(len(self.data.shape)))

    @property
    def computes_float(self) -> bool:
        """Whether what it writes are floats in the file."""
        return any(target.kind == "float32" for target in self.outputs)

    @property
    def activation(self) -> int:
        """The number of the activation that is fused."""
        return self.target.activation


def shape_of(value: ir.Value, node: ir.Node) -> tuple[int, ...]:
    """The shape of a tensor; UnsupportedOperatorError where it is not fixed."""
    if value.shape is None or value.shape.is_dynamic():
        raise refused(node, "a shape is not fixed")
    return tuple(int(size) for size in value.shape.numpy())


def quant_of(node: ir.Node) -> Quant:
    """The parameters of a Q or DQ node, as of int8: an unsigned zero point moves by 128.

    Raises:
        UnsupportedOperatorError: they are of another type than 8 bits.
    """
    scale = constant_array(node.inputs[1])
    zero = constant_array(node.inputs[2]) if len(node.inputs) > 2 else None
    if scale is None:
        raise refused(node, "its scale is computed")
    dtype = "uint8" if zero is None else zero.dtype.name
    if dtype not in ("int8", "uint8", "int32"):
        raise refused(node, f"TFLite files of 8 bits have no {dtype} tensors")
    points = np.zeros(scale.size, np.int64) if zero is None else zero.reshape(-1).astype(np.int64)
    if dtype == "uint8":
        points = points - 128
    axis = node.attributes.get("axis")
    where = int(axis.value) if axis is not None and scale.size > 1 else 0
    return Quant(tuple(map(float, scale.reshape(-1))), tuple(map(int, points)), where)


_SUBGRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_OPSET = 21


class Known:
    """What a graph says of its tensors, before any of it is written.

    Attributes:
        outputs: of the graph.
        constant: nodes that read constants alone: computed where their result is read.
        quants: parameters of tensors that are stored on 8 bits, also of those that are moved as
            they are stored, before a DQ or behind a Q.
    """

    def __init__(self, graph: Graph) -> None:
        nodes = list(graph.nodes)
        self.outputs = frozenset(graph.model.graph.outputs)
        self.constant: set[ir.Node] = set()
        for node in nodes:
            values = [value for value in node.inputs if value is not None]
            fixed = all(v.const_value is not None or v.producer() in self.constant for v in values)
            inner = any(attribute.type in _SUBGRAPHS for attribute in node.attributes.values())
            if fixed and not inner and (values or node.op_type == "Constant"):
                self.constant.add(node)
        self.quants = _quants([node for node in nodes if node not in self.constant])
        self._computed: dict[ir.Node, list[np.ndarray]] = {}

    def array(self, value: ir.Value | None) -> np.ndarray | None:
        """The values of a constant, computed where a node gives it; None of anything else."""
        array = constant_array(value)
        if array is not None or value is None:
            return array
        producer = value.producer()
        if producer is None or producer not in self.constant:
            return None
        if producer not in self._computed:
            operands = [self.array(operand) for operand in producer.inputs if operand is not None]
            if any(operand is None for operand in operands):
                return None
            self._computed[producer] = evaluated(producer, [g for g in operands if g is not None])
        return self._computed[producer][list(producer.outputs).index(value)]


_MOVED = frozenset(
    {"Clip", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "Identity"}
    | {"Max", "MaxPool", "Min", "Pad", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split"}
    | {"Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"}
)
"""Operators that integers of 8 bits pass without new parameters."""

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


def _quants(nodes: list[ir.Node]) -> dict[ir.Value, Quant]:
    quants: dict[ir.Value, Quant] = {}
    for node in nodes:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        value = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
        if value is not None and value.dtype in _BYTES:
            quants[value] = quant_of(node)
    moved = [node for node in nodes if node.op_type in _MOVED]
    for nodes_in_order, known, new in (
        (reversed(moved), "outputs", "inputs"),
        (moved, "inputs", "outputs"),
    ):
        for node in nodes_in_order:
            quant = next((quants[value] for value in getattr(node, known) if value in quants), None)
            for value in getattr(node, new):
                if quant is not None and value is not None and value.dtype in _BYTES:
                    quants.setdefault(value, quant)
    return quants


def layer_of(node: ir.Node, known: Known) -> Layer:
    """A node as a layer.

    Args:
        node: no Q and no DQ, and no constant.

    Raises:
        UnsupportedOperatorError: a shape or a number format has no place in the file.
    """
    inputs = tuple(_input(value, node, known) for value in node.inputs)
    used = [value for value in node.outputs if value.uses() or value in known.outputs]
    targets, done = [], []
    for value in used:
        target, taken = _target(value, node, known)
        targets.append(target)
        done += taken
    # conditions and indices have no parameters, and a layer with such results computes in float
    computed = [operand for operand in inputs if isinstance(operand, Operand) and operand.is_real]
    quantized = (
        bool(computed)
        and all(operand.quant is not None for operand in computed)
        and all(target.quant is not None for target in targets)
    )
    if not quantized:  # nothing behind it is taken in: activations and Q are layers of their own
        targets, done = [Target(value, None, shape_of(value, node)) for value in used], []
    return Layer(node, inputs, tuple(targets), quantized, tuple(done))


def operand_of(value: ir.Value, node: ir.Node, known: Known) -> Operand:
    """A computed tensor that ``node`` reads, as it is stored: before a DQ where one gives it."""
    producer, shape = value.producer(), shape_of(value, node)
    if producer is not None and producer.op_type == "DequantizeLinear" and producer.inputs[0]:
        return Operand(producer.inputs[0], quant_of(producer), shape)
    return Operand(value, known.quants.get(value), shape)


def _input(value: ir.Value | None, node: ir.Node, known: Known) -> Operand | Constant | None:
    if value is None:
        return None
    producer = value.producer()
    kind = "" if producer is None else producer.op_type
    if kind == "Cast" and producer in known.constant:  # a weight of a float16 layer
        operand = _input(producer.inputs[0], producer, known)
        if isinstance(operand, Constant) and operand.array.dtype.kind in "fiu" and _is_real(value):
            return operand
    if producer is None or kind != "DequantizeLinear":
        array = known.array(value)
        return operand_of(value, node, known) if array is None else Constant(array, None)
    quant, array = quant_of(producer), known.array(producer.inputs[0])
    if array is None:
        return operand_of(value, node, known)
    if array.dtype == np.uint8:
        array = (array.astype(np.int16) - 128).astype(np.int8)
    return Constant(array, quant)


def _is_real(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


def evaluated(node: ir.Node, given: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a node gives, by onnx's reference.

    Args:
        given: a value for each input that is not left out, in their order; they may be of another
            type than in the graph where the operator takes any.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    proto = ir.serde.serialize_node(node)
    feeds = {f"i{at}": array for at, array in enumerate(given)}
    names = iter(feeds)
    for at, value in enumerate(node.inputs):
        proto.input[at] = "" if value is None else next(names)
    opset = getattr(node.graph, "opset_imports", {}).get("", _OPSET)
    kinds = onnx.helper.np_dtype_to_tensor_dtype
    graph = onnx.helper.make_graph(
        [proto],
        "constant",
        [
            onnx.helper.make_tensor_value_info(name, kinds(array.dtype), array.shape)
            for name, array in feeds.items()
        ],
        [onnx.helper.make_empty_tensor_value_info(name) for name in proto.output],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return [np.asarray(output) for output in ReferenceEvaluator(model).run(None, feeds)]


def _target(value: ir.Value, node: ir.Node, known: Known) -> tuple[Target, list[ir.Node]]:
    """Where an output goes: into one Q, behind a fused activation at most; else it is float."""
    outputs = known.outputs
    activation, taken, last = 0, [], value
    reader = _only_reader(last, outputs)
    if reader is not None and node.op_type in _FUSED:
        fused = _activation(reader)
        if fused:
            activation, last = fused, reader.outputs[0]
            taken.append(reader)
            reader = _only_reader(last, outputs)
    if reader is not None and reader.op_type == "QuantizeLinear":
        quant = quant_of(reader)
        if len(quant.scale) == 1:
            shape = shape_of(value, node)
            return Target(reader.outputs[0], quant, shape, activation), [*taken, reader]
    return Target(value, known.quants.get(value), shape_of(value, node)), []


def _only_reader(value: ir.Value, outputs: frozenset[ir.Value]) -> ir.Node | None:
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and value not in outputs else None


def _activation(node: ir.Node) -> int:
    """The fused activation that a node is; 0 where it is none."""
    if node.op_type == "Relu":
        return RELU
    if node.op_type != "Clip":
        return 0
    bounds = [constant_array(value) for value in node.inputs[1:]]
    bounds += [None] * (2 - len(bounds))
    low, high = (None if b is None else float(b.reshape(-1)[0]) for b in bounds)
    return {6.0: RELU6, None: RELU}.get(high, 0) if low == 0 else 0
