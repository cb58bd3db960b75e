"""Gemm and MatMul."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.export.tflite.elementwise import input_tensor
from engine.export.tflite.emitter import PLAIN, Constant, Emitter, Operand, refused
from engine.export.tflite.formulas import Formula
from engine.export.tflite.layer import Layer
from engine.export.tflite.weights import float_bias, integer_bias, symmetric, weight_quant
from engine.export.tflite.writer import Quant

__all__ = ["gemm", "matmul"]


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
    sides = [input_tensor(each, layer, emitter, PLAIN, integers=False) for each in layer.inputs[:2]]
    made = emitter.compute(
        "BATCH_MATMUL",
        sides,
        layer.target.shape,
        f"{layer.node.name}/product",
        options="BatchMatMulOptions",
        values={"AdjX": bool(layer.attribute("transA", 0)), "AdjY": turned},
    )
    if alpha != 1.0:
        made = f("MUL", made, f.number(alpha))
    if added is not None:
        other = input_tensor(added, layer, emitter, PLAIN, integers=False)
        made = f("ADD", made, other if beta == 1.0 else f("MUL", other, f.number(beta)))
    if layer.activation:
        made = f({1: "RELU", 3: "RELU6"}[layer.activation], made)
    emitter.finish(layer.target, PLAIN, made)


def matmul(layer: Layer, emitter: Emitter) -> None:
    """MatMul: FULLY_CONNECTED with constant weights of two dimensions, else BATCH_MATMUL."""
    second = layer.inputs[1]
    if isinstance(second, Constant) and second.array.ndim == 2 and len(layer.data.shape) > 1:
        _dense(layer, emitter, second, turned=True, bias=None)
        return
    sides = []
    for each in layer.inputs:
        if isinstance(each, Constant) and layer.quantized and each.quant is None:
            raise refused(layer.node, "its weights are not quantized, its input is")
        sides.append(input_tensor(each, layer, emitter, PLAIN, integers=layer.quantized))
    made = emitter.output(layer.target, PLAIN)
    emitter.emit("BATCH_MATMUL", sides, [made], "BatchMatMulOptions")
    emitter.settle(layer.target, PLAIN, made)


def _dense(
    layer: Layer, emitter: Emitter, weight: Constant, *, turned: bool, bias: Constant | None
) -> None:
    """``x W + b``. With a scale for each output it is a convolution of one point, which every
    version of TFLite computes so.
    """
    weight = symmetric(weight)
    array, axis = (weight.array.T, 1) if turned else (weight.array, 0)
    outputs = array.shape[0]
    name = f"{layer.node.name}/weights"
    shape = layer.data.shape
    values: dict[str, int | float | bool] = {"FusedActivationFunction": layer.activation}
    if not layer.quantized:
        real = weight.real().T if turned else weight.real()
        inputs = [
            emitter.as_float(layer.data, PLAIN),
            emitter.constant(name, np.ascontiguousarray(real)),
            emitter.constant(f"{name}/bias", float_bias(bias, outputs)),
        ]
        _fully_connected(layer, emitter, inputs, values)
        return
    quant = weight_quant(layer, weight, axis)
    source = emitter.read(layer.data, PLAIN)
    stored, kept = integer_bias(layer, quant, bias, outputs)
    added = emitter.constant(f"{name}/bias", stored, kept)
    quant = Quant(quant.scale, quant.zero_point)
    if len(quant.scale) == 1:
        whole = emitter.constant(name, np.ascontiguousarray(array), quant)
        _fully_connected(layer, emitter, [source, whole, added], values)
        return
    rows = int(np.prod(shape[:-1]))
    picture = emitter.reshape(source, (rows, 1, 1, shape[-1]), f"{layer.node.name}/points")
    whole = emitter.constant(name, array.reshape(outputs, 1, 1, -1), quant)
    made = emitter.output(layer.target, PLAIN)
    between = emitter.writer.tensor(
        f"{emitter.writer.name(made)}/points", (rows, 1, 1, outputs), "int8", layer.target.quant
    )
    values |= {"Padding": 1, "StrideH": 1, "StrideW": 1}
    values |= {"DilationHFactor": 1, "DilationWFactor": 1}
    emitter.emit("CONV_2D", [picture, whole, added], [between], "Conv2DOptions", values)
    sizes = emitter.ints("shape", layer.target.shape)
    emitter.emit("RESHAPE", [between, sizes], [made], "ReshapeOptions")
    emitter.settle(layer.target, PLAIN, made)


def _fully_connected(
    layer: Layer,
    emitter: Emitter,
    inputs: Sequence[int],
    values: dict[str, int | float | bool],
) -> None:
    made = emitter.output(layer.target, PLAIN)
    if len(layer.target.shape) != 2:
        values["KeepNumDims"] = True
    emitter.emit("FULLY_CONNECTED", inputs, [made], "FullyConnectedOptions", values)
    emitter.settle(layer.target, PLAIN, made)
