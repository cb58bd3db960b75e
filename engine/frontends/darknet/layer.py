"""One layer of a Darknet network while it is converted, and the network up to it.

A layer type is one function in a table of :mod:`engine.frontends.darknet.layers`: it asks a
:class:`Layer` for its options, the layers before it and its weights, in the order of the file, and
writes operators; the name of the last one's output is the layer's.

Weights are taken in the same order, which is that of their file. Where they end too early, the
other layers are converted for what is refused in them; the error comes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.text import did_you_mean, sanitize
from engine.frontends.darknet.files import Blob, Section, WeightsFile
from engine.frontends.emit import Emitter, TypedEmitter, refuse
from engine.frontends.formula import Formula, apply, clip, exp, floor, relu, sigmoid, tanh

# Darknet's activations as operators (src/activations.h of AlexeyAB's darknet).

_Activation = Callable[[Formula], Formula]


def _gelu(x: Formula) -> Formula:
    """With darknet's own constants."""
    inner = x * 0.797885 + x * x * x * 0.035677
    return x * 0.5 * (tanh(inner) + 1)


def _bent(x: Formula, low: float, high: float, slope: float) -> tuple[Formula, Formula]:
    """``x`` between two bounds, and ``slope`` times what lies beyond."""
    inside = clip(x, low, high)
    return inside, (x - inside) * slope


def _plse(x: Formula) -> Formula:
    """``x/8 + 1/2`` between -4 and 4, a slope of 0.01 beyond."""
    inside, beyond = _bent(x, -4, 4, 0.01)
    return inside * 0.125 + 0.5 + beyond


def _lhtan(x: Formula) -> Formula:
    """``x`` between 0 and 1, a slope of 0.001 beyond."""
    inside, beyond = _bent(x, 0, 1, 0.001)
    return inside + beyond


def _stair(x: Formula) -> Formula:
    """``floor(x/2)``, rising by ``x - floor(x)`` where ``floor(x)`` is odd."""
    whole = floor(x)
    odd = whole - floor(whole * 0.5) * 2
    return floor(x * 0.5) + odd * (x - whole)


def _hard_mish(x: Formula) -> Formula:
    """``x`` above 0, ``x²/2 + x`` down to -2, 0 below."""
    inside = clip(x, -2, 0)
    return inside * inside * 0.5 + apply("Max", x, -2)


def _over_channels(x: Formula) -> Formula:
    """Values by their sum over the channels plus 1e-4."""
    return x / (x.reduced("ReduceSum", 1) + 1e-4)


_PLAIN: dict[str, _Activation] = {
    "logistic": sigmoid,
    "loggy": lambda x: sigmoid(x) * 2 - 1,
    "relu": relu,
    "relu6": lambda x: clip(x, 0, 6),
    "elu": partial(apply, "Elu", alpha=1.0),
    "selu": partial(
        apply, "Selu", alpha=float(np.float32(1.6732)), gamma=float(np.float32(1.0507))
    ),
    "gelu": _gelu,
    "relie": partial(apply, "LeakyRelu", alpha=0.01),
    "ramp": lambda x: relu(x) + x * 0.1,
    "leaky": partial(apply, "LeakyRelu", alpha=0.1),
    "revleaky": partial(apply, "LeakyRelu", alpha=0.1),
    "tanh": tanh,
    "plse": _plse,
    "hardtan": lambda x: clip(x, -1, 1),
    "lhtan": _lhtan,
    "stair": _stair,
}
# darknet runs these only behind the layers that have a branch for them, elsewhere they give 0
_SMOOTH: dict[str, _Activation] = {
    "swish": lambda x: x * sigmoid(x),
    # x * tanh(softplus(x)); darknet's cut at +-20 changes less than the last bit of a float32
    "mish": partial(apply, "Mish"),
}
_CONVOLUTION_ONLY: dict[str, _Activation] = {
    "hard_mish": _hard_mish,
    "normalize_channels": lambda x: _over_channels(relu(x)),
    "normalize_channels_softmax": lambda x: _over_channels(exp(x)),
    "normalize_channels_softmax_maxval": lambda x: _over_channels(
        exp(x - x.reduced("ReduceMax", 1))
    ),
}
_KNOWN = _PLAIN | _SMOOTH | _CONVOLUTION_ONLY


def activation_of(layer: Section, default: str) -> str:
    """The name of a layer's activation.

    Raises:
        UnsupportedOperatorError: unknown, or one that darknet does not run behind such a layer.
    """
    name = layer.text("activation", default)
    if name == "linear" or name in _PLAIN:
        return name
    if name not in _KNOWN:
        refuse(
            f"its activation {sanitize(name, 60)!r} is not known; darknet would take ReLU. "
            f"{did_you_mean(name, [*_KNOWN, 'linear'])}".rstrip()
        )
    kind = layer.type
    smooth = kind in ("convolutional", "conv", "shortcut") and name in _SMOOTH
    if not smooth and kind not in ("convolutional", "conv"):
        refuse(f"darknet does not compute the activation {name} behind [{sanitize(kind, 40)}]")
    return name


def activate(e: Emitter, name: str, x: str, out: str) -> str:
    """Write the activation ``name`` of ``x``; not for ``linear``, which is nothing."""
    return _KNOWN[name](e.formula(x)).written(out)


Shape = tuple[int, int, int]
"""Channels, height, width."""

MAX_DIM = 1 << 20
INPUT = -1
"""The index of the network's input among the layers."""


class UnknownShapeError(Exception):
    """A layer reads one that was refused: only a look meets this, a load has stopped before."""


@dataclass
class Net:
    """The network up to the layer that is being converted.

    Attributes:
        e: writes the graph.
        data: the input's tensor.
        epsilon: of batch normalisation.
        decode: whether heads are decoded.
        size: height and width of the input.
        weights: where layers get theirs; None for zeros, where only shapes matter.
        layers: those so far; None for one that was refused, hangs on one or is not needed.
    """

    e: TypedEmitter
    data: str
    epsilon: float
    decode: bool
    size: tuple[int, int]
    weights: WeightsFile | None
    layers: list[Layer | None] = field(default_factory=list)


@dataclass
class Layer(Section):
    """One layer, with the options of its section.

    Attributes:
        net: the network up to it.
        index: its number.
        name: of the layer and of its output.
        tensor: its output, once it is converted.
        sources: the layers that it reads; -1 is the network's input.
        blobs: its weights, in the file's order.
        kind: ``head`` for what decodes boxes, ``training`` for what only training uses.
        constants: role -> name of its weights, for layers that share them.
        owner: the layer whose weights it uses instead of its own.
    """

    net: Net = field(kw_only=True)
    index: int = field(kw_only=True)
    name: str = field(kw_only=True)
    tensor: str = ""
    sources: list[int] = field(default_factory=list)
    blobs: list[Blob] = field(default_factory=list)
    kind: Literal["layer", "head", "training"] = "layer"
    constants: dict[str, str] = field(default_factory=dict)
    owner: int | None = None

    @property
    def e(self) -> TypedEmitter:
        """What writes the graph."""
        return self.net.e

    @property
    def batch(self) -> int:
        """Pictures at once."""
        return self.e.shape(self.net.data)[0]

    # ------------------------------------------------------------------------ other layers
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

    def other(self, index: int) -> Layer:
        """A layer before this one.

        Raises:
            UnknownShapeError: it was refused.
        """
        layer = self.net.layers[index]
        if layer is None:
            raise UnknownShapeError
        return layer

    def raw(self, index: int | None = None) -> str:
        """The output of a layer (the one before) as it is: of rank 4, or 2 behind connected ones.

        Raises:
            UnknownShapeError: it was refused.
            UnsupportedOperatorError: it gives nothing that another layer could read.
        """
        index = self.index - 1 if index is None else index
        if index not in self.sources:
            self.sources.append(index)
        if index == INPUT:
            return self.net.data
        layer = self.other(index)
        if layer.kind != "layer":
            refuse(
                f"it reads layer {index} [{sanitize(layer.type, 40)}], whose output is not a "
                "tensor of the network"
            )
        return layer.tensor

    def shape(self, index: int | None = None) -> Shape:
        """The shape of a layer's output (the one before); 1x1 where it has no height and width."""
        _, channels, *size = self.e.shape(self.raw(index))
        height, width = size or (1, 1)
        return channels, height, width

    def is_flat(self, index: int | None = None) -> bool:
        """Whether the output of a layer has no height and width."""
        return len(self.e.shape(self.raw(index))) == 2

    def image(self, index: int | None = None) -> str:
        """The output of a layer with batch, channels, height and width."""
        tensor = self.raw(index)
        if not self.is_flat(index):
            return tensor
        return self.e.node("Reshape", [tensor, self.e.ints(0, *self.shape(index))])

    def flat(self) -> str:
        """The output of the layer before with batch and features."""
        return self.raw() if self.is_flat() else self.e.node("Flatten", [self.raw()], axis=1)

    # ------------------------------------------------------------------------ what it writes
    def array(self, blob: Blob) -> np.ndarray:
        """The next weights of the layer; zeros without memory where there are none."""
        self.blobs.append(blob)
        weights = self.net.weights
        array = None if weights is None else weights.take(blob, self.index, self.name)
        if array is None:
            self.e.keeps = False
            return np.broadcast_to(np.float32(0), blob.shape)
        return array

    def take(self, *blobs: Blob) -> None:
        """The next weights of the layer become constants."""
        for blob in blobs:
            hint = f"{self.name}_{blob.role}"
            self.constants[blob.role] = self.e.constant(self.array(blob), hint)

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The operator whose output is the layer's."""
        return self.e.node(op, inputs, self.name, **attributes)

    def activated(self, activation: str, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The last operator, and the activation behind it."""
        if activation == "linear":
            return self.node(op, inputs, **attributes)
        x = self.e.node(op, inputs, f"{self.name}_linear", **attributes)
        return activate(self.e, activation, x, self.name)

    def normalised(self, activation: str, x: str, names: Mapping[str, str]) -> str:
        """Batch normalisation by the running mean and variance (``normalize_cpu`` of blas.c)."""
        roles = ("scales", "biases", "means", "variances")
        inputs = [x, *(names[role] for role in roles)]
        epsilon = self.net.epsilon
        return self.activated(activation, "BatchNormalization", inputs, epsilon=epsilon)


Converter = Callable[[Layer], str]
"""Writes a layer; the name of its output."""


def check_shape(shape: Sequence[int]) -> None:
    """Refuse shapes that no network has.

    Raises:
        UnsupportedOperatorError: a dimension below 1, or far beyond what fits a memory.
    """
    if any(not 1 <= dim <= MAX_DIM for dim in shape):
        refuse(f"its output would be {'x'.join(str(dim) for dim in shape)}")
