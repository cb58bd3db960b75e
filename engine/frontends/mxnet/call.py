"""What a function that converts an operator of MXNet is given: inputs, attributes, a writer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.base.text import sanitize
from engine.frontends.emit import TypedEmitter, refuse
from engine.frontends.formula import Formula
from engine.frontends.mxnet.files import Node

Value = str | np.ndarray
"""A tensor that is computed (its name), or an array that is known."""
Result = Value | list[Value]
Converter = Callable[["Call"], Result]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


def named(rows: Mapping[str, Converter]) -> dict[str, Converter]:
    """A row for each name of an operator, where a key has several of them with blanks between."""
    return {name: converter for names, converter in rows.items() for name in names.split()}


def renamed(op: str, inputs: int | None = 1, **attributes: tuple[str, float]) -> Converter:
    """One operator of ONNX with MXNet's numbers.

    Args:
        op: the operator.
        inputs: how many it takes; None for all.
        attributes: of the operator, each with MXNet's name of it and its default.
    """

    def convert(call: Call) -> Result:
        tensors = call.xs() if inputs is None else [call.x(index) for index in range(inputs)]
        values = {
            name: call.whole(key, default) if isinstance(default, int) else call.real(key, default)
            for name, (key, default) in attributes.items()
        }
        return call.op(op, tensors, **values)

    return convert


@dataclass(frozen=True)
class _Computing:
    """Writes formulas whose numbers are of the dtype of a tensor."""

    w: TypedEmitter
    dtype: np.dtype

    def node(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        return self.w.node(op, inputs, output, **attributes)

    def scalar(self, value: float) -> str:
        if self.dtype.kind in "iu" and value != int(value):
            refuse(f"it combines whole numbers with {value}")
        return self.w.scalar(value, self.dtype.name)

    def ints(self, *values: int) -> str:
        return self.w.ints(*values)


@dataclass
class Call:
    """One node while it is converted.

    Attributes:
        w: writes operators.
        node: the node.
        values: of its inputs.
        tensor: the name of an input, which becomes a constant where it is known.
        states: arrays that older files do not list as inputs, by the last part of their name.
        hints: names of its outputs.
    """

    w: TypedEmitter
    node: Node
    values: list[Value]
    tensor: Callable[[int], str]
    states: Callable[[str], np.ndarray | None]
    hints: Callable[[int, int], str]

    # ---------------------------------------------------------------------------- inputs
    def x(self, index: int = 0) -> str:
        """An input as a tensor."""
        if index >= len(self.values):
            refuse(f"it has {len(self.values)} inputs; input {index} is missing")
        value = self.values[index]
        return value if isinstance(value, str) else self.tensor(index)

    def xs(self) -> list[str]:
        """All inputs as tensors."""
        if not self.values:
            refuse("it has no inputs")
        return [self.x(index) for index in range(len(self.values))]

    def array(self, index: int) -> np.ndarray:
        """An input that must be known."""
        value = self.values[index] if index < len(self.values) else None
        if not isinstance(value, np.ndarray):
            refuse(f"its input {index} is not in the file of parameters")
        return value

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of an input."""
        value = self.values[index] if index < len(self.values) else self.x(index)
        return value.shape if isinstance(value, np.ndarray) else self.w.shape(value)

    def axis(self, key: str, default: int, rank: int) -> int:
        """An attribute that is an axis, counted from the front."""
        axis = self.whole(key, default)
        if not -rank <= axis < rank:
            refuse(f"its {key} is {axis}, its input has {rank} dimensions")
        return axis % rank

    def formulas(self, count: int) -> list[Formula]:
        """The first inputs to compute with; numbers beside them are of the first one's dtype."""
        at = _Computing(self.w, self.w.dtype(self.x()))
        return [Formula.of(at, self.x(index)) for index in range(count)]

    # ----------------------------------------------------------------------------- output
    def out(self, index: int = 0, count: int = 1) -> str:
        """The wished name of an output."""
        return self.hints(index, count)

    def op(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add the node whose output is the result."""
        return self.w.node(op, inputs, self.out(), **attributes)

    # ------------------------------------------------------------------------- attributes
    def text(self, key: str, default: str = "") -> str:
        """An attribute as text; ``None`` counts as not given."""
        value = self.node.attributes.get(key, "")
        return default if value in ("", "None") else value

    def given(self, key: str) -> bool:
        """Whether an attribute is there and not ``None``."""
        return self.node.attributes.get(key, "None") not in ("", "None")

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean attribute."""
        return self.text(key, str(default)).lower() in ("true", "1")

    def real(self, key: str, default: float) -> float:
        """A number."""
        return self._number(key, self.text(key, repr(default)))

    def whole(self, key: str, default: int) -> int:
        """A whole number."""
        return self._whole(key, self.text(key, str(default)))

    def entries(self, key: str, default: str = "()") -> list[str]:
        """The entries of a list as text; of a lone number that one."""
        inner = self.text(key, default).strip("()[] ")
        return [item.strip() for item in inner.split(",", 64) if item.strip()]

    def wholes(self, key: str, default: Sequence[int] = ()) -> list[int]:
        """A list of whole numbers."""
        if not self.given(key):
            return list(default)
        return [self._whole(key, item.rstrip("L")) for item in self.entries(key)]

    def reals(self, key: str, default: Sequence[float] = ()) -> list[float]:
        """A list of numbers."""
        if not self.given(key):
            return list(default)
        return [self._number(key, item) for item in self.entries(key)]

    def _number(self, key: str, text: str) -> float:
        if _NUMBER.fullmatch(text.strip()) is None:
            refuse(f"its {key} is {sanitize(text, 60)!r}, no number")
        return float(text)

    def _whole(self, key: str, text: str) -> int:
        number = {"True": 1.0, "False": 0.0}.get(text)
        number = self._number(key, text) if number is None else number
        if not -(1 << 62) < number < 1 << 62:
            refuse(f"its {key} is {sanitize(text, 60)}")
        return int(number)
