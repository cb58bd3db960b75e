"""Convolutions and transposed ones, with channels last."""

from __future__ import annotations

from math import ceil

import numpy as np

from engine.compile.tflite.emitter import LAST, Constant, Emitter, refused
from engine.compile.tflite.layer import Layer
from engine.compile.tflite.sliding import (
    SAME,
    VALID,
    as_float,
    finish,
    four_dimensions,
    output_size,
    padded,
    sizes_of,
    window_of,
)
from engine.compile.tflite.weights import float_bias, integer_bias, weight_quant
from engine.compile.tflite.writer import Quant

__all__ = ["conv", "conv_transpose"]


def conv(layer: Layer, emitter: Emitter) -> None:
    """Conv as CONV_2D or DEPTHWISE_CONV_2D; a padding that is not SAME is a PAD before it."""
    weight = _weight(layer)
    source, kernel, strides, dilations, pads = window_of(layer, emitter, weight.array.shape[2:])
    groups = int(layer.attribute("group", 1))
    array = weight.array.reshape(*weight.array.shape[:2], *kernel)
    channels = layer.data.shape[1]
    depthwise = groups == channels and groups > 1 and array.shape[1] == 1
    output = output_size(layer)
    source, padding = padded(emitter, layer, source, kernel, strides, dilations, pads, output)
    values: dict[str, int | float | bool] = {
        "Padding": padding,
        "StrideH": strides[0],
        "StrideW": strides[1],
        "DilationHFactor": dilations[0],
        "DilationWFactor": dilations[1],
        "FusedActivationFunction": layer.activation,
    }
    if depthwise:
        values["DepthMultiplier"] = array.shape[0] // channels
        stored, axis = array.transpose(1, 2, 3, 0), 3
    else:
        stored, axis = array.transpose(0, 2, 3, 1), 0
    kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    options = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    inputs = [source, *_parameters(layer, emitter, weight, stored, axis, array.shape[0])]
    made = four_dimensions(layer, emitter)
    emitter.emit(kind, inputs, [made], options, values)
    finish(layer, emitter, made)


def conv_transpose(layer: Layer, emitter: Emitter) -> None:
    """ConvTranspose as TRANSPOSE_CONV; what its padding cuts off is sliced off behind it."""
    weight = _weight(layer, axis=1)
    if int(layer.attribute("group", 1)) != 1 or weight.array.ndim != 4:
        raise refused(layer.node, "TFLite has it with one group and two dimensions")
    if any(d != 1 for d in layer.attribute("dilations", (1,))):
        raise refused(layer.node, "TFLite has no dilation here")
    kernel = weight.array.shape[2:]
    strides = sizes_of(layer.attribute("strides"), 2)
    pads = sizes_of(layer.attribute("pads"), 4, 0)
    source = emitter.read(layer.data, LAST) if layer.quantized else as_float(layer, emitter)
    sizes = layer.data.shape[2:]
    full = [(size - 1) * s + k for size, s, k in zip(sizes, strides, kernel, strict=True)]
    wanted = list(layer.target.shape[2:])
    cut = [f - w for f, w in zip(full, wanted, strict=True)]
    same = all(
        c >= 0 and c // 2 == p and ceil(w / s) == size
        for c, p, w, s, size in zip(cut, pads[:2], wanted, strides, sizes, strict=True)
    )
    if not same and any(p + w > f for p, w, f in zip(pads, wanted, full, strict=False)):
        raise refused(layer.node, "its output is padded behind its window")
    stored = weight.array.transpose(1, 2, 3, 0)
    parameters = _parameters(layer, emitter, weight, stored, 0, stored.shape[0])
    batch, channels = layer.target.shape[:2]
    quant = layer.target.quant
    size = wanted if same else full
    made = emitter.output(layer.target, LAST)
    shape = (batch, *size, channels)
    if not same:
        name = f"{emitter.writer.name(made)}/uncut"
        made = emitter.writer.tensor(name, shape, "int8" if quant else "float32", quant)
    inputs = [emitter.ints("shape", shape), parameters[0], source, parameters[1]]
    values = {
        "Padding": SAME if same else VALID,
        "StrideH": strides[0],
        "StrideW": strides[1],
        "FusedActivationFunction": layer.activation,
    }
    emitter.emit("TRANSPOSE_CONV", inputs, [made], "TransposeConvOptions", values)
    if not same:
        begin = [0, pads[0], pads[1], 0]
        end = [batch, pads[0] + wanted[0], pads[1] + wanted[1], channels]
        whole, made = made, emitter.output(layer.target, LAST)
        cuts = [emitter.ints("cut", each) for each in (begin, end, [1, 1, 1, 1])]
        emitter.emit("STRIDED_SLICE", [whole, *cuts], [made], "StridedSliceOptions")
    emitter.settle(layer.target, LAST, made)


def _weight(layer: Layer, axis: int = 0) -> Constant:
    weight = layer.constant(1)
    if weight is None or weight.array.ndim not in (3, 4):
        raise refused(layer.node, "its weights are not those of one or two dimensions")
    if layer.quantized:
        weight_quant(layer, weight, axis)
        return weight
    return weight if weight.quant is None else Constant(weight.real(), None)


def _parameters(
    layer: Layer, emitter: Emitter, weight: Constant, stored: np.ndarray, axis: int, outputs: int
) -> list[int]:
    """The tensors of weights and bias."""
    name = (layer.node.inputs[1].name or "weight") if layer.node.inputs[1] else "weight"
    name = name.removesuffix("/dequantized")
    bias = layer.constant(2)
    if weight.quant is None:
        return [
            emitter.constant(name, stored.astype(np.float32)),
            emitter.constant(f"{name}/bias", float_bias(bias, outputs)),
        ]
    quant = Quant(weight.quant.scale, weight.quant.zero_point, axis)
    array, kept = integer_bias(layer, weight.quant, bias, outputs)
    return [
        emitter.constant(name, stored, quant),
        emitter.constant(f"{name}/bias", array, kept),
    ]
