"""What 8-bit quantization does with each operator, as data.

The integer kernels are those that ONNX Runtime 1.31 builds from a Q/DQ graph on its CPU provider;
they were found by looking at its optimised graphs, operator by operator, and ``tests/simulate``
looks again.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType

from engine.graph.layers import FUSED_ACTIVATIONS


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


_INTEGER = (
    "Conv",
    "Gemm",
    "MatMul",
    "Add",
    "Mul",
    "AveragePool",
    "GlobalAveragePool",
    "Concat",
    "LeakyRelu",
    "Sigmoid",
)

_SHARE = (
    "Reshape",
    "Flatten",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Identity",
    "Dropout",
    "Slice",
    "Split",
    "Gather",
    "GatherElements",
    "Expand",
    "Tile",
    "DepthToSpace",
    "MaxPool",
    "ReduceMax",
    "ReduceMin",
    "Resize",
    "SpaceToDepth",
    "GlobalMaxPool",
    "Pad",
)

# Sigmoid-like and other operators whose int8 tensors the NPU has, but for which ONNX Runtime has no
# integer kernel.
_EMULATED = (
    "ConvTranspose",
    "Sub",
    "Div",
    "Min",
    "Max",
    "PRelu",
    "Tanh",
    "Elu",
    "Selu",
    "Celu",
    "HardSigmoid",
    "HardSwish",
    "Softplus",
    "Softsign",
    "Mish",
    "Swish",
    "Gelu",
    "ThresholdedRelu",
    "Abs",
    "Neg",
    "ReduceMean",
    "ReduceSum",
    "LRN",
    "InstanceNormalization",
    "BatchNormalization",
)

_ROLES = MappingProxyType(
    dict.fromkeys(_INTEGER, Role.INTEGER)
    | dict.fromkeys(_SHARE, Role.PASSTHROUGH)
    | dict.fromkeys(FUSED_ACTIVATIONS, Role.CLAMP)
    | dict.fromkeys(_EMULATED, Role.EMULATED)
)

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators with quantized weights (input 1) and, MatMul aside, a bias (input 2)."""

LAYOUT = frozenset(
    {"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout"}
)
"""Operators that keep every value: the range of their output is that of their input."""

ARITHMETIC = frozenset(
    {"Add", "Mul", "Sub", "Div", "Min", "Max", "Abs", "Neg", "ReduceMean", "ReduceSum"}
)
"""Operators that stay in float where they only serve float operators."""

KEEPS_HALF = frozenset({"Concat", "Relu", "Min", "Max", "Abs", "Neg"})
"""Operators whose results are numbers of half precision wherever their inputs are."""

CUSTOM_REASON = "a custom operator: its class computes in float between 8-bit tensors"
"""Why a custom operator has no integer kernel."""

FLOAT_REASONS = MappingProxyType(
    {
        "Softmax": "Softmax stays in float, as with the vendor: 8 bits would lose small values",
        "LogSoftmax": "its results span too many orders of magnitude for 8 bits",
        "Exp": "its results span too many orders of magnitude for 8 bits",
        "Log": "it has no useful 8-bit form near 0",
        "Sqrt": "it has no useful 8-bit form near 0",
        "Pow": "its results span too many orders of magnitude for 8 bits",
        "Reciprocal": "it has no useful 8-bit form near 0",
        "LayerNormalization": "normalization over a dynamic mean and variance stays in float",
        "GroupNormalization": "normalization over a dynamic mean and variance stays in float",
        "RMSNormalization": "normalization over a dynamic mean and variance stays in float",
        "LpNormalization": "normalization over a dynamic norm stays in float",
    }
)


def role_of(op: str) -> Role:
    """The role of an operator of ONNX's own domain; FLOAT for every operator that is not listed."""
    return _ROLES.get(op, Role.FLOAT)


def unquantized_reason(op: str) -> str:
    """Why an operator has no integer kernel in the simulator, in words."""
    if op in FLOAT_REASONS:
        return FLOAT_REASONS[op]
    if role_of(op) is Role.EMULATED:
        return f"ONNX Runtime has no integer {op}: float between 8-bit tensors"
    if role_of(op) is Role.PASSTHROUGH:
        return f"ONNX Runtime has no integer {op} of this mode: float between 8-bit tensors"
    return f"{op} has no 8-bit form here and stays in float"
