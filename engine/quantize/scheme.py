"""From ranges to scales and zero points: the w8a8 number format.

Activations are asymmetric int8, weights symmetric int8 (-127..127), biases int32. One rounding rule
everywhere: to the nearest integer, halves to the even one (``numpy.rint``, ``QuantizeLinear``).
"""

from __future__ import annotations

import numpy as np

from engine.graph.ir import QuantParams

__all__ = ["activation_params", "bias_params", "quantize_bias", "weight_params"]

# Below this a scale, or a product of two, leaves float32's normal numbers; no tensor needs it.
_SMALLEST_SCALE = 1e-18

# Accumulators have 32 bits on the NPU and in ONNX Runtime: the bias takes at most a quarter.
_BIAS_LIMIT = float(1 << 29)


def activation_params(
    minimum: float, maximum: float, observed: tuple[float, float] | None = None
) -> QuantParams:
    """Asymmetric int8 parameters of one tensor.

    The range is widened to contain 0, so that 0 (padding, Relu) is exact; ``scale = (max - min) /
    255`` in float32 and ``zero_point = round(-128 - min / scale)``, as the vendor's toolkit 2 does
    (observed from outside, version 2.3.2).

    Args:
        minimum, maximum: the range in the tensor's unit.
        observed: what calibration saw, where the range is another one.
    """
    low, high = min(float(minimum), 0.0), max(float(maximum), 0.0)
    scale = np.float32((high - low) / 255.0)
    if high == low:
        scale = np.float32(1.0 / 255.0)  # always 0: any scale is exact
    scale = np.float32(max(float(scale), _SMALLEST_SCALE))
    zero = int(np.clip(np.rint(-128.0 - low / float(scale)), -128, 127))
    seen = observed if observed is not None else (float(minimum), float(maximum))
    return QuantParams(
        dtype="int8",
        scale=(float(scale),),
        zero_point=(zero,),
        minimum=(low,),
        maximum=(high,),
        observed_minimum=seen[0],
        observed_maximum=seen[1],
    )


def weight_params(
    weight: np.ndarray, axis: int | None, bias: np.ndarray | None, input_scale: float
) -> QuantParams:
    """Symmetric int8 parameters of a weight: ``scale = max |w| / 127`` per channel or per tensor.

    A channel whose bias would not fit the int32 accumulator at scale ``input_scale * scale`` gets
    the smallest scale at which it does: its weights are then so small against the bias that their
    loss does not show (a channel pruned to zero, say).

    Args:
        weight: float32.
        axis: of the output channels; None for one scale.
        bias: float32, one value per output channel, or None.
        input_scale: of the activation that meets the weight.
    """
    if axis is None:
        largest = np.abs(weight).max(keepdims=True).reshape(1).astype(np.float64)
    else:
        others = tuple(i for i in range(weight.ndim) if i != axis)
        largest = np.abs(weight).max(axis=others).astype(np.float64)
    scale = np.maximum(largest / 127.0, _SMALLEST_SCALE)
    if bias is not None:
        needed = np.abs(bias.astype(np.float64)).reshape(-1) / (_BIAS_LIMIT * input_scale)
        scale = np.maximum(scale, needed if axis is not None else needed.max(initial=0.0))
    scale = scale.astype(np.float32)
    return QuantParams(
        dtype="int8",
        scale=tuple(float(s) for s in scale),
        zero_point=(0,) * scale.size,
        axis=axis,
        minimum=tuple(float(-127.0 * s) for s in scale),
        maximum=tuple(float(127.0 * s) for s in scale),
        observed_minimum=float(weight.min()),
        observed_maximum=float(weight.max()),
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
