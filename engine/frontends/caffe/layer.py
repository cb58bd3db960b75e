"""What a converter of one layer type works with: the layer's inputs, weights and parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.frontends.caffe.prototxt import Fields
from engine.frontends.caffe.spec import LayerSpec
from engine.frontends.caffe.weights import Weights
from engine.frontends.emit import TypedEmitter

MAX_ELEMENTS = 1 << 30
"""Numbers in one tensor; a shape above it is refused before anything is made of it."""

_MAX_AXES = 32  # kMaxBlobAxes of caffe/blob.hpp


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph in the making.

    Attributes:
        name: in the graph.
        shape: fixed.
        value: what a constant holds; None for what is computed.
        plane: of the mask of a MAX pooling: height and width of what was pooled; ``name`` is then
            MaxPool's ``Indices`` and not Caffe's mask.
    """

    name: str
    shape: tuple[int, ...]
    value: np.ndarray | None = None
    plane: tuple[int, ...] | None = None

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return len(self.shape)


@dataclass
class Layer:
    """One layer that is being converted.

    Attributes:
        spec: what the file says.
        inputs: a tensor for each bottom.
        only_feeds: (top, layer type) -> whether all that read that top are of the type.
    """

    spec: LayerSpec
    inputs: list[Tensor]
    weights: Weights
    writer: TypedEmitter
    only_feeds: Callable[[int, str], bool]
    findings: list[Finding] = field(default_factory=list)
    blobs_used: int = 0

    @property
    def x(self) -> Tensor:
        """The first input."""
        return self.inputs[0]

    def param(self, name: str) -> Fields:
        """The layer's parameters; without fields where the file leaves them out."""
        return self.spec.fields.message(name)

    def expect(self, bottoms: Sequence[int], tops: int | None = 1) -> None:
        """Refuse another number of bottoms or tops.

        Args:
            bottoms: the numbers that are allowed.
            tops: the number of tops; None for any of at least one.
        """
        have = len(self.inputs)
        if have not in bottoms:
            allowed = " or ".join(map(str, bottoms))
            raise self.fault(f"it has {have} bottoms instead of {allowed}")
        if not self.spec.tops or (tops is not None and len(self.spec.tops) != tops):
            raise self.fault(f"it has {len(self.spec.tops)} tops instead of {tops or 'some'}")

    def axis(self, fields: Fields, name: str, default: int, rank: int | None = None) -> int:
        """An axis, counted from the end where it is negative."""
        rank = self.x.rank if rank is None else rank
        axis = fields.integer(name, default)
        if not -rank <= axis < rank:
            raise self.fault(f"{name} is {axis}, and the bottom has {rank} axes")
        return axis % rank

    def blob(self, shape: Sequence[int], kind: str, filler: Fields | None = None) -> np.ndarray:
        """The layer's next blob as float32 of ``shape``; see :meth:`Weights.blob`."""
        self._bounded(shape)
        array = self.weights.blob(
            self.spec, self.blobs_used, shape, kind, filler or Fields(None, self.spec.path)
        )
        self.blobs_used += 1
        return array

    def constant(self, array: np.ndarray, what: str) -> str:
        """The name of a constant of this layer (no blob's name, which has no colon)."""
        return self.writer.constant(array, f"{self.spec.name}:{what}")

    def ints(self, *values: int) -> str:
        """The name of an int64 vector."""
        return self.writer.constant(np.array(values, dtype=np.int64), "constant:ints")

    def scalar(self, value: float) -> str:
        """The name of a float32 constant without axes."""
        return self.writer.constant(np.array(value, dtype=np.float32), "constant:scalar")

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node inside the layer; returns the name of its output."""
        hint = f"{self.spec.makes[0]}:{op.lower()}"
        return self.writer.node(op, inputs, hint, **attributes)

    def top(self, op: str, *inputs: str, index: int = 0, **attributes: Any) -> Tensor:
        """The node that makes a top of the layer."""
        return self.written(self.writer.node(op, inputs, self.spec.makes[index], **attributes))

    def written(self, name: str, plane: tuple[int, ...] | None = None) -> Tensor:
        """A top that was written; ``plane`` as of :class:`Tensor`."""
        shape = self.writer.shape(name)
        self._bounded(shape)
        return Tensor(name, shape, plane=plane)

    def fixed_top(self, array: np.ndarray) -> Tensor:
        """A top that is a constant."""
        self._bounded(array.shape)
        name = self.writer.constant(array, self.spec.makes[0])
        return Tensor(name, array.shape, array)

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        """``name`` with another shape."""
        return self.node("Reshape", name, self.ints(*shape))

    def reshape_top(self, name: str, shape: Sequence[int]) -> Tensor:
        """The top that is ``name`` with another shape."""
        return self.top("Reshape", name, self.ints(*shape))

    def backwards(self, axis: int) -> tuple[str, ...]:
        """Inputs of a Slice that turns one axis round."""
        return (self.ints(-1), self.ints(-(1 << 31)), self.ints(axis), self.ints(-1))

    def note(self, code: str, what: str, cause: str = "", remedy: str = "") -> None:
        """Tell the user something about this layer (severity ``warning``)."""
        where = sanitize(self.spec.name)
        self.findings.append(Finding(code, "warning", where, what, cause, remedy))

    def fault(self, what: str) -> SourceModelError:
        """The error for a layer that does not fit its input or its definition."""
        return SourceModelError(
            f"{self.spec.path}, line {self.spec.fields.line}: {what}.",
            cause="The prototxt was edited, the input has another size than the net was made for, "
            "or the layer is a fork's that means something else.",
            remedy="Check the size of the input and the layer's parameters.",
        )

    def refuse(self, why: str, remedy: str = "") -> UnsupportedOperatorError:
        """The error for a layer that is right but cannot be taken."""
        return UnsupportedOperatorError(
            f"{self.spec.path}, line {self.spec.fields.line}, cannot be converted: {why}.",
            remedy=remedy,
        )

    def _bounded(self, shape: Sequence[int]) -> None:
        if any(side < 1 for side in shape):
            raise self.fault(f"a tensor of the shape {shape_text(shape)} holds nothing")
        if len(shape) > _MAX_AXES or math.prod(shape) > MAX_ELEMENTS:
            raise self.fault(f"a tensor of the shape {shape_text(shape)} is too large")


Converter = Callable[[Layer], Sequence[Tensor]]
"""Converts one layer: a tensor for each of its tops."""


def one_top(
    convert: Callable[[Layer, Fields], Tensor],
    param: str = "",
    *,
    bottoms: Sequence[int] = (1,),
    ignored: Sequence[str] = (),
    rank: int = 0,
    least: int = 0,
) -> Converter:
    """The converter of a layer with one top.

    Args:
        convert: makes the top, of the layer and its parameters.
        param: the message that they are; empty for a layer that has none.
        bottoms: the numbers of bottoms that are allowed.
        ignored: parameters that change nothing here.
        rank, least: how many axes the first bottom has, exactly or at least; 0 for any number.
    """

    def converted(at: Layer) -> Sequence[Tensor]:
        at.expect(bottoms)
        if (rank and at.x.rank != rank) or at.x.rank < least:
            expected = f"at least {least}" if least else rank
            raise at.fault(f"its bottom has {at.x.rank} axes instead of {expected}")
        fields = at.param(param)
        fields.ignore(*ignored)
        return [convert(at, fields)]

    return converted
