"""Biases of layers with weights, and fully connected layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.base.findings import Finding
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.schema import Quantization
from engine.frontends.tflite.values import LAST, Value

__all__ = ["HANDLERS", "bias_of"]


def bias_of(layer: Layer, index: int, x: Value, weights: Value) -> list[str]:
    """The bias at ``index`` in real numbers; empty where the layer has none.

    The integers of a quantized bias count in steps of input scale times weight scale, per channel
    where the weights are; TFLite's kernels add them to the sum of products as they are.
    """
    if not layer.has(index):
        return []
    bias = layer.input(index)
    if bias.dtype == "float32" or x.quant is None or weights.quant is None:
        return [layer.tensors.real(bias)]
    if bias.array is None:
        raise layer.refusal("its bias is computed, and quantized")
    scale = x.quant.scale.astype(np.float32) * weights.quant.scale.astype(np.float32)
    if bias.dtype == "int64":
        _note_int16(layer)
        real = (bias.array * scale.astype(np.float64)).astype(np.float32)
        return [layer.emit.constant(real, bias.name or "bias")]
    axis = -1 if len(scale) == 1 else 0
    quant = Quantization(scale, np.zeros(len(scale), np.int64), axis, False)
    return [layer.tensors.real(replace(bias, quant=quant, forms=dict(bias.forms), reals={}))]


def _note_int16(layer: Layer) -> None:
    layer.tensors.note(
        Finding(
            code="int16-in-float",
            severity="info",
            where=layer.tensors.file,
            what="The model has 16-bit activations, which are computed in float32 here.",
            cause="ONNX Runtime has no kernels of 16-bit integers.",
            remedy="Results may differ from TFLite's by the last bits of the 16.",
        )
    )


def fully_connected(layer: Layer) -> None:
    """FULLY_CONNECTED: rows of the last axes, weights (out, in)."""
    x, weights = layer.input(0), layer.input(1)
    if layer.int_option("weights_format"):
        raise layer.refusal("its weights are shuffled for one kernel of TFLite")
    out, depth = weights.shape
    rows, rest = divmod(x.count, depth)
    if rest:
        raise ValueError(f"{x.count} elements in rows of {depth}")
    keep = layer.int_option("keep_num_dims")
    shape = [*x.shape[:-1], out] if keep else [rows, out]
    if keep and x.shape[-1] != depth:
        raise ValueError(f"rows of {x.shape[-1]} elements and weights for {depth}")
    flat = layer.part(x, [rows, depth])
    output = layer.output(0, shape)
    target = output if len(shape) == 2 else replace(output, shape=(rows, out), forms={}, reals={})
    inputs = [layer.tensors.real(flat), layer.tensors.real(weights)]
    layer.write(
        target,
        "Gemm",
        [*inputs, *bias_of(layer, 2, x, weights)],
        LAST,
        layer.int_option("activation"),
        transB=1,
    )
    if target is not output:
        stored = layer.tensors.stored(target)
        output.forms[LAST] = layer.node("Reshape", [stored, layer.emit.ints(*shape)])


def batch_matmul(layer: Layer) -> None:
    """BATCH_MATMUL: either side transposed by an option."""
    shapes, tensors = [], []
    for index, option in ((0, "adj_x"), (1, "adj_y")):
        value = layer.input(index)
        shape, tensor = list(value.shape), layer.real(index)
        if layer.int_option(option):
            perm = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
            tensor = layer.node("Transpose", [tensor], perm=perm)
            shape = [shape[axis] for axis in perm]
        shapes.append(shape)
        tensors.append(tensor)
    if shapes[0][-1] != shapes[1][-2]:
        raise ValueError(f"matrices of {shapes[0]} and {shapes[1]}")
    batch = np.broadcast_shapes(tuple(shapes[0][:-2]), tuple(shapes[1][:-2]))
    layer.result("MatMul", tensors, [*batch, shapes[0][-2], shapes[1][-1]])


def embedding_lookup(layer: Layer) -> None:
    """EMBEDDING_LOOKUP: rows of a table."""
    ids, table = layer.input(0), layer.input(1)
    layer.result("Gather", [layer.real(1), layer.stored(0)], [*ids.shape, *table.shape[1:]], axis=0)


HANDLERS: dict[str, Handler] = {
    "BATCH_MATMUL": batch_matmul,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "FULLY_CONNECTED": fully_connected,
}
