"""In the child: conversions to ONNX that tf2onnx lets us give (its ``custom_op_handlers``).

Of constants that pass a FakeQuant, TensorFlow and tf2onnx would keep floats. So what comes out of
the FakeQuant is made an input for the time of the conversion, and afterwards a DequantizeLinear of
a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import TensorProto, numpy_helper

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.tensorflow.prepare import imported, placeholder

Handler = Callable[[Any, Any, str, list[Any]], Any]


@dataclass(frozen=True)
class Nudged:
    """The range of a FakeQuant after zero was moved onto a step; float32, one element a channel.

    Attributes:
        scale: size of a step.
        zero_point: the step that means 0, from the operator's lowest step on.
        low, high: the values of the lowest and of the highest step.
        steps: numbers of the lowest and of the highest step.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    low: np.ndarray
    high: np.ndarray
    steps: tuple[int, int]


def nudged(low: np.ndarray, high: np.ndarray, bits: int, *, narrow: bool) -> Nudged:
    """The range that TensorFlow really uses (Nudge in fake_quant_ops_functor.h), in float32."""
    lowest, highest = (1 if narrow else 0), (1 << bits) - 1
    low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
    first, last = np.float32(lowest), np.float32(highest)
    scale = (high - low) / (last - first)
    with np.errstate(divide="ignore", invalid="ignore"):
        wished = first - low / scale
    # std::round: halves away from zero, and none of these is negative
    zero_point = np.floor(np.clip(wished, first, last) + np.float32(0.5))
    return Nudged(
        scale,
        zero_point,
        (first - zero_point) * scale,
        (last - zero_point) * scale,
        (lowest, highest),
    )


class _Place:
    """The place of a node in tf2onnx's graph: others take it, with the node's shape and type."""

    def __init__(self, ctx: Any, node: Any) -> None:
        self._ctx, self._name, self._outputs = ctx, node.name, list(node.output)
        self.inputs = list(node.input)
        self._shape, self._dtype = ctx.get_shape(node.output[0]), ctx.get_dtype(node.output[0])
        ctx.remove_node(node.name)

    def constant(self, what: str, value: np.ndarray) -> str:
        """The name of a constant."""
        return str(self._ctx.make_const(f"{self._name}/{what}", value).output[0])

    def put(
        self,
        op: str,
        inputs: list[str],
        what: str = "",
        dtype: int | None = None,
        attr: dict[str, int] | None = None,
    ) -> str:
        """A node; its output, which is the place's own where ``what`` says no name for it."""
        node = self._ctx.make_node(
            op,
            inputs,
            attr=attr,
            outputs=None if what else self._outputs,
            shapes=[self._shape],
            dtypes=[self._dtype if dtype is None else dtype],
            name=f"{self._name}/{what}" if what else self._name,
        )
        return str(node.output[0])


def _fake_quant(ctx: Any, node: Any, name: str, args: list[Any]) -> None:
    """Clip to the range, then QuantizeLinear and DequantizeLinear with its parameters."""
    del args
    ranges = _range_of(node)
    bits, narrow = int(node.get_attr_int("num_bits")), bool(node.get_attr_int("narrow_range"))
    if not (np.all(np.isfinite(ranges)) and np.all(ranges[0] < ranges[1])):
        raise UnsupportedOperatorError(
            f"Node {sanitize(name)!r} is a {node.type} with an empty range.",
            remedy="Finish its training, or cut the graph before it.",
        )
    nudge = nudged(*ranges, bits, narrow=narrow)
    axis = {} if nudge.scale.ndim == 0 else {"axis": len(ctx.get_shape(node.input[0])) - 1}
    place = _Place(ctx, node)
    if bits > 8:
        _emulate(place, nudge)
        return
    source = place.inputs[0]
    if nudge.steps != (0, 255):
        for op, what, bound in (("Max", "low", nudge.low), ("Min", "high", nudge.high)):
            clip = [source, place.constant(what, bound.astype(np.float32))]
            source = place.put(op, clip, f"clip_{what}")
    scale = place.constant("scale", nudge.scale)
    zero = place.constant("zero_point", nudge.zero_point.astype(np.uint8))
    pair = [source, scale, zero]
    quantized = place.put("QuantizeLinear", pair, "quantize", TensorProto.UINT8, axis)
    place.put("DequantizeLinear", [quantized, scale, zero], attr=axis)


def _range_of(node: Any) -> tuple[np.ndarray, np.ndarray]:
    if node.type == "FakeQuantWithMinMaxArgs":
        low, high = node.get_attr_value("min"), node.get_attr_value("max")
    else:
        low, high = (node.inputs[i].get_tensor_value(as_list=False) for i in (1, 2))
    return np.asarray(low, np.float32), np.asarray(high, np.float32)


def _emulate(place: _Place, nudge: Nudged) -> None:
    """More steps than 8 bits have: TensorFlow's own formula in floats."""
    low, high = nudge.low.astype(np.float32), nudge.high.astype(np.float32)
    inverse = np.float32(1) / nudge.scale
    chain: tuple[tuple[str, np.ndarray], ...] = (
        ("Max", low),
        ("Min", high),
        ("Sub", low),
        ("Mul", inverse.astype(np.float32)),
        ("Add", np.asarray(np.float32(0.5))),
        ("Floor", np.zeros(0)),
        ("Mul", nudge.scale.astype(np.float32)),
    )
    source = place.inputs[0]
    for number, (op, value) in enumerate(chain):
        more = [place.constant(f"constant_{number}", value)] if value.size else []
        source = place.put(op, [source, *more], f"step_{number}")
    place.put("Add", [source, place.constant("constant_low", low)])


def _remainder(ctx: Any, node: Any, name: str, args: list[Any]) -> None:
    """The remainder with the sign of the dividend, C's fmod and ``%``."""
    del args
    place = _Place(ctx, node)
    place.put("Mod", place.inputs, attr={"fmod": 1})


HANDLERS: dict[str, Handler] = {
    "FakeQuantWithMinMaxArgs": _fake_quant,
    "FakeQuantWithMinMaxVars": _fake_quant,
    "FakeQuantWithMinMaxVarsPerChannel": _fake_quant,
    "Mod": _remainder,
    "TruncateMod": _remainder,
}
"""Operator -> what writes its nodes into tf2onnx's graph (arguments: graph, node, name, none)."""


# ----------------------------------------------------------------------------- quantized constants


Weight = Mapping[str, np.ndarray]
"""A quantized constant, ``(steps - zero_point) * scale``, per tensor or along the last axis: the
arrays of these three names, in the order in which DequantizeLinear reads them."""


def take_out(graph: Any) -> tuple[Any, dict[str, Weight]]:
    """``graph`` with placeholders for quantized constants, and the constants by node name."""
    if not any(node.op.startswith("FakeQuantWithMinMax") for node in graph.node):
        return graph, {}
    known = imported(graph)
    weights: dict[str, Weight] = {}
    copy = tf.compat.v1.GraphDef()
    copy.CopyFrom(graph)
    for node in copy.node:
        if not node.op.startswith("FakeQuantWithMinMax"):
            continue
        weight = _weight(known.get_operation_by_name(node.name))
        if weight is None:
            continue
        weights[node.name] = weight
        node.CopyFrom(placeholder(node.name, "float32", weight["steps"].shape))
    return copy, weights


def _weight(operation: Any) -> Weight | None:
    bits = operation.get_attr("num_bits")
    with operation.graph.as_default():
        values = [tf.get_static_value(tensor) for tensor in operation.inputs]
    if operation.type == "FakeQuantWithMinMaxArgs":
        values += [operation.get_attr("min"), operation.get_attr("max")]
    if bits > 8 or any(value is None for value in values):
        return None
    x, low, high = (np.asarray(value, np.float32) for value in values)
    if not np.all(low < high):
        return None
    nudge = nudged(low, high, bits, narrow=operation.get_attr("narrow_range"))
    clipped = np.clip(x, nudge.low, nudge.high)
    # the kernel's own rounding (fake_quant_ops_functor.h), counted from the lowest step
    steps = np.floor((clipped - nudge.low) * (np.float32(1) / nudge.scale) + np.float32(0.5))
    return {
        "steps": (steps + nudge.steps[0]).astype(np.uint8),
        "scale": nudge.scale.astype(np.float32),
        "zero_point": nudge.zero_point.astype(np.uint8),
    }


def restore_weights(proto: Any, weights: Mapping[str, Weight]) -> None:
    """Put constants and their DequantizeLinear in the place of the inputs that stood for them.

    A Transpose that follows moves to the integers, so that a convolution reads a DequantizeLinear.
    """
    graph = proto.graph
    for value in [v for v in graph.input if v.name.removesuffix(":0") in weights]:
        weight = weights[value.name.removesuffix(":0")]
        graph.input.remove(value)
        users = [node for node in graph.node if value.name in node.input]
        turned = [node for node in users if node.op_type == "Transpose"]
        for node in turned:
            perm = next(list(a.ints) for a in node.attribute if a.name == "perm")
            _dequantize(graph, node.output[0], weight, perm)
            graph.node.remove(node)
        if len(turned) < len(users):
            _dequantize(graph, value.name, weight, list(range(weight["steps"].ndim)))


def _dequantize(graph: Any, output: str, weight: Weight, perm: list[int]) -> None:
    parts = {**weight, "steps": np.ascontiguousarray(weight["steps"].transpose(perm))}
    names = [f"{output}/{part}" for part in parts]
    graph.initializer.extend(
        numpy_helper.from_array(array, name)
        for name, array in zip(names, parts.values(), strict=True)
    )
    node = onnx.helper.make_node("DequantizeLinear", names, [output], name=output)
    if weight["scale"].ndim:
        axis = perm.index(weight["steps"].ndim - 1)
        node.attribute.append(onnx.helper.make_attribute("axis", axis))
    graph.node.insert(0, node)
