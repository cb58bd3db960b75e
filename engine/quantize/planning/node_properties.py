"""What operators and nodes of a float graph are to the quantizer: roles, constants, forms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import onnx_ir as ir

from engine.facts import records
from engine.graph.ir import constant_of, is_custom
from engine.graph.ir.spec import array_of, input_at, name_of

# What 8-bit quantization does with each operator: the rows of ``operators.csv``.
#
# The integer kernels are those that ONNX Runtime 1.31 builds from a Q/DQ graph on its CPU provider;
# they were found by looking at its optimised graphs, operator by operator, and ``tests/simulate``
# looks again.


class Role(Enum):
    """How an operator takes part in quantization."""

    INTEGER = "integer"
    """Quantized inputs and outputs, an integer kernel between them."""
    PASSTHROUGH = "share"
    """Moves or selects values: its outputs have the scale and zero point of its input."""
    CLAMP = "clamp"
    """Relu and Clip: absorbed by the saturation of the tensor that they write."""
    EMULATED = "emulated"
    """Quantized inputs and outputs as on the NPU, but the kernel between them is float here."""
    FLOAT = "float"
    """Float inputs and outputs."""


@dataclass(frozen=True)
class _Operator:
    """A row of ``operators.csv``: an operator of ONNX's own domain.

    Attributes:
        role: value of a :class:`Role`.
        traits: names of the sets below that have it.
        reason: why it stays in float; empty for what every operator of its role is told.
    """

    op: str
    role: str
    traits: str
    reason: str


_OPERATORS = {
    row.op: row for row in records(_Operator, "engine.quantize.planning", "operators.csv")
}


def _having(trait: str) -> frozenset[str]:
    return frozenset(op for op, row in _OPERATORS.items() if trait in row.traits.split())


WEIGHTED = _having("weighted")
"""Operators with quantized weights (input 1) and, MatMul aside, a bias (input 2)."""

VARIADIC = _having("variadic")
"""Operators whose activations are all of their inputs; the others have one, input 0."""

LAYOUT = _having("layout")
"""Operators that keep every value: the range of their output is that of their input."""

ARITHMETIC = _having("arithmetic")
"""Operators that stay in float where they only serve float operators."""

KEEPS_HALF = _having("half")
"""Operators whose results are numbers of half precision wherever their inputs are."""

CUSTOM_REASON = "a custom operator: its class computes in float between 8-bit tensors"
"""Why a custom operator has no integer kernel."""


def role_of(op: str) -> Role:
    """The role of an operator of ONNX's own domain; FLOAT for every operator that is not listed."""
    return Role(_OPERATORS[op].role) if op in _OPERATORS else Role.FLOAT


def unquantized_reason(op: str) -> str:
    """Why an operator has no integer kernel in the simulator, in words."""
    if op in _OPERATORS and _OPERATORS[op].reason:
        return _OPERATORS[op].reason
    if role_of(op) is Role.EMULATED:
        return f"ONNX Runtime has no integer {op}: float between 8-bit tensors"
    if role_of(op) is Role.PASSTHROUGH:
        return f"ONNX Runtime has no integer {op} of this mode: float between 8-bit tensors"
    return f"{op} has no 8-bit form here and stays in float"


@dataclass(frozen=True)
class Clamp:
    """A Relu or Clip that the tensor it writes may absorb: ``low <= value <= high``."""

    node: str
    low: float
    high: float


@dataclass(frozen=True)
class WeightPlan:
    """The constants of one weighted node.

    Attributes:
        weight, bias: names of constants; ``bias`` is None without one.
        axis: the axis of output channels in the weight; None where the operator's form (a grouped
            transposed convolution, a stack of matrices) has no scale per output channel.
    """

    node: str
    weight: str
    bias: str | None
    axis: int | None


def is_float(value: ir.Value) -> bool:
    """Whether a value is float32."""
    return value.dtype == ir.DataType.FLOAT


def is_constant(value: ir.Value | None) -> bool:
    """Whether a value is an initializer or comes from a Constant node."""
    return constant_of(value) is not None


def data_inputs(node: ir.Node) -> list[ir.Value]:
    """The inputs of a node that carry activations or constants in their place.

    Of a custom operator they are all that are float32: what the others mean, only its code knows.
    """
    if is_custom(node):
        return [value for value in node.inputs if value is not None and is_float(value)]
    chosen = node.inputs if node.op_type in VARIADIC else node.inputs[:1]
    return [value for value in chosen if value is not None]


def pads_with_zero(node: ir.Node) -> bool:
    """Whether a Pad node adds zeros, or copies of what is there."""
    value = input_at(node, 2)
    if value is None:
        return True
    array = array_of(value)
    # another value than 0 could lie outside the input's range, whose scale the output takes
    return array is not None and not array.any()


def interpolates_within(node: ir.Node) -> bool:
    """Whether a Resize gives means of values that are next to each other, and no others.

    The NPU then keeps the scale of its input [seen with toolkit 2.3.2, which converts afterwards
    where a file wants another one].
    """
    attributes = node.attributes
    return (
        attributes.get_string("mode", "nearest") == "linear"
        and attributes.get_string("coordinate_transformation_mode", "half_pixel")
        != "tf_crop_and_resize"
    )


def pool_needs_float(node: ir.Node) -> bool:
    """Forms of AveragePool that ONNX Runtime 1.31 computes right in float only.

    Dilations, which it refuses, and ``count_include_pad`` with ``ceil_mode``, where it counts what
    lies behind the padding.
    """
    dilated = any(d != 1 for d in node.attributes.get_ints("dilations", ()))
    flag = node.attributes.get_int
    return dilated or bool(flag("ceil_mode", 0) and flag("count_include_pad", 0))


def has_constant_matrix(node: ir.Node) -> bool:
    """Whether input 1 of a MatMul is a constant."""
    right = input_at(node, 1)
    return right is not None and is_constant(right) and right.name != name_of(node.inputs[0])


# operator -> (axis of output channels, axis of input channels) of its weight; Gemm by transB
_WEIGHT_AXES = {"Conv": (0, 1), "ConvTranspose": (1, 0), "Gemm": (1, 0), "MatMul": (1, 0)}


def weight_axes(node: ir.Node) -> tuple[int, int]:
    """The axes of output and of input channels in the weight of a weighted node."""
    out, into = _WEIGHT_AXES[node.op_type]
    flipped = node.op_type == "Gemm" and node.attributes.get_int("transB", 0) == 1
    return (into, out) if flipped else (out, into)


def weight_plan(node: ir.Node) -> tuple[WeightPlan | None, str]:
    """The constants of Conv, ConvTranspose, Gemm or MatMul; None and a reason where unusable."""
    op, weight = node.op_type, array_of(input_at(node, 1))
    bias = input_at(node, 2)
    if weight is None:
        return None, "its weights are computed at run time"
    if weight.dtype != np.float32 or not np.isfinite(weight).all():
        return None, "its weights are not finite float32 numbers"
    bias_array = array_of(bias)
    if bias is not None and (bias_array is None or not np.isfinite(bias_array).all()):
        return None, "its bias is computed at run time or not finite"
    axis: int | None = 0
    if op == "ConvTranspose":
        group = node.attributes.get_int("group", 1)
        depthwise = group == weight.shape[0] and weight.shape[1] == 1
        axis = 1 if group == 1 else (0 if depthwise else None)
    elif op == "MatMul":
        axis = weight.ndim - 1 if weight.ndim == 2 else None
    elif op == "Gemm":
        axis = 0 if node.attributes.get_int("transB", 0) else 1
        if node.attributes.get_float("alpha", 1.0) != 1.0 or (
            bias is not None and node.attributes.get_float("beta", 1.0) != 1.0
        ):
            return None, "a Gemm with alpha or beta has no integer kernel"
        if bias_array is not None and bias_array.size != weight.shape[axis]:
            return None, "a Gemm whose bias is not a vector has no integer kernel"
    name = name_of(node.inputs[1])
    return WeightPlan(node.name or "", name, name_of(bias) or None, axis), ""
