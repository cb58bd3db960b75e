"""A graph as the vendor's compiler lays it out for one chip: the layers of its printed table.

At the end stand the nodes and tensors that the rewrites of the lowering work on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from engine.base.plain import JsonValue
from engine.facts.npu import NpuDtype

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int, ...]
"""Sizes of a tensor along its axes."""

Target = Literal["NPU", "CPU", "unknown", "none"]
"""Where a layer runs; ``none``: the compiler refuses the model for it."""

ENDS = ("InputOperator", "OutputOperator")
"""Types of the layers that bring inputs and outputs of a graph into another layout."""


@dataclass(frozen=True, slots=True)
class LoweredTensor:
    """A tensor between layers, or a constant of one.

    Attributes:
        name: as the compiler prints it.
        shape: as it prints it: NCHW with four dimensions nearly everywhere.
        dtype: ``int8``, ``float16``, ``int32``, ...
        const: whether it is known when the model is compiled.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    const: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel of a convolution or pool; height first."""

    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    group: int = 1


@dataclass(frozen=True, slots=True)
class LoweredLayer:
    """A row of the compiler's table.

    Attributes:
        op: the type that it prints, what is fused into it included: ``ConvExSwish``.
        kind: the type before the colon of its full name: ``Conv``.
        name: the name behind that colon.
        inputs: the features that it reads, by name in :attr:`Lowered.tensors`.
        consts: its weight, bias, slopes, shapes: by name, in the order of the table.
        outputs: the features that it writes.
        window: of a convolution or pool.
        depthwise: whether it is a convolution with one filter a channel.
        dtype: that it computes in.
        target: where it runs.
        reason: why it does not run on the NPU: the rule with the number that breaks it.
        remedy: what to do about it.
        sources: nodes of the graph that it comes from, the one that computes first.
        mode: of a Resize: ``nearest``, ``linear``, ...; empty of every other layer.
        late_bias: whether int8 gave it its bias, and the compiler made it of something else.
        int4: whether its weight has 4 bits.
        perm: of a Transpose of four axes; empty of every other layer.
    """

    op: str
    kind: str
    name: str
    inputs: tuple[str, ...]
    consts: tuple[str, ...]
    outputs: tuple[str, ...]
    dtype: str
    target: Target = "NPU"
    reason: str = ""
    remedy: str = ""
    window: Window | None = None
    depthwise: bool = False
    sources: tuple[str, ...] = ()
    mode: str = ""
    late_bias: bool = False
    int4: bool = False
    perm: tuple[int, ...] = ()

    @property
    def full_name(self) -> str:
        """As the compiler prints it."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class Lowered:
    """The layers of a graph on a family of chips, in the order of execution.

    Attributes:
        family: of :mod:`engine.facts.npu`.
        dtype: that the model was compiled in.
        layers: InputOperator and OutputOperator included.
        tensors: by name, constants included.
        inputs: names of the graph's inputs.
        outputs: names of the graph's outputs.
    """

    family: str
    dtype: NpuDtype
    layers: tuple[LoweredLayer, ...]
    tensors: Mapping[str, LoweredTensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @cached_property
    def cut_from(self) -> Mapping[str, int]:
        """By a part of a Split along the channels: how many channels lie before it."""
        starts: dict[str, int] = {}
        for layer in self.layers:
            shapes = [self.shape(name) for name in layer.outputs] if layer.kind == "Split" else []
            channels = [shape[1] for shape in shapes if len(shape) == 4]
            if channels and [sum(channels)] == [*self.shape(layer.inputs[0])[1:2]]:
                starts.update(zip(layer.outputs, [0, *accumulate(channels)], strict=False))
        return starts

    @cached_property
    def writers(self) -> Mapping[str, LoweredLayer]:
        """The layer that writes a feature, by its name; no layer writes an input."""
        return {
            name: layer
            for layer in self.layers
            if layer.kind != "InputOperator"
            for name in layer.outputs
        }

    @cached_property
    def readers(self) -> Mapping[str, tuple[LoweredLayer, ...]]:
        """The layers that read a feature, by its name."""
        by_tensor: dict[str, list[LoweredLayer]] = {}
        for layer in self.layers:
            for name in dict.fromkeys(layer.inputs):
                by_tensor.setdefault(name, []).append(layer)
        return {name: tuple(layers) for name, layers in by_tensor.items()}

    @cached_property
    def convolved(self) -> frozenset[str]:
        """Features that a convolution reads first."""
        kinds = ("Conv", "ConvTranspose")
        return frozenset(
            layer.inputs[0] for layer in self.layers if layer.inputs and layer.kind in kinds
        )

    @cached_property
    def added(self) -> frozenset[str]:
        """Features that a convolution adds to its result."""
        kinds = ("Conv", "ConvTranspose")
        return frozenset(
            name for layer in self.layers if layer.kind in kinds for name in layer.inputs[1:]
        )

    @cached_property
    def max_pooled(self) -> frozenset[str]:
        """Features that a MaxPool on the NPU reads or writes."""
        pools = (
            layer for layer in self.layers if layer.kind == "MaxPool" and layer.target == "NPU"
        )
        return frozenset(name for layer in pools for name in (*layer.inputs, *layer.outputs))

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Of a tensor; () of one that is not there."""
        entry = self.tensors.get(tensor)
        return entry.shape if entry is not None else ()


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
