"""Convolutions and transposed ones, with channels last."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from engine.export.tflite.emitter import LAST, Constant, Emitter, refused
from engine.export.tflite.layer import Layer
from engine.export.tflite.sliding import (
    SAME,
    VALID,
    as_float,
    finish,
    four_dimensions,
    output_size,
    padded,
    sizes_of,
    text_of,
    window_of,
)
from engine.export.tflite.weights import float_bias, integer_bias, symmetric, weight_quant
from engine.export.tflite.writer import Quant

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
    """ConvTranspose as TRANSPOSE_CONV; what its padding cuts off is sliced off behind it.

    Groups become one with zeros between them, a dilated kernel one with zeros in it, and a row a
    picture of one row.
    """
    weight = _transposed_weight(layer)
    kernel = weight.array.shape[2:]
    row = len(layer.target.shape) == 3
    strides = sizes_of(layer.attribute("strides"), 2 - row)
    source = emitter.read(layer.data, LAST) if layer.quantized else as_float(layer, emitter)
    sizes, wanted = layer.data.shape[2:], list(layer.target.shape[2:])
    if row:
        shape = emitter.writer.shape(source)
        name = f"{emitter.writer.name(source)}/row"
        source = emitter.reshape(source, (shape[0], 1, *shape[1:]), name)
        strides, sizes, wanted = [1, *strides], (1, *sizes), [1, *wanted]
    full = [(size - 1) * s + k for size, s, k in zip(sizes, strides, kernel, strict=True)]
    pads = _transposed_pads(layer, full, wanted)
    cut = [f - w for f, w in zip(full, wanted, strict=True)]
    same = all(
        c >= 0 and c // 2 == p and ceil(w / s) == size
        for c, p, w, s, size in zip(cut, pads, wanted, strides, sizes, strict=True)
    )
    # behind its window there is the bias alone
    full = [max(f, p + w) for f, p, w in zip(full, pads, wanted, strict=True)]
    stored = weight.array.transpose(1, 2, 3, 0)
    parameters = _parameters(layer, emitter, weight, stored, 0, stored.shape[0])
    batch, channels = layer.target.shape[:2]
    quant = layer.target.quant
    size = wanted if same else full
    made = four_dimensions(layer, emitter)
    shape = (batch, *size, channels)
    if not same:
        name = f"{emitter.writer.name(made)}/uncut"
        whole = emitter.writer.tensor(name, shape, "int8" if quant else "float32", quant)
    inputs = [emitter.ints("shape", shape), parameters[0], source, parameters[1]]
    values = {
        "Padding": SAME if same else VALID,
        "StrideH": strides[0],
        "StrideW": strides[1],
        "FusedActivationFunction": layer.activation,
    }
    options = "TransposeConvOptions"
    emitter.emit("TRANSPOSE_CONV", inputs, [made if same else whole], options, values)
    if not same:
        begin = [0, *pads, 0]
        end = [batch, pads[0] + wanted[0], pads[1] + wanted[1], channels]
        cuts = [emitter.ints("cut", each) for each in (begin, end, [1, 1, 1, 1])]
        emitter.emit("STRIDED_SLICE", [whole, *cuts], [made], "StridedSliceOptions")
    finish(layer, emitter, made)


def _transposed_pads(layer: Layer, full: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """What is cut off before the output along each axis of the picture (ONNX, ConvTranspose)."""
    rule = text_of(layer.attribute("auto_pad", "NOTSET"))
    dims = len(layer.target.shape) - 2
    if rule in ("SAME_UPPER", "SAME_LOWER") or layer.attribute("output_shape"):
        totals = [max(f - w, 0) for f, w in zip(full, wanted, strict=True)]
        return [total - total // 2 if rule == "SAME_LOWER" else total // 2 for total in totals]
    pads = sizes_of(layer.attribute("pads"), 2 * dims, 0)[:dims]
    return [0] * (2 - dims) + ([0] * dims if rule == "VALID" else pads)


def _transposed_weight(layer: Layer) -> Constant:
    """The weights (inputs, outputs, height, width) of a transposed convolution of one group."""
    weight = _weight(layer, axis=1)
    groups = int(layer.attribute("group", 1))
    array = weight.array if weight.array.ndim == 4 else weight.array[:, :, None, :]
    dilations = [int(d) for d in layer.attribute("dilations", ())]
    dilations = [1] * (2 - len(dilations)) + dilations
    if any(d != 1 for d in dilations):
        sizes = [(k - 1) * d + 1 for k, d in zip(array.shape[2:], dilations, strict=True)]
        spread = np.zeros((*array.shape[:2], *sizes), array.dtype)
        spread[:, :, :: dilations[0], :: dilations[1]] = array
        array = spread
    quant = weight.quant
    if groups > 1:
        inputs, outputs = array.shape[0] // groups, array.shape[1]
        whole = np.zeros((array.shape[0], outputs * groups, *array.shape[2:]), array.dtype)
        for at in range(groups):
            rows = slice(at * inputs, (at + 1) * inputs)
            whole[rows, at * outputs : (at + 1) * outputs] = array[rows]
        array = whole
        if quant is not None and len(quant.scale) == outputs > 1:
            quant = Quant(quant.scale * groups, quant.zero_point * groups, quant.axis)
    return Constant(array, quant)


def _weight(layer: Layer, axis: int = 0) -> Constant:
    weight = layer.constant(1)
    if weight is None or weight.array.ndim not in (3, 4):
        raise refused(layer.node, "its weights are not those of one or two dimensions")
    if layer.quantized:
        weight = symmetric(weight)
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
