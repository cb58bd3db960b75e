"""The QDQ graph as the file that the vendor's toolkit 2 loads."""

from __future__ import annotations

import onnx

from engine.base.errors import QuantizationError
from engine.base.text import sanitize
from engine.graph.execute.as_compiled import FUSING_LEVEL
from engine.graph.execute.shared_weights import duplicate_shared_weights
from engine.graph.ir import Graph, is_custom
from engine.quantize.qdq.vendor_form import vendor_form

__all__ = ["VENDOR_IR_VERSION", "VENDOR_OPSET", "lower_for_vendor"]

# What rknn-toolkit2 2.3.2 loads (it comes with onnx 1.16).
VENDOR_OPSET = 19
VENDOR_IR_VERSION = 8

# Operators whose versions 20 and 21 only allow more types (of which int4, uint4 and float8 are not
# ours) or add attributes that are not set here: the node means the same in opset 19.
_SAME_IN_19 = frozenset(
    {
        "Cast",
        "CastLike",
        "Constant",
        "ConstantOfShape",
        "DequantizeLinear",
        "Flatten",
        "GridSample",
        "Identity",
        "IsInf",
        "IsNaN",
        "Pad",
        "QLinearMatMul",
        "QuantizeLinear",
        "ReduceMax",
        "ReduceMin",
        "Reshape",
        "Shape",
        "Size",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)


def lower_for_vendor(
    graph: Graph, level: int = FUSING_LEVEL, *, every_shape: bool = False
) -> onnx.ModelProto:
    """The QDQ graph as opset 19, IR 8: rknn-toolkit2 loads it with ``do_quantization=False``.

    Integers, scales and zero points stay as they are (int8), and so do custom operators, whose
    class the toolkit wants to be registered as well (``reg_custom_op``). What later versions of
    the format added for tools (metadata of nodes and values) is left out.

    Means, outputs and more are written as :mod:`engine.quantize.qdq.vendor_form` says.

    Every operator has int8 weights and zero points of its own, as ONNX Runtime's setting for exact
    sums needs them.

    Args:
        graph: with Q/DQ pairs, or without.
        level: the ``optimization_level`` that it will be compiled with.
        every_shape: whether the file is compiled for several sets of input shapes.
        level: of the compiler; the file of several sets differs by it.

    Raises:
        QuantizationError: an operator has no form in opset 19 (named).
    """
    model = duplicate_shared_weights(vendor_form(graph, level, every_shape=every_shape)).to_proto()
    kept = sorted({node.domain for node in model.graph.node if is_custom(node)})
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for node in model.graph.node:
        if not is_custom(node):
            _require_opset_19(node)
        del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    del model.graph.metadata_props[:]
    model.ir_version = VENDOR_IR_VERSION
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", VENDOR_OPSET))
    model.opset_import.extend(onnx.helper.make_opsetid(d, versions.get(d, 1)) for d in kept)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise QuantizationError(
            f"The graph has no valid form in opset {VENDOR_OPSET}: {sanitize(str(error), 300)}",
            cause="An operator uses what only later versions of ONNX have.",
            remedy="Export a container instead, or export the source model with opset 19 or less.",
        ) from error
    return model


def _require_opset_19(node: onnx.NodeProto) -> None:
    name = sanitize(node.name, 80)
    try:
        since = onnx.defs.get_schema(node.op_type, 21).since_version
    except onnx.defs.SchemaError as error:
        raise QuantizationError(
            f"Node {name!r} has the operator {sanitize(node.op_type)!r}, which ONNX does not know.",
            remedy="Register it as a custom operator, or leave this algorithm.",
        ) from error
    if since > VENDOR_OPSET and node.op_type not in _SAME_IN_19:
        raise QuantizationError(
            f"Node {name!r} has the operator {node.op_type} of opset {since}, which has no form in "
            f"opset {VENDOR_OPSET}.",
            cause="The source model uses a newer operator than the vendor's toolkit loads.",
            remedy=f"Export the source model with opset {VENDOR_OPSET} or less.",
        )
