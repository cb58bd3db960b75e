"""Darknet's activations as operators (src/activations.h of AlexeyAB's darknet)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from engine.base.text import did_you_mean, sanitize
from engine.frontends.darknet.files import Section
from engine.frontends.emit import Emitter
from engine.frontends.formula import Formula, apply, clip, exp, floor, relu, sigmoid, tanh
from engine.frontends.typed_emitter import refuse

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
