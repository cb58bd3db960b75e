"""What 8-bit quantization does with each operator: the rows of ``operators.csv``.

The integer kernels are those that ONNX Runtime 1.31 builds from a Q/DQ graph on its CPU provider;
they were found by looking at its optimised graphs, operator by operator, and ``tests/simulate``
looks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.facts import records


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
