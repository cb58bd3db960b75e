"""From ranges to scales and zero points, in every number format.

One rounding rule everywhere: to the nearest integer, halves to the even one (``numpy.rint``,
``QuantizeLinear``).
"""

from __future__ import annotations

from dataclasses import replace
from math import floor, log2

import numpy as np

from engine.graph.ir import QuantParams
from engine.quantize.dtypes.formats import SCHEMES, Format

# Below this a scale, or a product of two, leaves float32's normal numbers; no tensor needs it.
_SMALLEST_SCALE = 1e-18

# Accumulators have 32 bits on the NPU and in ONNX Runtime: the bias takes at most a quarter.
_BIAS_LIMIT = float(1 << 29)

_W8A8 = SCHEMES["w8a8"]


def activation_params(
    minimum: float,
    maximum: float,
    observed: tuple[float, float] | None = None,
    form: Format = _W8A8.activation,
) -> QuantParams:
    """Parameters of one activation tensor.

    Affine: the range is widened to contain 0, so that 0 (padding, Relu) is exact; ``scale = (max -
    min) / (high - low)`` in float32 and ``zero_point = round(low - min / scale)`` with the lowest
    and highest integer of the format, as the vendor's toolkit 2 does (observed from outside,
    version 2.3.2). Dynamic fixed point: see :func:`_fixed_point`.

    Args:
        minimum, maximum: the range in the tensor's unit.
        observed: what calibration saw, where the range is another one.
        form: the number format; w8a8's int8 by default.
    """
    seen = observed if observed is not None else (float(minimum), float(maximum))
    low, high = min(float(minimum), 0.0), max(float(maximum), 0.0)
    if form.is_float:
        params = half_params()
    elif form.kind == "dynamic_fixed_point":
        params = _fixed_point(np.array([max(-low, high)]), form, None)
    else:
        scale = np.float32((high - low) / (form.high - form.low))
        if high == low:
            scale = np.float32(1.0 / (form.high - form.low))  # always 0: any scale is exact
        scale = np.float32(max(float(scale), _SMALLEST_SCALE))
        zero = int(np.clip(np.rint(form.low - low / float(scale)), form.low, form.high))
        params = QuantParams(form.dtype, (float(scale),), (zero,), minimum=(low,), maximum=(high,))
    return replace(params, observed_minimum=seen[0], observed_maximum=seen[1])


def half_params() -> QuantParams:
    """The parameters of a tensor in half precision."""
    return QuantParams("float16", (1.0,), (0,))


def _fixed_point(largest: np.ndarray, form: Format, axis: int | None) -> QuantParams:
    """Dynamic fixed point: ``real = integer * 2**-fl`` with the largest fl that saturates nothing.

    ``fl = floor(log2(high / largest))``; where all is 0 it is what 1.0 would get. The formula of
    the numbers is the vendor's (user guide of generation 1); how fl is chosen it does not say.
    """
    places = np.array(
        [
            floor(log2(form.high / m)) if m > 0 else floor(log2(form.high))
            for m in np.maximum(largest, 0.0)
        ]
    )
    scale = np.exp2(-places.clip(-59, 59).astype(np.float64))
    return QuantParams(
        dtype=form.dtype,
        scale=tuple(float(s) for s in scale),
        zero_point=(0,) * scale.size,
        axis=axis,
        minimum=tuple(float(form.low * s) for s in scale),
        maximum=tuple(float(form.high * s) for s in scale),
        narrow=True,
    )


def weight_params(
    weight: np.ndarray,
    axis: int | None,
    bias: np.ndarray | None,
    input_scale: float,
    form: Format = _W8A8.weight,
) -> QuantParams:
    """Parameters of a weight, per output channel or per tensor.

    Symmetric: ``scale = max |w| / 127``, zero point 0. Affine: range and zero point as of
    activations. Dynamic fixed point: the largest fl that saturates nothing.

    A channel whose bias would not fit the int32 accumulator at scale ``input_scale * scale`` gets
    the smallest scale at which it does: its weights are then so small against the bias that their
    loss does not show (a channel pruned to zero, say).

    Args:
        weight: float32.
        axis: of the output channels; None for one scale.
        bias: float32, one value per output channel, or None where no int32 bias is made.
        input_scale: of the activation that meets the weight.
        form: the number format; w8a8's symmetric int8 by default.
    """
    rows = weight.reshape(1, -1)
    if axis is not None:
        first = weight if axis == 0 else np.moveaxis(weight, axis, 0)
        rows = first.reshape(weight.shape[axis], -1)
    low, high = rows.min(axis=1), rows.max(axis=1)
    params = half_params()
    if not form.is_float:
        params = _of_weight(low, high, axis, bias, input_scale, form)
    return replace(params, observed_minimum=float(low.min()), observed_maximum=float(high.max()))


def _of_weight(
    low: np.ndarray,
    high: np.ndarray,
    axis: int | None,
    bias: np.ndarray | None,
    input_scale: float,
    form: Format,
) -> QuantParams:
    """``low`` and ``high``: the weight's ends, (channels,)."""
    low = np.minimum(low, 0.0).astype(np.float64)
    high = np.maximum(high, 0.0).astype(np.float64)
    smallest = np.full(low.shape, _SMALLEST_SCALE)
    if bias is not None:
        needed = np.abs(bias.astype(np.float64)).reshape(-1) / (_BIAS_LIMIT * input_scale)
        smallest = np.maximum(smallest, needed if axis is not None else needed.max(initial=0.0))
    largest = np.maximum(-low, high)
    if form.kind == "dynamic_fixed_point":
        return _fixed_point(np.maximum(largest, form.high * smallest), form, axis)
    if form.kind == "symmetric":
        scale = np.maximum(largest / form.high, smallest).astype(np.float32)
        zero = np.zeros(scale.size)
        low, high = form.low * scale.astype(np.float64), form.high * scale.astype(np.float64)
    else:
        scale = np.maximum((high - low) / (form.high - form.low), smallest).astype(np.float32)
        zero = np.clip(np.rint(form.low - low / scale), form.low, form.high)
    return QuantParams(
        dtype=form.dtype,
        scale=tuple(scale.tolist()),
        zero_point=tuple(zero.astype(np.int64).tolist()),
        axis=axis,
        minimum=tuple(low.tolist()),
        maximum=tuple(high.tolist()),
    )


def bias_params(input_scale: float, weight: QuantParams) -> QuantParams:
    """Parameters of the int32 bias: scale ``input_scale * weight scale``, zero point 0."""
    scale = np.float32(input_scale) * np.asarray(weight.scale, dtype=np.float32)
    return QuantParams(
        dtype="int32",
        scale=tuple(float(s) for s in scale),
        zero_point=(0,) * scale.size,
        axis=None if weight.axis is None else 0,
    )


def quantize_bias(bias: np.ndarray, params: QuantParams) -> np.ndarray:
    """The int32 bias; divided in float64, as float32 has too few bits for 32-bit integers."""
    scale = np.asarray(params.scale, dtype=np.float64)
    steps = np.rint(bias.astype(np.float64).reshape(-1) / scale)
    return np.clip(steps, *params.limits).astype(np.int32)
