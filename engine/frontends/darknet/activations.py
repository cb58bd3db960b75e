"""Darknet's activations as operators (src/activations.h of AlexeyAB's darknet)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.base.text import did_you_mean, printable
from engine.frontends.darknet.cfg import Section
from engine.frontends.darknet.plan import refuse
from engine.frontends.emit import Emitter

__all__ = ["activate", "activation_of"]

_Activation = Callable[[Emitter, str, str], str]


def _node(op: str, **attributes: Any) -> _Activation:
    def emit(e: Emitter, x: str, out: str) -> str:
        written: str = e.node(op, [x], out, **attributes)
        return written

    return emit


def _clip(low: float, high: float) -> _Activation:
    def emit(e: Emitter, x: str, out: str) -> str:
        return e.node("Clip", [x, e.scalar(low), e.scalar(high)], out)

    return emit


def _swish(e: Emitter, x: str, out: str) -> str:
    return e.node("Mul", [x, e.node("Sigmoid", [x])], out)


def _mish(e: Emitter, x: str, out: str) -> str:
    # x * tanh(softplus(x)); darknet's cut at +-20 changes less than the last bit of a float32
    return e.node("Mish", [x], out)


def _hard_mish(e: Emitter, x: str, out: str) -> str:
    """``x`` above 0, ``x²/2 + x`` down to -2, 0 below: clip(x, -2, 0)²/2 + max(x, -2)."""
    bent = e.node("Clip", [x, e.scalar(-2), e.scalar(0)])
    bow = e.node("Mul", [e.node("Mul", [bent, bent]), e.scalar(0.5)])
    line = e.node("Max", [x, e.scalar(-2)])
    return e.node("Add", [bow, line], out)


def _gelu(e: Emitter, x: str, out: str) -> str:
    """``0.5 x (1 + tanh(0.797885 x + 0.035677 x³))``, with darknet's own constants."""
    cube = e.node("Mul", [e.node("Mul", [x, x]), x])
    inner = e.node(
        "Add",
        [e.node("Mul", [x, e.scalar(0.797885)]), e.node("Mul", [cube, e.scalar(0.035677)])],
    )
    gate = e.node("Add", [e.node("Tanh", [inner]), e.scalar(1)])
    return e.node("Mul", [e.node("Mul", [x, e.scalar(0.5)]), gate], out)


def _loggy(e: Emitter, x: str, out: str) -> str:
    """``2 logistic(x) - 1``."""
    return e.node("Sub", [e.node("Mul", [e.node("Sigmoid", [x]), e.scalar(2)]), e.scalar(1)], out)


def _ramp(e: Emitter, x: str, out: str) -> str:
    """``x (x > 0) + 0.1 x``."""
    return e.node("Add", [e.node("Relu", [x]), e.node("Mul", [x, e.scalar(0.1)])], out)


def _plse(e: Emitter, x: str, out: str) -> str:
    """``x/8 + 1/2`` between -4 and 4, a slope of 0.01 beyond."""
    bent = e.node("Clip", [x, e.scalar(-4), e.scalar(4)])
    slope = e.node("Mul", [e.node("Sub", [x, bent]), e.scalar(0.01)])
    line = e.node("Add", [e.node("Mul", [bent, e.scalar(0.125)]), e.scalar(0.5)])
    return e.node("Add", [line, slope], out)


def _lhtan(e: Emitter, x: str, out: str) -> str:
    """``x`` between 0 and 1, a slope of 0.001 beyond."""
    bent = e.node("Clip", [x, e.scalar(0), e.scalar(1)])
    return e.node("Add", [bent, e.node("Mul", [e.node("Sub", [x, bent]), e.scalar(0.001)])], out)


def _stair(e: Emitter, x: str, out: str) -> str:
    """``floor(x/2)``, rising by ``x - floor(x)`` where ``floor(x)`` is odd."""
    whole = e.node("Floor", [x])
    half = e.node("Floor", [e.node("Mul", [x, e.scalar(0.5)])])
    even = e.node("Floor", [e.node("Mul", [whole, e.scalar(0.5)])])
    odd = e.node("Sub", [whole, e.node("Mul", [even, e.scalar(2)])])
    rise = e.node("Mul", [odd, e.node("Sub", [x, whole])])
    return e.node("Add", [half, rise], out)


def _normalize_channels(e: Emitter, x: str, out: str) -> str:
    """Positive values by their sum over the channels plus 1e-4."""
    positive = e.node("Relu", [x])
    return _over_channels(e, positive, out)


def _softmax_channels(e: Emitter, x: str, out: str) -> str:
    """``exp(x) / (1e-4 + sum exp(x))`` over the channels."""
    return _over_channels(e, e.node("Exp", [x]), out)


def _softmax_maxval_channels(e: Emitter, x: str, out: str) -> str:
    """The same of ``x`` less its greatest value."""
    highest = e.node("ReduceMax", [x, e.ints(1)], keepdims=1)
    return _over_channels(e, e.node("Exp", [e.node("Sub", [x, highest])]), out)


def _over_channels(e: Emitter, x: str, out: str) -> str:
    total = e.node("ReduceSum", [x, e.ints(1)], keepdims=1)
    return e.node("Div", [x, e.node("Add", [total, e.scalar(1e-4)])], out)


_SELU_ALPHA = float(np.float32(1.6732))
_SELU_GAMMA = float(np.float32(1.0507))

_PLAIN: dict[str, _Activation] = {
    "logistic": _node("Sigmoid"),
    "loggy": _loggy,
    "relu": _node("Relu"),
    "relu6": _clip(0, 6),
    "elu": _node("Elu", alpha=1.0),
    "selu": _node("Selu", alpha=_SELU_ALPHA, gamma=_SELU_GAMMA),
    "gelu": _gelu,
    "relie": _node("LeakyRelu", alpha=0.01),
    "ramp": _ramp,
    "leaky": _node("LeakyRelu", alpha=0.1),
    "revleaky": _node("LeakyRelu", alpha=0.1),
    "tanh": _node("Tanh"),
    "plse": _plse,
    "hardtan": _clip(-1, 1),
    "lhtan": _lhtan,
    "stair": _stair,
}
# darknet runs these only behind the layers that have a branch for them, elsewhere they give 0
_SMOOTH: dict[str, _Activation] = {"swish": _swish, "mish": _mish}
_CONVOLUTION_ONLY: dict[str, _Activation] = {
    "hard_mish": _hard_mish,
    "normalize_channels": _normalize_channels,
    "normalize_channels_softmax": _softmax_channels,
    "normalize_channels_softmax_maxval": _softmax_maxval_channels,
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
            f"its activation {printable(name, 60)!r} is not known; darknet would take ReLU. "
            f"{did_you_mean(name, [*_KNOWN, 'linear'])}".rstrip()
        )
    kind = layer.type
    smooth = kind in ("convolutional", "conv", "shortcut") and name in _SMOOTH
    if not smooth and kind not in ("convolutional", "conv"):
        refuse(f"darknet does not compute the activation {name} behind [{printable(kind, 40)}]")
    return name


def activate(e: Emitter, name: str, x: str, out: str) -> str:
    """Write the activation ``name`` of ``x``; not for ``linear``, which is nothing."""
    return _KNOWN[name](e, x, out)
