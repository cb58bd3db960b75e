"""The nodes and tensors of the graph that the rewrites work on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.base.plain import JsonValue

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor: its numbers are read only where a rewrite depends on them (shapes, scalars).

    Attributes:
        values: gives the array of a constant; None for a feature.
        filled: whether its numbers only stand for weights that were left out of the file.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: Callable[[], np.ndarray] | None = None
    filled: bool = False

    @property
    def const(self) -> bool:
        """Whether it is known when the model is compiled."""
        return self.values is not None


@dataclass(slots=True, eq=False)
class Node:
    """A node that is being rewritten; fields as of :class:`engine.cost.lowered.LoweredLayer`.

    Attributes:
        op: operator of ONNX, or of the compiler (``exSwish``) once a rewrite made it.
        name: that the compiler prints.
        kind: printed before the colon of the full name; what was fused is not in it.
        fused: what its output stage does, in order: ``Relu``, ``Add``; the printed type is ``op``
            with these behind it.
        attributes: of ONNX, plain values.
        sources: nodes of the graph that it comes from.
        target: set where a rewrite or a rule decides it.
    """

    op: str
    name: str
    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, JsonValue] = field(default_factory=dict)
    fused: list[str] = field(default_factory=list)
    sources: tuple[str, ...] = ()
    target: str = ""
    reason: str = ""
    remedy: str = ""
    dtype: str = ""

    def ints(self, name: str, default: Iterable[int] = ()) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers."""
        value = self.attributes.get(name)
        return tuple(int(number) for number in value) if isinstance(value, list) else tuple(default)

    def int(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number."""
        value = self.attributes.get(name)
        return int(value) if isinstance(value, int | float) else default
