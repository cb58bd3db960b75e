"""A float graph as ONNX of the opsets that toolkits of generation 1 load.

ONNX's own converter goes down for few operators (it has no way for a Relu). Here an operator stays
as it is where its later versions only allow more types, and what became an input is an attribute
again; whatever else a model has is refused by name. The manual wants onnx 1.4.1, which has opset 9
and IR 3 [RKNN-T1 1.3.2, 2]; later toolkits come with onnx 1.6, which has opset 11 and IR 6. What a
real toolkit of generation 1 makes of these files was not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.base.errors import QuantizationError
from engine.base.text import sanitize

__all__ = ["generation_1_onnx"]

_VERSIONS = ((1, 6), 11, 6), ((0, 0), 9, 3)
"""From which toolkit on, its opset, its IR version."""

_SAME = frozenset(
    {
        "Abs",
        "Add",
        "AveragePool",
        "BatchNormalization",
        "Concat",
        "Conv",
        "ConvTranspose",
        "Div",
        "Elu",
        "Exp",
        "Flatten",
        "Gemm",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Identity",
        "InstanceNormalization",
        "LRN",
        "LeakyRelu",
        "Log",
        "MatMul",
        "MaxPool",
        "Mul",
        "Neg",
        "PRelu",
        "Pow",
        "ReduceMax",
        "ReduceMean",
        "Relu",
        "Reshape",
        "Sigmoid",
        "Softplus",
        "Sqrt",
        "Sub",
        "Tanh",
        "Transpose",
    }
)
_NEW_DEFAULTS: Mapping[str, tuple[str, int]] = {
    "Reshape": ("allowzero", 0),
    "AveragePool": ("ceil_mode", 0),
    "MaxPool": ("ceil_mode", 0),
    "BatchNormalization": ("training_mode", 0),
}
"""Attributes that older versions do not have, with the value that changes nothing."""

Constants = Mapping[str, np.ndarray]


def generation_1_onnx(model: bytes, version: str) -> bytes:
    """A float model as a toolkit of generation 1 loads it.

    Args:
        model: ONNX of opset 19.
        version: of the toolkit, such as ``1.7.5``; of an unknown one the oldest is taken.

    Raises:
        QuantizationError: an operator has no form in an opset that old (named).
    """
    parts = tuple(int(each) for each in version.split(".")[:2] if each.isdecimal())
    opset, ir_version = next(
        ((o, i) for least, o, i in _VERSIONS if parts >= least), _VERSIONS[-1][1:]
    )
    found = onnx.load_from_string(model)
    constants = {each.name: numpy_helper.to_array(each) for each in found.graph.initializer}
    _last_axes_first(found.graph)
    for node in found.graph.node:
        try:
            _older(node, constants, opset)
        except (ValueError, KeyError) as error:
            raise _refused(node, opset, version, str(error)) from error
    del found.opset_import[:]
    found.opset_import.append(helper.make_opsetid("", opset))
    found.ir_version = ir_version
    if ir_version < 4:  # there, every constant is an input as well
        given = {each.name for each in found.graph.input}
        found.graph.input.extend(
            helper.make_tensor_value_info(each.name, each.data_type, list(each.dims))
            for each in found.graph.initializer
            if each.name not in given
        )
    try:
        onnx.checker.check_model(found, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise QuantizationError(
            f"The model has no valid form in opset {opset}: {sanitize(str(error), 300)}",
            cause=f"rknn-toolkit {version} loads ONNX of opset {opset} at most.",
            remedy="Name outputs before that operator, or compile for a chip of generation 2.",
        ) from error
    return found.SerializeToString(deterministic=True)


def _last_axes_first(graph: onnx.GraphProto) -> None:
    """Count the axis of every Softmax from the front; one that is not the last is none there."""
    values = (*graph.input, *graph.value_info, *graph.output)
    ranks = {each.name: len(each.type.tensor_type.shape.dim) for each in values}
    for node in graph.node:
        rank = ranks.get(node.input[0], 0)
        if node.op_type not in ("Softmax", "LogSoftmax") or not rank:
            continue
        axis = next((each.i for each in node.attribute if each.name == "axis"), -1)
        del node.attribute[:]
        if axis in (-1, rank - 1):
            node.attribute.append(helper.make_attribute("axis", rank - 1))


def _older(node: onnx.NodeProto, constants: Constants, opset: int) -> None:
    """Change a node to the older form of its operator."""
    if node.op_type in _CHANGED:
        _CHANGED[node.op_type](node, constants, opset)
    elif node.op_type not in _SAME:
        raise ValueError("its older form is not known here")
    if node.op_type in _NEW_DEFAULTS:
        name, value = _NEW_DEFAULTS[node.op_type]
        _drop_default(node, name, value)


def _drop_default(node: onnx.NodeProto, name: str, value: int) -> None:
    kept = [each for each in node.attribute if each.name != name or each.i != value]
    del node.attribute[:]
    node.attribute.extend(kept)


def _take(node: onnx.NodeProto, at: int, constants: Constants) -> np.ndarray | None:
    """A constant input, which the node then does not have any more."""
    name = node.input[at] if at < len(node.input) else ""
    return constants[name] if name else None


def _axes(node: onnx.NodeProto, constants: Constants, _: int) -> None:
    axes = _take(node, 1, constants)
    del node.input[1:]
    if axes is not None:
        node.attribute.append(helper.make_attribute("axes", axes.tolist()))


def _split(node: onnx.NodeProto, constants: Constants, _: int) -> None:
    sizes = _take(node, 1, constants)
    del node.input[1:]
    _drop_default(node, "num_outputs", len(node.output))
    if sizes is not None:
        node.attribute.append(helper.make_attribute("split", sizes.tolist()))


def _clip(node: onnx.NodeProto, constants: Constants, opset: int) -> None:
    if opset >= 11:
        return
    for at, name in ((1, "min"), (2, "max")):
        value = _take(node, at, constants)
        if value is not None:
            node.attribute.append(helper.make_attribute(name, float(value)))
    del node.input[1:]


def _pad(node: onnx.NodeProto, constants: Constants, opset: int) -> None:
    if len(node.input) > 3 and node.input[3]:
        raise ValueError("its axes are given")
    del node.input[3:]
    if opset >= 11:
        return
    pads, value = _take(node, 1, constants), _take(node, 2, constants)
    del node.input[1:]
    if pads is not None:
        node.attribute.append(helper.make_attribute("pads", pads.tolist()))
    if value is not None:
        node.attribute.append(helper.make_attribute("value", float(value)))


def _softmax(node: onnx.NodeProto, _: Constants, __: int) -> None:
    """Before opset 13 all axes from this one on are one: the same where it is the last."""
    if not any(each.name == "axis" for each in node.attribute):
        raise ValueError("its axis is not the last one, or its shape is not known")


_CHANGED: Mapping[str, Callable[[onnx.NodeProto, Constants, int], None]] = {
    "Clip": _clip,
    "LogSoftmax": _softmax,
    "Pad": _pad,
    "ReduceSum": _axes,
    "Softmax": _softmax,
    "Split": _split,
    "Squeeze": _axes,
    "Unsqueeze": _axes,
}


def _refused(node: onnx.NodeProto, opset: int, version: str, why: str) -> QuantizationError:
    return QuantizationError(
        f"Node {sanitize(node.name, 80)!r} ({sanitize(node.op_type, 40)}) has no form in opset "
        f"{opset}: {sanitize(why, 200)}.",
        cause=f"rknn-toolkit {version} of generation 1 loads ONNX of opset {opset} at most.",
        remedy="Name outputs before that operator, or compile for a chip of generation 2.",
    )
