"""A node of the graph as one layer of the file: what it reads, what it writes, how it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.compile.tflite.emitter import Constant, Operand, Target, constant_array, refused
from engine.compile.tflite.writer import Quant

__all__ = ["ACTIVATIONS", "Layer", "layer_of", "quant_of", "shape_of"]

ACTIVATIONS = {"NONE": 0, "RELU": 1, "RELU6": 3}
"""Number of a fused activation in the schema."""

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

    @property
    def target(self) -> Target:
        """Its only output."""
        return self.outputs[0]

    def constant(self, index: int) -> Constant | None:
        """A constant input; None where it is left out.

        Raises:
            UnsupportedOperatorError: it is computed.
        """
        found = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(found, Operand):
            raise refused(self.node, f"its input {index} is computed, not a constant")
        return found

    def ints(self, index: int) -> list[int] | None:
        """The values of a constant input of integers."""
        found = self.constant(index)
        return None if found is None else [int(v) for v in found.array.reshape(-1)]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        found = self.node.attributes.get(name)
        return default if found is None else found.value

    @property
    def activation(self) -> int:
        """The number of the activation that is fused."""
        return ACTIVATIONS[self.target.activation]


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


def layer_of(node: ir.Node, outputs: frozenset[ir.Value]) -> Layer:
    """A node as a layer.

    Args:
        node: no Q and no DQ.
        outputs: the graph's own.

    Raises:
        UnsupportedOperatorError: a shape or a number format has no place in the file.
    """
    inputs = tuple(_input(value, node) for value in node.inputs)
    targets, done = [], []
    for value in node.outputs:
        if not value.uses() and value not in outputs:
            continue
        target, taken = _target(value, node, outputs)
        targets.append(target)
        done += taken
    computed = [each for each in inputs if isinstance(each, Operand)]
    quantized = (
        bool(computed)
        and all(each.quant is not None for each in computed)
        and all(target.quant is not None for target in targets)
    )
    if not quantized:  # nothing behind it is taken in: activations and Q are layers of their own
        targets = [
            Target(value, None, shape_of(value, node))
            for value in node.outputs
            if value.uses() or value in outputs
        ]
        done = []
    return Layer(node, inputs, tuple(targets), quantized, tuple(done))


def _input(value: ir.Value | None, node: ir.Node) -> Operand | Constant | None:
    if value is None:
        return None
    array = constant_array(value)
    if array is not None:
        return Constant(array, None)
    producer = value.producer()
    if producer is not None and producer.op_type == "Cast":  # a weight of a float16 layer
        found = _input(producer.inputs[0], producer)
        if isinstance(found, Constant):
            return found
    if producer is not None and producer.op_type == "DequantizeLinear":
        stored = producer.inputs[0]
        quant = quant_of(producer)
        array = constant_array(stored)
        if array is not None:
            if array.dtype == np.uint8:
                array = (array.astype(np.int16) - 128).astype(np.int8)
            return Constant(array, quant)
        if stored is not None:
            return Operand(stored, quant, shape_of(value, node))
    return Operand(value, None, shape_of(value, node))


def _target(
    value: ir.Value, node: ir.Node, outputs: frozenset[ir.Value]
) -> tuple[Target, list[ir.Node]]:
    """Where an output goes: into one Q, behind a fused activation at most; else it is float."""
    activation, taken, last = "NONE", [], value
    reader = _only_reader(last, outputs)
    if reader is not None and node.op_type in _FUSED:
        found = _activation(reader)
        if found:
            activation, last = found, reader.outputs[0]
            taken.append(reader)
            reader = _only_reader(last, outputs)
    if reader is not None and reader.op_type == "QuantizeLinear":
        quant = quant_of(reader)
        if len(quant.scale) == 1:
            shape = shape_of(value, node)
            return Target(reader.outputs[0], quant, shape, activation), [*taken, reader]
    return Target(value, None, shape_of(value, node)), []


def _only_reader(value: ir.Value, outputs: frozenset[ir.Value]) -> ir.Node | None:
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and value not in outputs else None


def _activation(node: ir.Node) -> str:
    """The fused activation that a node is; empty where it is none."""
    if node.op_type == "Relu":
        return "RELU"
    if node.op_type != "Clip":
        return ""
    bounds = [constant_array(value) for value in node.inputs[1:]]
    bounds += [None] * (2 - len(bounds))
    low, high = (None if b is None else float(b.reshape(-1)[0]) for b in bounds)
    if low == 0 and high == 6:
        return "RELU6"
    return "RELU" if low == 0 and high is None else ""
