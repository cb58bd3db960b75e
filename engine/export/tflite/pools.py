"""Pools, with channels last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.export.tflite.emitter import LAST, Emitter, refused
from engine.export.tflite.layer import Layer
from engine.export.tflite.sliding import (
    as_float,
    finish,
    four_dimensions,
    input_scale,
    is_same,
    output_size,
    padded,
    sizes_of,
    window_of,
)
from engine.export.tflite.writer import Quant

__all__ = ["global_pool", "pool"]

_INT8_MAX = 127


def pool(layer: Layer, emitter: Emitter) -> None:
    """MaxPool and AveragePool.

    An average to other parameters, or over padding that counts, is a depthwise convolution with
    weights of 127, which are exact: AVERAGE_POOL_2D keeps its input's parameters.
    """
    if len(layer.outputs) > 1:
        raise refused(layer.node, "TFLite gives no indices")
    maximum = layer.node.op_type == "MaxPool"
    sizes = sizes_of(layer.attribute("kernel_shape"), len(layer.data.shape) - 2)
    source, kernel, strides, dilations, pads = window_of(layer, emitter, sizes)
    if any(d != 1 for d in dilations):
        raise refused(layer.node, "TFLite has no dilation here")
    output = output_size(layer)
    beyond = not maximum and _beyond(emitter, source, output, kernel, strides, pads)
    counted = maximum or (
        not beyond and (not any(pads) or bool(layer.attribute("count_include_pad", 0)))
    )
    same = is_same(emitter.writer.shape(source)[1:3], output, kernel, strides, (1, 1), pads)
    if not maximum and layer.quantized and counted:
        quant = emitter.writer.quant(source)
        if layer.target.quant != quant or any(pads):
            source, padding = padded(
                emitter, layer, source, kernel, strides, (1, 1), pads, output, same=False
            )
            _average(layer, emitter, source, kernel, strides, padding)
            return
    uneven = not same and not counted  # TFLite leaves the padding out for SAME only
    between = layer.quantized and (
        uneven or (not maximum and layer.target.quant != layer.data.quant)
    )
    if between:  # rounded once, not at the pool and at the conversion behind it
        source = emitter.dequantized(source)
    source, padding = padded(
        emitter, layer, source, kernel, strides, (1, 1), pads, output, lowest=maximum
    )
    values = {
        "Padding": padding,
        "StrideH": strides[0],
        "StrideW": strides[1],
        "FilterHeight": kernel[0],
        "FilterWidth": kernel[1],
    }
    kind = "MAX_POOL_2D" if maximum else "AVERAGE_POOL_2D"
    made = four_dimensions(layer, emitter, emitter.writer.quant(source))
    pooled = made
    if between or uneven:
        shape = emitter.writer.shape(made)
        pooled = emitter.writer.tensor(f"{emitter.writer.name(made)}/float", shape, "float32")
    emitter.emit(kind, [source], [pooled], "Pool2DOptions", values)
    if uneven:
        counts_pads = bool(layer.attribute("count_include_pad", 0))
        share = _inside(layer.data.shape[2:], output, kernel, strides, pads, counted=counts_pads)
        whole = emitter.constant(f"{layer.node.name}/inside", share)
        pooled, before = (
            (
                emitter.writer.tensor(f"{emitter.writer.name(made)}/mean", shape, "float32")
                if between
                else made
            ),
            pooled,
        )
        emitter.emit("MUL", [before, whole], [pooled], "MulOptions")
    if between:
        emitter.emit("QUANTIZE", [pooled], [made])
    finish(layer, emitter, made)


def _inside(
    sizes: Sequence[int],
    output: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    *,
    counted: bool,
) -> np.ndarray:
    """What a mean over whole windows is multiplied by to be one of what counts (1, H, W, 1).

    What a window covers beyond the padding never counts.
    """
    counts = []
    rows = [1, *sizes] if len(sizes) == 1 else list(sizes)
    for axis in (0, 1):
        first = np.arange(output[axis]) * strides[axis] - pads[axis]
        before, behind = (pads[axis], pads[axis + 2]) if counted else (0, 0)
        last = np.minimum(first + kernel[axis], rows[axis] + behind)
        counts.append(kernel[axis] / (last - np.maximum(first, -before)))
    return np.outer(*counts).astype(np.float32)[None, :, :, None]


def global_pool(layer: Layer, emitter: Emitter) -> None:
    """GlobalAveragePool as MEAN, GlobalMaxPool as REDUCE_MAX, over all axes of the picture."""
    source = emitter.read(layer.data, LAST) if layer.quantized else as_float(layer, emitter)
    axes = list(range(1, len(layer.data.shape) - 1))
    average = layer.node.op_type == "GlobalAveragePool"
    quant = None if average else emitter.writer.quant(source)
    made = emitter.output(layer.target, LAST, quant)
    inputs = [source, emitter.ints("axes", axes)]
    kind = "MEAN" if average else "REDUCE_MAX"
    emitter.emit(kind, inputs, [made], "ReducerOptions", {"KeepDims": True})
    emitter.settle(layer.target, LAST, made)


def _average(
    layer: Layer,
    emitter: Emitter,
    source: int,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: int,
) -> None:
    """An average as a depthwise convolution with equal weights."""
    channels = emitter.writer.shape(source)[3]
    scale = 1.0 / (_INT8_MAX * kernel[0] * kernel[1])
    stored = np.full((1, *kernel, channels), _INT8_MAX, np.int8)
    weight = emitter.constant("average", stored, Quant((scale,), (0,)))
    quant = Quant((scale * input_scale(layer),), (0,))
    bias = emitter.constant("average/bias", np.zeros(channels, np.int32), quant)
    values = {
        "Padding": padding,
        "StrideH": strides[0],
        "StrideW": strides[1],
        "DilationHFactor": 1,
        "DilationWFactor": 1,
        "DepthMultiplier": 1,
    }
    made = four_dimensions(layer, emitter)
    options = "DepthwiseConv2DOptions"
    emitter.emit("DEPTHWISE_CONV_2D", [source, weight, bias], [made], options, values)
    finish(layer, emitter, made)


def _beyond(
    emitter: Emitter,
    source: int,
    output: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
) -> bool:
    """Whether the last window stands beyond the padded input (``ceil_mode``)."""
    sizes = emitter.writer.shape(source)[1:3]
    reach = [(output[axis] - 1) * strides[axis] + kernel[axis] for axis in (0, 1)]
    return any(reach[axis] > sizes[axis] + pads[axis] + pads[axis + 2] for axis in (0, 1))
