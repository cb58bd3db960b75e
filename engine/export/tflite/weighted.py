"""Layers with weights: convolutions with channels last, matrices, and their weights and biases."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from engine.export.tflite.elementwise import Formula, input_tensor
from engine.export.tflite.emitter import LAST, PLAIN, Constant, Emitter, Operand, refused
from engine.export.tflite.layer import Layer, shape_of
from engine.export.tflite.windows import (
    finish,
    four_dimensions,
    input_scale,
    padded,
    sizes_of,
    window_of,
)
from engine.export.tflite.writer import Option, Quant
from engine.frontends.tflite.schema import RELU, RELU6, SAME, VALID

_INT8_MAX = 127


def conv(layer: Layer, emitter: Emitter) -> None:
    """Conv as CONV_2D or DEPTHWISE_CONV_2D; a padding that is not SAME is a PAD before it."""
    weight = _weight(layer)
    source, window = window_of(layer, emitter, weight.array.shape[2:])
    groups = int(layer.attribute("group", 1))
    array = weight.array.reshape(*weight.array.shape[:2], *window.kernel)
    channels = layer.data.shape[1]
    source, padding = padded(emitter, source, window)
    options = {**window.dilated(padding), "activation": layer.activation}
    kind, stored, axis = "CONV_2D", array.transpose(0, 2, 3, 1), 0
    if groups == channels and groups > 1 and array.shape[1] == 1:
        kind, stored, axis = "DEPTHWISE_CONV_2D", array.transpose(1, 2, 3, 0), 3
        options["depth_multiplier"] = array.shape[0] // channels
    inputs = [source, *_parameters(layer, emitter, weight, stored, axis, array.shape[0])]
    output = four_dimensions(layer, emitter)
    emitter.emit(kind, inputs, [output], **options)
    finish(layer, emitter, output)


def conv_transpose(layer: Layer, emitter: Emitter) -> None:
    """ConvTranspose as TRANSPOSE_CONV; what its padding cuts off is sliced off behind it.

    Groups become one with zeros between them, a dilated kernel one with zeros in it, and a row a
    picture of one row.
    """
    weight = _transposed_weight(layer)
    kernel = weight.array.shape[2:]
    row = len(layer.target.shape) == 3
    strides = sizes_of(layer.attribute("strides"), 2 - row)
    source = layer.read(emitter, LAST)
    sizes, target_sizes = layer.data.shape[2:], list(layer.target.shape[2:])
    if row:
        shape = emitter.shape(source)
        name = f"{emitter.name(source)}/row"
        source = emitter.reshape(source, (shape[0], 1, *shape[1:]), name)
        strides, sizes, target_sizes = [1, *strides], (1, *sizes), [1, *target_sizes]
    full = [(size - 1) * s + k for size, s, k in zip(sizes, strides, kernel, strict=True)]
    pads = _transposed_pads(layer, full, target_sizes)
    cut = [f - w for f, w in zip(full, target_sizes, strict=True)]
    same = all(
        c >= 0 and c // 2 == p and ceil(w / s) == size
        for c, p, w, s, size in zip(cut, pads, target_sizes, strides, sizes, strict=True)
    )
    # behind its window there is the bias alone
    full = [max(f, p + w) for f, p, w in zip(full, pads, target_sizes, strict=True)]
    stored = weight.array.transpose(1, 2, 3, 0)
    parameters = _parameters(layer, emitter, weight, stored, 0, stored.shape[0])
    batch, channels = layer.target.shape[:2]
    quant = layer.target.quant
    size = target_sizes if same else full
    output = four_dimensions(layer, emitter)
    shape = (batch, *size, channels)
    if not same:
        name = f"{emitter.name(output)}/uncut"
        whole = emitter.tensor(name, shape, "int8" if quant else "float32", quant)
    inputs = [emitter.ints("shape", shape), parameters[0], source, parameters[1]]
    emitter.emit(
        "TRANSPOSE_CONV",
        inputs,
        [output if same else whole],
        padding=SAME if same else VALID,
        stride_h=strides[0],
        stride_w=strides[1],
        activation=layer.activation,
    )
    if not same:
        begin = [0, *pads, 0]
        end = [batch, pads[0] + target_sizes[0], pads[1] + target_sizes[1], channels]
        cuts = [emitter.ints("cut", corner) for corner in (begin, end, [1, 1, 1, 1])]
        emitter.emit("STRIDED_SLICE", [whole, *cuts], [output])
    finish(layer, emitter, output)


def _transposed_pads(layer: Layer, full: Sequence[int], target_sizes: Sequence[int]) -> list[int]:
    """What is cut off before the output along each axis of the picture (ONNX, ConvTranspose)."""
    rule = layer.attribute("auto_pad", "NOTSET")
    dims = len(layer.target.shape) - 2
    if rule in ("SAME_UPPER", "SAME_LOWER") or layer.attribute("output_shape"):
        totals = [max(f - w, 0) for f, w in zip(full, target_sizes, strict=True)]
        return [total // 2 if rule == "SAME_UPPER" else total - total // 2 for total in totals]
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
        weight = _symmetric(weight)
        _weight_quant(layer, weight, axis)
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
            emitter.constant(f"{name}/bias", _float_bias(bias, outputs)),
        ]
    quant = Quant(weight.quant.scale, weight.quant.zero_point, axis)
    array, kept = _integer_bias(layer, weight.quant, bias, outputs)
    return [
        emitter.constant(name, stored, quant),
        emitter.constant(f"{name}/bias", array, kept),
    ]


# ---------------------------------------------------------------------------------------- matrices


def gemm(layer: Layer, emitter: Emitter) -> None:
    """Gemm: with constant weights FULLY_CONNECTED, else BATCH_MATMUL and ADD in float32."""
    alpha, beta = layer.attribute("alpha", 1.0), layer.attribute("beta", 1.0)
    first, weight, *rest = layer.inputs
    added = rest[0] if rest else None
    turned = bool(layer.attribute("transB", 0))
    plain = alpha == 1.0 and (beta == 1.0 or added is None) and not layer.attribute("transA", 0)
    fixed = isinstance(first, Operand) and (added is None or isinstance(added, Constant))
    if plain and fixed and isinstance(weight, Constant):
        bias = layer.constant(2)
        if bias is None or bias.array.size in (1, layer.target.shape[1]):
            _dense(layer, emitter, weight, turned=not turned, bias=bias)
            return
    f = Formula(emitter, layer.node.name or "Gemm")
    sides = [
        input_tensor(operand, layer, emitter, PLAIN, integers=False) for operand in layer.inputs[:2]
    ]
    result = emitter.compute(
        "BATCH_MATMUL",
        sides,
        f"{layer.node.name}/product",
        layer.target.shape,
        adj_x=bool(layer.attribute("transA", 0)),
        adj_y=turned,
    )
    if alpha != 1.0:
        result = f("MUL", result, f.number(alpha))
    if added is not None:
        other = input_tensor(added, layer, emitter, PLAIN, integers=False)
        result = f("ADD", result, other if beta == 1.0 else f("MUL", other, f.number(beta)))
    if layer.activation:
        result = f({RELU: "RELU", RELU6: "RELU6"}[layer.activation], result)
    emitter.finish(layer.target, PLAIN, result)


def matmul(layer: Layer, emitter: Emitter) -> None:
    """MatMul: FULLY_CONNECTED with constant weights of two dimensions, else BATCH_MATMUL."""
    second = layer.inputs[1]
    if isinstance(second, Constant) and second.array.ndim == 2 and len(layer.data.shape) > 1:
        _dense(layer, emitter, second, turned=True, bias=None)
        return
    if any(len(shape_of(value, layer.node)) < 2 for value in layer.node.inputs if value):
        raise refused(layer.node, "TFLite multiplies matrices, and it has a vector")
    sides = []
    for operand in layer.inputs:
        if isinstance(operand, Constant) and layer.quantized and operand.quant is None:
            raise refused(layer.node, "its weights are not quantized, its input is")
        sides.append(input_tensor(operand, layer, emitter, PLAIN, integers=layer.quantized))
    emitter.write(layer.target, PLAIN, "BATCH_MATMUL", sides)


def _dense(
    layer: Layer, emitter: Emitter, weight: Constant, *, turned: bool, bias: Constant | None
) -> None:
    """``x W + b``. With a scale for each output it is a convolution of one point, which every
    version of TFLite computes so.
    """
    weight = _symmetric(weight)
    array, axis = (weight.array.T, 1) if turned else (weight.array, 0)
    outputs = array.shape[0]
    name = f"{layer.node.name}/weights"
    shape = layer.data.shape
    if not layer.quantized:
        real = weight.real().T if turned else weight.real()
        inputs = [
            emitter.as_float(layer.data, PLAIN),
            emitter.constant(name, np.ascontiguousarray(real)),
            emitter.constant(f"{name}/bias", _float_bias(bias, outputs)),
        ]
        _fully_connected(layer, emitter, inputs)
        return
    quant = _weight_quant(layer, weight, axis)
    source = emitter.read(layer.data, PLAIN)
    stored, kept = _integer_bias(layer, quant, bias, outputs)
    added = emitter.constant(f"{name}/bias", stored, kept)
    quant = Quant(quant.scale, quant.zero_point)
    if len(quant.scale) == 1:
        whole = emitter.constant(name, np.ascontiguousarray(array), quant)
        _fully_connected(layer, emitter, [source, whole, added])
        return
    rows = int(np.prod(shape[:-1]))
    picture = emitter.reshape(source, (rows, 1, 1, shape[-1]), f"{layer.node.name}/points")
    whole = emitter.constant(name, array.reshape(outputs, 1, 1, -1), quant)
    output = emitter.output(layer.target, PLAIN)
    between = emitter.tensor(
        f"{emitter.name(output)}/points", (rows, 1, 1, outputs), "int8", layer.target.quant
    )
    emitter.emit(
        "CONV_2D",
        [picture, whole, added],
        [between],
        activation=layer.activation,
        padding=VALID,
        stride_h=1,
        stride_w=1,
    )
    emitter.emit("RESHAPE", [between, emitter.ints("shape", layer.target.shape)], [output])
    emitter.settle(layer.target, PLAIN, output)


def _fully_connected(layer: Layer, emitter: Emitter, inputs: Sequence[int]) -> None:
    options: dict[str, Option] = {"activation": layer.activation}
    if len(layer.target.shape) != 2:
        options["keep_num_dims"] = True
    emitter.write(layer.target, PLAIN, "FULLY_CONNECTED", inputs, None, **options)


# -------------------------------------------------------------------------------- weights, biases


def _weight_quant(layer: Layer, weight: Constant, axis: int) -> Quant:
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


def _symmetric(weight: Constant) -> Constant:
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


def _float_bias(bias: Constant | None, outputs: int) -> np.ndarray:
    """A float32 bias for each output; zeros where there is none."""
    if bias is None:
        return np.zeros(outputs, np.float32)
    return np.broadcast_to(bias.real().reshape(-1), (outputs,)).copy()


def _integer_bias(
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
