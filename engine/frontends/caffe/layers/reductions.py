"""Layers that make one number, or a few, of many."""

from __future__ import annotations

import math
from collections.abc import Mapping

from engine.frontends.caffe.fields import Fields
from engine.frontends.caffe.layer import Converter, Layer, Tensor, one_top

__all__ = ["LAYERS"]

_OPERATIONS = {1: "SUM", 2: "ASUM", 3: "SUMSQ", 4: "MEAN"}
_REDUCE = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}


def _reduction(at: Layer, param: Fields) -> Tensor:
    """reduction_layer.cpp: over all axes from ``axis`` (0) on, times a coefficient."""
    axis = at.axis(param, "axis", 0)
    op = _REDUCE[param.choice("operation", _OPERATIONS, "SUM")]
    factor = param.number("coeff", 1.0)
    axes, shape = at.ints(*range(axis, at.x.rank)), at.x.shape[:axis]
    if factor == 1:
        return at.top(op, at.x.name, axes, shape=shape, keepdims=0)
    reduced = at.node(op, at.x.name, axes, keepdims=0)
    return at.top("Mul", reduced, at.scalar(factor), shape=shape)


def _arg_max(at: Layer, param: Fields) -> Tensor:
    """argmax_layer.cpp: the places of the largest numbers as float32, or these numbers too.

    Caffe sorts pairs of number and place, so that of equal numbers the last one comes first: the
    axis is turned round, as TopK takes the first of equal ones.
    """
    count, values = param.integer("top_k", 1), param.flag("out_max_val", False)
    along = "axis" in param
    if along:
        axis, name, shape = at.axis(param, "axis", 0), at.x.name, list(at.x.shape)
        length = at.x.shape[axis]
        shape[axis] = count
    else:
        axis, length = 2, math.prod(at.x.shape[1:])
        name = at.reshaped(at.x.name, (at.x.shape[0], 1, length))
        shape = [at.x.shape[0], 2 if values else 1, count, *[1] * (at.x.rank - 3)]
    if not 1 <= count <= length:
        raise at.fault(f"top_k is {count} of {length}")
    turned = at.node("Slice", name, at.ints(-1), at.ints(-(1 << 31)), at.ints(axis), at.ints(-1))
    hints = [f"{at.spec.makes[0]}:values", f"{at.spec.makes[0]}:places"]
    largest, places = at.writer.nodes("TopK", [turned, at.ints(count)], hints, axis=axis)
    if along and values:
        return at.top("Identity", largest, shape=shape)
    index = at.node("Sub", at.ints(length - 1), places)
    if along:
        return at.top("Cast", index, shape=shape, to=1)
    numbers = at.node("Cast", index, to=1)
    if values:
        numbers = at.node("Concat", numbers, largest, axis=1)
    return at.top("Reshape", numbers, at.ints(*shape), shape=shape)


LAYERS: Mapping[str, Converter] = {
    "ArgMax": one_top(_arg_max, "argmax_param"),
    "Reduction": one_top(_reduction, "reduction_param"),
}
