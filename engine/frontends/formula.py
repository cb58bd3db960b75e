"""Operators of ONNX written as formulas: ``x * sigmoid(x)`` is a Sigmoid and a Mul.

A formula writes the operators inside it as it is made; the outermost one waits, so that who asked
for the formula names its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol


class FormulaWriter(Protocol):
    """What formulas are written with, such as :class:`engine.frontends.emit.Emitter`."""

    def node(self, op: str, inputs: Sequence[str], output: str = ..., **attributes: Any) -> str:
        """Add a node; the name of its output."""

    def scalar(self, value: float) -> str:
        """The name of a constant without dimensions."""

    def ints(self, *values: int) -> str:
        """The name of an int64 vector."""


class Formula:
    """A tensor of a graph in the making.

    Args:
        at: what writes it.
        op: the operator that gives it; empty for a tensor that is there.
        inputs: of the operator; the tensor's name where it is there.
        attributes: of the operator.
    """

    def __init__(self, at: FormulaWriter, op: str, inputs: list[str], **attributes: Any) -> None:
        self.at = at
        self.last = op, inputs, attributes
        """The operator that is not written yet: its name, inputs and attributes."""

    @classmethod
    def of(cls, at: FormulaWriter, tensor: str) -> Formula:
        """A tensor that is there."""
        return cls(at, "", [tensor])

    def written(self, name: str = "") -> str:
        """Write what is not written yet; the name of the result, ``name`` where that is free."""
        op, inputs, attributes = self.last
        if op:
            self.last = "", [self.at.node(op, inputs, name, **attributes)], {}
        return self.last[1][0]

    def __add__(self, other: Formula | float | str) -> Formula:
        return apply("Add", self, other)

    def __sub__(self, other: Formula | float | str) -> Formula:
        return apply("Sub", self, other)

    def __rsub__(self, other: float) -> Formula:
        return apply("Sub", other, self)

    def __mul__(self, other: Formula | float | str) -> Formula:
        return apply("Mul", self, other)

    def __truediv__(self, other: Formula | float | str) -> Formula:
        return apply("Div", self, other)

    def __neg__(self) -> Formula:
        return apply("Neg", self)

    def reduced(self, op: str, *axes: int) -> Formula:
        """Over some axes, which are kept with the length 1."""
        return apply(op, self, self.at.ints(*axes), keepdims=1)


def apply(op: str, *operands: Formula | float | str, **attributes: Any) -> Formula:
    """An operator of ONNX; numbers become constants, texts are names of tensors."""
    at = next(operand.at for operand in operands if isinstance(operand, Formula))
    inputs = []
    for operand in operands:
        if isinstance(operand, Formula):
            inputs.append(operand.written())
        else:
            inputs.append(operand if isinstance(operand, str) else at.scalar(operand))
    return Formula(at, op, inputs, **attributes)


clip, exp, floor, relu = (partial(apply, op) for op in ("Clip", "Exp", "Floor", "Relu"))
sigmoid, sqrt, tanh, where = (partial(apply, op) for op in ("Sigmoid", "Sqrt", "Tanh", "Where"))
