"""Layers that compute each number for itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.caffe.prototxt import Fields

__all__ = ["LAYERS"]


def _plain(op: str) -> Converter:
    """A layer that is one ONNX operator without parameters."""

    def convert(at: Layer) -> Sequence[Tensor]:
        at.expect([1])
        return [at.top(op, at.x.name, shape=at.x.shape)]

    return convert


def _relu(at: Layer, param: Fields) -> Tensor:
    """relu_layer.cpp: ``max(x, 0) + negative_slope * min(x, 0)``."""
    slope = param.number("negative_slope", 0.0)
    if slope:
        return at.top("LeakyRelu", at.x.name, shape=at.x.shape, alpha=slope)
    return at.top("Relu", at.x.name, shape=at.x.shape)


def _prelu(at: Layer, param: Fields) -> Tensor:
    """prelu_layer.cpp: a slope for each channel (axis 1), or one for all."""
    shared = param.flag("channel_shared", False)
    filler = param.message("filler")
    if shared:
        slope = at.blob([1], "slope", filler)
    else:
        slope = at.blob([at.x.shape[1]], "slope", filler)
        slope = slope.reshape(-1, *[1] * (at.x.rank - 2))
    return at.top("PRelu", at.x.name, at.constant(slope, "slope"), shape=at.x.shape)


def _elu(at: Layer, param: Fields) -> Tensor:
    """elu_layer.cpp: ``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    alpha = param.number("alpha", 1.0)
    return at.top("Elu", at.x.name, shape=at.x.shape, alpha=alpha)


def _swish(at: Layer, param: Fields) -> Tensor:
    """swish_layer.cpp: ``x * sigmoid(beta * x)``."""
    beta = param.number("beta", 1.0)
    inner = at.x.name if beta == 1 else at.node("Mul", at.x.name, at.scalar(beta))
    return at.top("Mul", at.x.name, at.node("Sigmoid", inner), shape=at.x.shape)


def _clip(at: Layer, param: Fields) -> Tensor:
    """clip_layer.cpp: between ``min`` and ``max``, both required."""
    if "min" not in param or "max" not in param:
        raise at.fault("clip_param gives no min or no max")
    return _clipped(at, param.number("min", 0.0), param.number("max", 0.0))


def _relu6(at: Layer) -> Sequence[Tensor]:
    """``min(max(x, 0), 6)``, as the forks with MobileNets have it."""
    at.expect([1])
    for name in ("relu6_param", "relu_param"):
        if at.param(name).number("negative_slope", 0.0):
            raise at.refuse("its negative slope is not 0")
    return [_clipped(at, 0.0, 6.0)]


def _clipped(at: Layer, low: float, high: float) -> Tensor:
    return at.top("Clip", at.x.name, at.scalar(low), at.scalar(high), shape=at.x.shape)


def _threshold(at: Layer, param: Fields) -> Tensor:
    """threshold_layer.cpp: 1 where ``x > threshold``, else 0."""
    limit = param.number("threshold", 0.0)
    above = at.node("Greater", at.x.name, at.scalar(limit))
    return at.top("Cast", above, shape=at.x.shape, to=1)


def _power(at: Layer, param: Fields) -> Tensor:
    """power_layer.cpp: ``(shift + scale * x) ^ power``; constant where scale or power is 0."""
    power, scale = param.number("power", 1.0), param.number("scale", 1.0)
    shift = param.number("shift", 0.0)
    steps: list[_Step] = []
    if power * scale == 0:
        value = 1.0 if power == 0 else _safely(at, lambda: math.pow(shift, power))
        steps = [("Mul", 0.0), ("Add", value)]
    else:
        steps += [("Mul", scale)] if scale != 1 else []
        steps += [("Add", shift)] if shift != 0 else []
        steps += [("Pow", power)] if power != 1 else []
    return _chain(at, steps)


def _exp(at: Layer, param: Fields) -> Tensor:
    """exp_layer.cpp: ``base ^ (shift + scale * x)``, computed as ``exp(inner * x) * outer``."""
    base, scale = param.number("base", -1.0), param.number("scale", 1.0)
    shift = param.number("shift", 0.0)
    log_base = _log_base(at, base)
    inner = log_base * scale
    outer = 1.0 if shift == 0 else _safely(at, lambda: math.exp(log_base * shift))
    steps: list[_Step] = [("Mul", inner)] if inner != 1 else []
    steps.append(("Exp", None))
    steps += [("Mul", outer)] if outer != 1 else []
    return _chain(at, steps)


def _log(at: Layer, param: Fields) -> Tensor:
    """log_layer.cpp: ``log_base(shift + scale * x)``."""
    base, scale = param.number("base", -1.0), param.number("scale", 1.0)
    shift = param.number("shift", 0.0)
    log_base = _log_base(at, base)
    if log_base == 0:
        raise at.fault("the base of the logarithm is 1")
    steps: list[_Step] = [("Mul", scale)] if scale != 1 else []
    steps += [("Add", shift)] if shift != 0 else []
    steps.append(("Log", None))
    steps += [("Mul", 1 / log_base)] if log_base != 1 else []
    return _chain(at, steps)


def _log_base(at: Layer, base: float) -> float:
    """The logarithm of a base, where -1 stands for e."""
    if base != -1 and base <= 0:
        raise at.fault(f"the base {base} is not above 0")
    return 1.0 if base == -1 else math.log(base)


def _safely(at: Layer, compute: Callable[[], float]) -> float:
    try:
        return compute()
    except (ValueError, OverflowError) as error:
        raise at.fault("its parameters give no finite number") from error


_Step = tuple[str, float | None]


def _chain(at: Layer, steps: Sequence[_Step]) -> Tensor:
    """Operators one after the other, each with the constant beside it; the last makes the top."""
    if not steps:
        return at.top("Identity", at.x.name, shape=at.x.shape)
    name = at.x.name
    for op, value in steps[:-1]:
        name = at.node(op, name, *_operand(at, value))
    op, value = steps[-1]
    return at.top(op, name, *_operand(at, value), shape=at.x.shape)


def _operand(at: Layer, value: float | None) -> list[str]:
    if value is None:
        return []
    if not abs(value) <= float(np.finfo(np.float32).max):
        raise at.fault("its parameters give no finite number")
    return [at.scalar(value)]


LAYERS: Mapping[str, Converter] = {
    "AbsVal": _plain("Abs"),
    "BNLL": _plain("Softplus"),
    "Clip": one_top(_clip, "clip_param"),
    "ELU": one_top(_elu, "elu_param"),
    "Exp": one_top(_exp, "exp_param"),
    "HardSwish": _plain("HardSwish"),
    "Hswish": _plain("HardSwish"),
    "Log": one_top(_log, "log_param"),
    "Mish": _plain("Mish"),
    "PReLU": one_top(_prelu, "prelu_param", least=2),
    "Power": one_top(_power, "power_param"),
    "ReLU": one_top(_relu, "relu_param", ignored=("engine",)),
    "ReLU6": _relu6,
    "Relu6": _relu6,
    "Sigmoid": _plain("Sigmoid"),
    "Swish": one_top(_swish, "swish_param"),
    "TanH": _plain("Tanh"),
    "Threshold": one_top(_threshold, "threshold_param"),
}
