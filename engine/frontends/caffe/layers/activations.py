"""Layers that compute each number for itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.caffe.prototxt import Fields


def _renamed(op: str, param: str = "", **attributes: tuple[str, float]) -> Converter:
    """One ONNX operator; attribute -> Caffe's name of the number and its default."""

    def convert(at: Layer, fields: Fields) -> Tensor:
        numbers: dict[str, Any] = {
            name: fields.number(*known) for name, known in attributes.items()
        }
        return at.top(op, at.x.name, **numbers)

    return one_top(convert, param)


def _relu(at: Layer, param: Fields) -> Tensor:
    """relu_layer.cpp: ``max(x, 0) + negative_slope * min(x, 0)``."""
    slope = param.number("negative_slope", 0.0)
    return at.top("LeakyRelu", at.x.name, alpha=slope) if slope else at.top("Relu", at.x.name)


def _prelu(at: Layer, param: Fields) -> Tensor:
    """prelu_layer.cpp: a slope for each channel (axis 1), or one for all."""
    channels = 1 if param.flag("channel_shared", False) else at.x.shape[1]
    slope = at.blob([channels], "slope", param.message("filler"))
    slope = slope if channels == 1 else slope.reshape(-1, *[1] * (at.x.rank - 2))
    return at.top("PRelu", at.x.name, at.constant(slope, "slope"))


def _swish(at: Layer, param: Fields) -> Tensor:
    """swish_layer.cpp: ``x * sigmoid(beta * x)``."""
    beta = param.number("beta", 1.0)
    inner = at.x.name if beta == 1 else at.node("Mul", at.x.name, at.scalar(beta))
    return at.top("Mul", at.x.name, at.node("Sigmoid", inner))


def _clip(at: Layer, param: Fields) -> Tensor:
    """clip_layer.cpp: between ``min`` and ``max``, both required."""
    if "min" not in param or "max" not in param:
        raise at.fault("clip_param gives no min or no max")
    return _clipped(at, param.number("min", 0.0), param.number("max", 0.0))


def _relu6(at: Layer, _: Fields) -> Tensor:
    """``min(max(x, 0), 6)``, as the forks with MobileNets have it."""
    for name in ("relu6_param", "relu_param"):
        if at.param(name).number("negative_slope", 0.0):
            raise at.refuse("its negative slope is not 0")
    return _clipped(at, 0.0, 6.0)


def _clipped(at: Layer, low: float, high: float) -> Tensor:
    return at.top("Clip", at.x.name, at.scalar(low), at.scalar(high))


def _threshold(at: Layer, param: Fields) -> Tensor:
    """threshold_layer.cpp: 1 where ``x > threshold``, else 0."""
    above = at.node("Greater", at.x.name, at.scalar(param.number("threshold", 0.0)))
    return at.top("Cast", above, to=1)


def _power(at: Layer, param: Fields) -> Tensor:
    """power_layer.cpp: ``(shift + scale * x) ^ power``; constant where scale or power is 0."""
    power, scale = param.number("power", 1.0), param.number("scale", 1.0)
    shift = param.number("shift", 0.0)
    if power * scale == 0:
        value = 1.0 if power == 0 else _safely(at, lambda: math.pow(shift, power))
        return _chain(at, ("Mul", 0.0), ("Add", value))
    return _chain(at, ("Mul", scale), ("Add", shift), ("Pow", power))


def _exp(at: Layer, param: Fields) -> Tensor:
    """exp_layer.cpp: ``base ^ (shift + scale * x)``, computed as ``exp(inner * x) * outer``."""
    log_base, scale, shift = _logarithmic(at, param)
    outer = _safely(at, lambda: math.exp(log_base * shift))
    return _chain(at, ("Mul", log_base * scale), ("Exp", None), ("Mul", outer))


def _log(at: Layer, param: Fields) -> Tensor:
    """log_layer.cpp: ``log_base(shift + scale * x)``."""
    log_base, scale, shift = _logarithmic(at, param)
    if log_base == 0:
        raise at.fault("the base of the logarithm is 1")
    return _chain(at, ("Mul", scale), ("Add", shift), ("Log", None), ("Mul", 1 / log_base))


def _logarithmic(at: Layer, param: Fields) -> tuple[float, float, float]:
    """The logarithm of the base, where -1 stands for e, the scale and the shift."""
    base = param.number("base", -1.0)
    if base != -1 and base <= 0:
        raise at.fault(f"the base {base} is not above 0")
    log_base = 1.0 if base == -1 else math.log(base)
    return log_base, param.number("scale", 1.0), param.number("shift", 0.0)


def _safely(at: Layer, compute: Callable[[], float]) -> float:
    try:
        return compute()
    except (ValueError, OverflowError) as error:
        raise at.fault("its parameters give no finite number") from error


_NEUTRAL = {"Add": 0.0, "Mul": 1.0, "Pow": 1.0}
"""Operator -> the constant beside it that changes nothing."""


def _chain(at: Layer, *steps: tuple[str, float | None]) -> Tensor:
    """Operators one after the other, each with the constant beside it; the last makes the top."""
    kept = [(op, value) for op, value in steps if value is None or value != _NEUTRAL[op]]
    *inner, (last, last_value) = kept or [("Identity", None)]
    name = at.x.name
    for op, value in inner:
        name = at.node(op, name, *_operand(at, value))
    return at.top(last, name, *_operand(at, last_value))


def _operand(at: Layer, value: float | None) -> list[str]:
    if value is None:
        return []
    if not abs(value) <= float(np.finfo(np.float32).max):
        raise at.fault("its parameters give no finite number")
    return [at.scalar(value)]


LAYERS: Mapping[str, Converter] = {
    "AbsVal": _renamed("Abs"),
    "BNLL": _renamed("Softplus"),
    "Clip": one_top(_clip, "clip_param"),
    "ELU": _renamed("Elu", "elu_param", alpha=("alpha", 1.0)),
    "Exp": one_top(_exp, "exp_param"),
    "HardSwish": _renamed("HardSwish"),
    "Hswish": _renamed("HardSwish"),
    "Log": one_top(_log, "log_param"),
    "Mish": _renamed("Mish"),
    "PReLU": one_top(_prelu, "prelu_param", least=2),
    "Power": one_top(_power, "power_param"),
    "ReLU": one_top(_relu, "relu_param", ignored=("engine",)),
    "ReLU6": one_top(_relu6),
    "Relu6": one_top(_relu6),
    "Sigmoid": _renamed("Sigmoid"),
    "Swish": one_top(_swish, "swish_param"),
    "TanH": _renamed("Tanh"),
    "Threshold": one_top(_threshold, "threshold_param"),
}
