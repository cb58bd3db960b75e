"""What a network of Darknet does, layer by layer, before any weight is read.

A layer type is one function in a table of :mod:`engine.frontends.darknet.layers`: from its section
and the layers before it to a :class:`Plan`, which knows the shape of its output, the weights it
reads from the file, and how it is written as operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.text import sanitize
from engine.frontends.darknet.files import Blob, Section
from engine.frontends.emit import Emitter
from engine.frontends.typed_emitter import refuse

__all__ = ["Build", "Net", "Plan", "Shape"]

Shape = tuple[int, int, int]
"""Channels, height, width."""

MAX_DIM = 1 << 20
MAX_ELEMENTS = 1 << 31
INPUT = -1
"""The index of the network's input among the layers."""


class Build(Emitter):
    """The graph in the making.

    Attributes:
        index: the number of the layer that is being written.
        name: its name, which its output gets.
        batch: pictures at once.
        constants: layer -> role -> name of its weights, for layers that share them.
    """

    def __init__(self, title: str, batch: int) -> None:
        super().__init__(title)
        self.index = 0
        self.name = ""
        self.batch = batch
        self.constants: dict[int, dict[str, str]] = {}
        self._values: dict[int, tuple[str, Shape, bool]] = {}

    def put(self, index: int, tensor: str, shape: Shape, flat: bool) -> None:
        """Remember the output of a layer."""
        self._values[index] = (tensor, shape, flat)

    def raw(self, index: int) -> str:
        """The output of a layer as it is: of rank 4, or 2 behind fully connected layers."""
        return self._values[index][0]

    def image(self, index: int) -> str:
        """The output of a layer with batch, channels, height and width."""
        tensor, shape, flat = self._values[index]
        return self.node("Reshape", [tensor, self.ints(0, *shape)]) if flat else tensor

    def flat(self, index: int) -> str:
        """The output of a layer with batch and features."""
        tensor, _, flat = self._values[index]
        return tensor if flat else self.node("Flatten", [tensor], axis=1)


Emit = Callable[[Build, Mapping[str, np.ndarray]], str]


@dataclass(frozen=True)
class Plan:
    """One layer, checked.

    Attributes:
        shape: of its output.
        emit: writes it, given its weights by role; returns the name of the output.
        sources: the layers that it reads; -1 is the network's input.
        blobs: its weights, in the file's order.
        flat: whether the output has no height and width.
        kind: ``head`` for what decodes boxes, ``training`` for what only training uses.
        owner: the layer whose weights it uses instead of its own.
    """

    shape: Shape
    emit: Emit
    sources: tuple[int, ...]
    blobs: tuple[Blob, ...] = ()
    flat: bool = False
    kind: Literal["layer", "head", "training"] = "layer"
    owner: int | None = None


@dataclass
class Net:
    """The network up to the layer that is being planned.

    Attributes:
        shape: of the input.
        flat_input: whether the input has no height and width (``inputs=`` in ``[net]``).
        epsilon: of batch normalisation.
        decode: whether heads are decoded.
        plans: of the layers so far; None for one that was refused or hangs on one.
        sections: of the layers so far.
    """

    shape: Shape
    flat_input: bool
    epsilon: float
    decode: bool
    plans: list[Plan | None] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    @property
    def index(self) -> int:
        """The number of the layer that is being planned."""
        return len(self.plans)

    @property
    def before(self) -> int:
        """The layer before, or -1 for the input."""
        return self.index - 1

    def refer(self, number: int, key: str) -> int:
        """The layer that a number in ``route`` or ``from`` means; negative ones count back.

        Raises:
            SourceModelError: there is no such layer before this one.
        """
        index = self.index + number if number < 0 else number
        if not 0 <= index < self.index:
            raise SourceModelError(
                f"Layer {self.index} reads layer {number} ({sanitize(key, 40)}), which is not "
                f"before it.",
                cause="The file was damaged, or a layer was added or taken out by hand.",
                remedy="Correct the number: layers count from 0, negative numbers count back.",
            )
        return index

    def shape_of(self, index: int) -> Shape:
        """The output shape of a layer.

        Raises:
            UnknownShapeError: it was refused.
            UnsupportedOperatorError: it gives nothing that another layer could read.
        """
        if index == INPUT:
            return self.shape
        plan = self.plans[index]
        if plan is None:
            raise UnknownShapeError
        if plan.kind != "layer":
            refuse(
                f"it reads layer {index} [{sanitize(self.sections[index].type, 40)}], "
                "whose output is not a tensor of the network"
            )
        return plan.shape

    def is_flat(self, index: int) -> bool:
        """Whether the output of a layer has no height and width."""
        plan = None if index == INPUT else self.plans[index]
        return self.flat_input if plan is None else plan.flat


class UnknownShapeError(Exception):
    """A layer reads one that was refused: only a look meets this, a load has stopped before."""


def check_shape(shape: Sequence[int]) -> None:
    """Refuse shapes that no network has.

    Raises:
        UnsupportedOperatorError: a dimension below 1, or far beyond what fits a memory.
    """
    if any(not 1 <= dim <= MAX_DIM for dim in shape):
        refuse(f"its output would be {'x'.join(str(dim) for dim in shape)}")
    count = prod(shape)
    if count > MAX_ELEMENTS:
        refuse(f"its output would have {count} numbers")
