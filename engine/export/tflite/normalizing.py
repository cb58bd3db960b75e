"""Normalizations, and reductions that TFLite has no operator for.

Means and squares are sums of many values: they are computed in float32, between DEQUANTIZE and
QUANTIZE where the build has them on 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.export.tflite.elementwise import Formula, by_tables, formula_of, spread
from engine.export.tflite.emitter import LAST, PLAIN, Emitter, Form, refused
from engine.export.tflite.layer import Layer

COMPOSED_REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
_NOTHING = 1e-12
"""A norm below this is that of zeros, which stay zeros."""


def batch_normalization(layer: Layer, emitter: Emitter) -> None:
    """A line for each channel: on 8 bits a table for each, which is exact; else MUL and ADD."""
    if len(layer.outputs) > 1 or layer.attribute("training_mode", 0):
        raise refused(layer.node, "it is in training mode")
    scale, offset, mean, variance = (_real(layer, at).astype(np.float64) for at in (1, 2, 3, 4))
    factor = scale / np.sqrt(variance + layer.attribute("epsilon", 1e-5))
    form = emitter.form_of([layer.data])
    factor, added = (
        _by_channel(values.astype(np.float32), layer, form)
        for values in (factor, offset - mean * factor)
    )
    lines = list(zip(factor.reshape(-1), added.reshape(-1), strict=True))
    if by_tables(layer, emitter, form, factor.shape, lambda at, x: x * lines[at][0] + lines[at][1]):
        return
    f = formula_of(layer, emitter)
    line = f("MUL", emitter.as_float(layer.data, form), emitter.constant("factor", factor))
    emitter.finish(layer.target, form, f("ADD", line, emitter.constant("offset", added)))


def instance_normalization(layer: Layer, emitter: Emitter) -> None:
    """Each channel of each picture by its own mean and variance."""
    rank = len(layer.data.shape)
    form = emitter.form_of([layer.data])
    axes = range(1, rank - 1) if form is LAST else range(2, rank)
    f = formula_of(layer, emitter)
    result = _normalized(layer, f, emitter.as_float(layer.data, form), list(axes))
    for kind, at in (("MUL", 1), ("ADD", 2)):
        values = _by_channel(_real(layer, at), layer, form)
        result = f(kind, result, emitter.constant("channels", values))
    emitter.finish(layer.target, form, result)


def layer_normalization(layer: Layer, emitter: Emitter) -> None:
    """LayerNormalization and RMSNormalization over the last axes."""
    if len(layer.outputs) > 1:
        raise refused(layer.node, "its mean or deviation is used")
    rank = len(layer.data.shape)
    axes = list(range(int(layer.attribute("axis", -1)) % rank, rank))
    f = formula_of(layer, emitter)
    centred = layer.node.op_type == "LayerNormalization"
    result = _normalized(layer, f, emitter.as_float(layer.data, PLAIN), axes, centred=centred)
    for kind, at in (("MUL", 1), ("ADD", 2)):
        if layer.constant(at) is not None:
            result = f(kind, result, emitter.constant("values", _real(layer, at)))
    emitter.finish(layer.target, PLAIN, result)


def group_normalization(layer: Layer, emitter: Emitter) -> None:
    """GroupNormalization: groups of channels, then a factor and an offset for each channel."""
    batch, channels, *rest = layer.data.shape
    groups = int(layer.attribute("num_groups"))
    f = formula_of(layer, emitter)
    source = emitter.as_float(layer.data, PLAIN)
    name = f"{layer.node.name}/groups"
    parts = emitter.reshape(source, (batch, groups, channels // groups * int(np.prod(rest))), name)
    result = _normalized(layer, f, parts, [2])
    result = emitter.reshape(result, layer.data.shape, f"{layer.node.name}/whole")
    for kind, at in (("MUL", 1), ("ADD", 2)):
        values = _real(layer, at)
        if values.size == groups:  # before opset 21
            values = np.repeat(values.reshape(-1), channels // groups)
        result = f(kind, result, emitter.constant("channels", _by_channel(values, layer, PLAIN)))
    emitter.finish(layer.target, PLAIN, result)


def lp_normalization(layer: Layer, emitter: Emitter) -> None:
    """LpNormalization: divided by its norm along an axis; zeros stay zeros."""
    f = formula_of(layer, emitter)
    source = emitter.as_float(layer.data, PLAIN)
    axes = [int(layer.attribute("axis", -1))]
    if int(layer.attribute("p", 2)) == 1:
        norm = f.over("SUM", f("ABS", source), axes)
    else:
        norm = f("SQRT", f.over("SUM", f("MUL", source, source), axes))
    result = f("DIV", source, f("MAXIMUM", norm, f.number(_NOTHING)))
    emitter.finish(layer.target, PLAIN, result)


def local_response(layer: Layer, emitter: Emitter) -> None:
    """LRN, over an odd number of channels."""
    size = int(layer.attribute("size"))
    if size % 2 == 0 or len(layer.data.shape) != 4:
        raise refused(layer.node, "TFLite has it over an odd number of channels of a picture")
    source = emitter.as_float(layer.data, LAST)
    result = emitter.compute(
        "LOCAL_RESPONSE_NORMALIZATION",
        [source],
        f"{layer.target.value.name}/response",
        radius=size // 2,
        bias=float(layer.attribute("bias", 1.0)),
        alpha=float(layer.attribute("alpha", 1e-4)) / size,
        beta=float(layer.attribute("beta", 0.75)),
    )
    emitter.finish(layer.target, LAST, result)


def composed_reduction(layer: Layer, emitter: Emitter) -> None:
    """Norms and logarithms of sums, over axes."""
    rank = len(layer.data.shape)
    axes = layer.axes
    keep = bool(layer.attribute("keepdims", 1))
    f = formula_of(layer, emitter)
    source = emitter.as_float(layer.data, PLAIN)
    kind = layer.node.op_type
    if layer.data.kind not in ("float32", "int8"):
        raise refused(layer.node, f"it is of {layer.data.kind}")
    if kind == "ReduceLogSumExp":  # less the largest, so that no exponential overflows
        top = f.over("REDUCE_MAX", source, axes)
        total = f("LOG", f.over("SUM", f("EXP", f("SUB", source, top)), axes))
        result = f("ADD", total, top)
        if not keep:
            gone = {axis % rank for axis in axes}
            rest = [size for at, size in enumerate(layer.data.shape) if at not in gone]
            result = emitter.reshape(result, rest, f"{layer.node.name}/less")
    else:
        if kind == "ReduceL1":
            source = f("ABS", source)
        elif kind in ("ReduceL2", "ReduceSumSquare"):
            source = f("MUL", source, source)
        result = f.over("SUM", source, axes, keep=keep)
        if kind in ("ReduceL2", "ReduceLogSum"):
            result = f("SQRT" if kind == "ReduceL2" else "LOG", result)
    emitter.finish(layer.target, PLAIN, result)


def _normalized(
    layer: Layer, f: Formula, source: int, axes: Sequence[int], *, centred: bool = True
) -> int:
    """A tensor less its mean over axes, over its deviation."""
    if centred:
        source = f("SUB", source, f.over("MEAN", source, axes))
    variance = f.over("MEAN", f("MUL", source, source), axes)
    epsilon = f.number(float(layer.attribute("epsilon", 1e-5)))
    return f("MUL", source, f("RSQRT", f("ADD", variance, epsilon)))


def _real(layer: Layer, index: int) -> np.ndarray:
    return layer.required(index, "an input is left out").real()


def _by_channel(values: np.ndarray, layer: Layer, form: Form) -> np.ndarray:
    """A number for each channel, in the shape that is broadcast over the layer."""
    rank = len(layer.data.shape)
    if rank < 2:
        return values.reshape(-1)
    return spread(values.reshape(1, -1, *[1] * (rank - 2)), rank, form)
