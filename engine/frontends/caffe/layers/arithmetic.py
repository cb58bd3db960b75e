"""Layers that compute number by number, of one tensor or several, or a few numbers of many."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from engine.base.text import shape_text
from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top
from engine.frontends.caffe.prototxt import Fields

_OPERATIONS = {0: "PROD", 1: "SUM", 2: "MAX"}


def _eltwise(at: Layer, param: Fields) -> Tensor:
    """eltwise_layer.cpp: product, sum with coefficients, or maximum of equal shapes."""
    for other in at.inputs[1:]:
        if other.shape != at.x.shape:
            shapes = " and ".join(shape_text(x.shape) for x in (at.x, other))
            raise at.fault(f"its bottoms have different shapes: {shapes}")
    operation = param.choice("operation", _OPERATIONS, "SUM")
    factors = param.numbers("coeff")
    if factors and (operation != "SUM" or len(factors) != len(at.inputs)):
        raise at.fault(f"{len(factors)} coefficients for {operation} of {len(at.inputs)} bottoms")
    names = [x.name for x in at.inputs]
    for index, factor in enumerate(factors):
        if factor != 1:
            names[index] = at.node("Mul", names[index], at.scalar(factor))
    op = {"PROD": "Mul", "SUM": "Add", "MAX": "Max"}[operation]
    first = names[0]
    for name in names[1:-1]:
        first = at.node(op, first, name)
    return at.top(op, first, names[-1])


def _scale(at: Layer, param: Fields) -> Tensor:
    """scale_layer.cpp: times weights or a second bottom, plus a bias where asked for."""
    biased = param.flag("bias_term", False)
    bias_filler = param.message("bias_filler")
    axis, shape = _span(at, param)
    factor = _operand(at, shape, axis, "one", param.message("filler"))
    if not biased:
        return at.top("Mul", at.x.name, factor)
    product = at.node("Mul", at.x.name, factor)
    spread = (*shape, *[1] * (at.x.rank - axis - len(shape)))
    offset = at.constant(at.blob(shape, "bias", bias_filler).reshape(spread), "bias")
    return at.top("Add", product, offset)


def _bias(at: Layer, param: Fields) -> Tensor:
    """bias_layer.cpp: plus weights or a second bottom."""
    axis, shape = _span(at, param)
    offset = _operand(at, shape, axis, "bias", param.message("filler"))
    return at.top("Add", at.x.name, offset)


def _span(at: Layer, param: Fields) -> tuple[int, tuple[int, ...]]:
    """The first axis that the second operand spans, and its shape.

    Axes ``axis`` to ``axis + num_axes``; a second bottom has a shape of its own.
    """
    axis = at.axis(param, "axis", 1)
    count = param.integer("num_axes", 1)
    if len(at.inputs) == 2:
        shape = at.inputs[1].shape
        axis = axis if shape else 0
    elif count < -1 or axis + count > at.x.rank:
        raise at.fault(f"num_axes is {count} from axis {axis} of {at.x.rank}")
    else:
        shape = at.x.shape[axis : None if count == -1 else axis + count]
    if at.x.shape[axis : axis + len(shape)] != shape:
        raise at.fault(
            f"{shape_text(shape)} does not fit {shape_text(at.x.shape)} from axis {axis} on"
        )
    return axis, shape


def _operand(at: Layer, shape: tuple[int, ...], axis: int, kind: str, filler: Fields) -> str:
    """The second operand, with axes of 1 behind it so that ONNX spreads it the same way."""
    spread = (*shape, *[1] * (at.x.rank - axis - len(shape)))
    if len(at.inputs) == 1:
        return at.constant(at.blob(shape, kind, filler).reshape(spread), kind)
    other = at.inputs[1]
    return other.name if spread == other.shape else at.reshaped(other.name, spread)


def _axpy(at: Layer, _: Fields) -> Tensor:
    """axpy_layer.cpp of the SENet fork: ``a * x + y`` with a number of ``a`` per channel."""
    a, x, y = at.inputs
    if x.shape != y.shape or math.prod(a.shape) != math.prod(x.shape[:2]) or x.rank < 2:
        shapes = ", ".join(shape_text(value.shape) for value in at.inputs)
        raise at.fault(f"its bottoms do not fit each other: {shapes}")
    spread = (*x.shape[:2], *[1] * (x.rank - 2))
    factor = a.name if a.shape == spread else at.reshaped(a.name, spread)
    return at.top("Add", at.node("Mul", factor, x.name), y.name)


_REDUCTIONS = {1: "SUM", 2: "ASUM", 3: "SUMSQ", 4: "MEAN"}
_REDUCE = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}


def _reduction(at: Layer, param: Fields) -> Tensor:
    """reduction_layer.cpp: over all axes from ``axis`` (0) on, times a coefficient."""
    axis = at.axis(param, "axis", 0)
    op = _REDUCE[param.choice("operation", _REDUCTIONS, "SUM")]
    factor = param.number("coeff", 1.0)
    axes = at.ints(*range(axis, at.x.rank))
    if factor == 1:
        return at.top(op, at.x.name, axes, keepdims=0)
    reduced = at.node(op, at.x.name, axes, keepdims=0)
    return at.top("Mul", reduced, at.scalar(factor))


def _arg_max(at: Layer, param: Fields) -> Tensor:
    """argmax_layer.cpp: the places of the largest numbers as float32, or these numbers too.

    Caffe sorts pairs of number and place, so that of equal numbers the last one comes first: the
    axis is turned round, as TopK takes the first of equal ones.
    """
    count, values = param.integer("top_k", 1), param.flag("out_max_val", False)
    along = "axis" in param
    if along:
        axis, name = at.axis(param, "axis", 0), at.x.name
        length = at.x.shape[axis]
    else:
        axis, length = 2, math.prod(at.x.shape[1:])
        name = at.reshaped(at.x.name, (at.x.shape[0], 1, length))
    if not 1 <= count <= length:
        raise at.fault(f"top_k is {count} of {length}")
    turned = at.node("Slice", name, *at.backwards(axis))
    hints = [f"{at.spec.makes[0]}:values", f"{at.spec.makes[0]}:places"]
    largest, places = at.writer.nodes("TopK", [turned, at.ints(count)], hints, axis=axis)
    if along and values:
        return at.top("Identity", largest)
    index = at.node("Sub", at.ints(length - 1), places)
    if along:
        return at.top("Cast", index, to=1)
    numbers = at.node("Cast", index, to=1)
    if values:
        numbers = at.node("Concat", numbers, largest, axis=1)
    channels = 2 if values else 1
    return at.reshape_top(numbers, (at.x.shape[0], channels, count, *[1] * (at.x.rank - 3)))


# Layers that compute each number for itself.


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
        name = at.node(op, name, *_number(at, value))
    return at.top(last, name, *_number(at, last_value))


def _number(at: Layer, value: float | None) -> list[str]:
    if value is None:
        return []
    if not abs(value) <= float(np.finfo(np.float32).max):
        raise at.fault("its parameters give no finite number")
    return [at.scalar(value)]


LAYERS: Mapping[str, Converter] = {
    "Axpy": one_top(_axpy, bottoms=[3]),
    "Bias": one_top(_bias, "bias_param", bottoms=[1, 2]),
    "Eltwise": one_top(
        _eltwise, "eltwise_param", bottoms=range(2, 1000), ignored=("stable_prod_grad",)
    ),
    "Scale": one_top(_scale, "scale_param", bottoms=[1, 2]),
    "ArgMax": one_top(_arg_max, "argmax_param"),
    "Reduction": one_top(_reduction, "reduction_param"),
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
