"""Weights and biases of convolutions and matrices, as TFLite takes them."""

from __future__ import annotations

import numpy as np

from engine.export.tflite.emitter import Constant, refused
from engine.export.tflite.layer import Layer
from engine.export.tflite.sliding import input_scale
from engine.export.tflite.writer import Quant

__all__ = ["float_bias", "integer_bias", "symmetric", "weight_quant"]

_INT8_MAX = 127


def weight_quant(layer: Layer, weight: Constant, axis: int) -> Quant:
    """The parameters of the int8 weights of a layer with integers.

    Args:
        axis: that of its outputs, in the weights.

    Raises:
        UnsupportedOperatorError: they are float, asymmetric, or have scales along another axis.
    """
    quant = weight.quant
    if quant is None:
        raise refused(layer.node, "its weights are not quantized, its input is")
    if any(quant.zero_point):
        raise refused(layer.node, "TFLite takes symmetric weights only (zero point 0)")
    if len(quant.scale) > 1 and quant.axis != axis:
        raise refused(layer.node, "its weights have scales along another axis than its outputs")
    return quant


def symmetric(weight: Constant) -> Constant:
    """Weights whose steps from their zero point fit into 8 bits, with zero point 0: those of older
    unsigned files often do. Others are as they were.
    """
    quant = weight.quant
    if quant is None or not any(quant.zero_point) or len(set(quant.zero_point)) > 1:
        return weight
    steps = weight.array.astype(np.int16) - quant.zero_point[0]
    if abs(steps).max(initial=0) > _INT8_MAX:
        return weight
    centred = Quant(quant.scale, (0,) * len(quant.scale), quant.axis)
    return Constant(steps.astype(np.int8), centred)


def float_bias(bias: Constant | None, outputs: int) -> np.ndarray:
    """A float32 bias for each output; zeros where there is none."""
    if bias is None:
        return np.zeros(outputs, np.float32)
    return np.broadcast_to(bias.real().reshape(-1), (outputs,)).copy()


def integer_bias(
    layer: Layer, weight: Quant, bias: Constant | None, outputs: int
) -> tuple[np.ndarray, Quant]:
    """An int32 bias for each output, and its parameters: scale of the input times scale of the
    weights, zero point 0, as TFLite prescribes. One that is stored so is kept to the bit.
    """
    scales = np.array(weight.scale, np.float64) * input_scale(layer)
    kept = Quant(tuple(map(float, scales)), (0,) * scales.size)
    if bias is None:
        return np.zeros(outputs, np.int32), kept
    if (
        bias.quant is not None
        and bias.array.dtype == np.int32
        and bias.array.size == outputs
        and np.allclose(np.array(bias.quant.scale), scales, rtol=1e-5, atol=0)
    ):
        return bias.array.reshape(-1), kept
    steps = np.rint(np.broadcast_to(bias.real().reshape(-1), (outputs,)) / scales)
    return np.clip(steps, -(2**31), 2**31 - 1).astype(np.int32), kept
