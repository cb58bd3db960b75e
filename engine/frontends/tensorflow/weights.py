"""In the child: constants that pass a FakeQuant, kept as integers with their parameters.

TensorFlow and tf2onnx would compute such a weight and keep floats. So what comes out of the
FakeQuant is made an input for the time of the conversion, and afterwards a DequantizeLinear of a
constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import numpy_helper

from engine.frontends.tensorflow.handlers import nudged
from engine.frontends.tensorflow.prepare import imported

__all__ = ["Weight", "restore_weights", "take_out"]


@dataclass(frozen=True)
class Weight:
    """A quantized constant: ``(steps - zero_point) * scale``, per tensor or along the last axis."""

    steps: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray


def take_out(graph: Any) -> tuple[Any, dict[str, Weight]]:
    """``graph`` with placeholders for quantized constants, and the constants by node name."""
    if not any(node.op.startswith("FakeQuantWithMinMax") for node in graph.node):
        return graph, {}
    known = imported(graph)
    found: dict[str, Weight] = {}
    made = tf.compat.v1.GraphDef()
    made.CopyFrom(graph)
    for node in made.node:
        if not node.op.startswith("FakeQuantWithMinMax"):
            continue
        weight = _weight(known.get_operation_by_name(node.name))
        if weight is None:
            continue
        found[node.name] = weight
        name = node.name
        node.Clear()
        node.name, node.op = name, "Placeholder"
        node.attr["dtype"].type = tf.float32.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(weight.steps.shape).as_proto())
    return made, found


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
    found = nudged(low, high, bits, narrow=operation.get_attr("narrow_range"))
    clipped = np.clip(x, found.low, found.high)
    # the kernel's own rounding (fake_quant_ops_functor.h), counted from the lowest step
    steps = np.floor((clipped - found.low) * (np.float32(1) / found.scale) + np.float32(0.5))
    return Weight(
        (steps + found.steps[0]).astype(np.uint8),
        found.scale.astype(np.float32),
        found.zero_point.astype(np.uint8),
    )


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
            _dequantize(graph, value.name, weight, list(range(weight.steps.ndim)))


def _dequantize(graph: Any, output: str, weight: Weight, perm: list[int]) -> None:
    parts = {
        "steps": np.ascontiguousarray(weight.steps.transpose(perm)),
        "scale": weight.scale,
        "zero_point": weight.zero_point,
    }
    names = [f"{output}/{part}" for part in parts]
    graph.initializer.extend(
        numpy_helper.from_array(array, name)
        for name, array in zip(names, parts.values(), strict=True)
    )
    node = onnx.helper.make_node("DequantizeLinear", names, [output], name=output)
    if weight.scale.ndim:
        axis = perm.index(weight.steps.ndim - 1)
        node.attribute.append(onnx.helper.make_attribute("axis", axis))
    graph.node.insert(0, node)
