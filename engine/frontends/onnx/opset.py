"""Bring a model to the pinned opset, or refuse by the operator's name."""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.onnx.opset_downgrade import downgrade_opset
from engine.frontends.onnx.rewriting import Context, Rewrite, attribute, rewrite
from engine.graph.ir.constants import IR_VERSION, OPSET, STANDARD_DOMAINS
from engine.graph.ir.custom import is_custom

__all__ = ["changed_operators", "needs_rewrite", "rewrite_old_operators", "to_pinned_opset"]

_NO_ADAPTER = re.compile(r"No Adapter (?:From|For).*? for (\w+)")


# Operators that mean at opset 21 what they meant at the opset given here: since then they took more
# types, and attributes or inputs whose absence means what there was before. ONNX's converter leaves
# such nodes as they are, but first copies its schemas of all versions (4 MB, 8 ms).
_SAME_SINCE = {
    **dict.fromkeys(
        (
            *("Add", "AveragePool", "Cast", "Constant", "ConstantOfShape", "DequantizeLinear"),
            *("Div", "Equal", "Flatten", "GreaterOrEqual", "Identity", "LeakyRelu", "LessOrEqual"),
            *("Mul", "PRelu", "Pad", "Pow", "QuantizeLinear", "Relu", "Reshape", "Resize"),
            *("Shape", "Size", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"),
        ),
        13,
    ),
    "BatchNormalization": 14,
}


def needs_rewrite(graph: onnx.GraphProto, opset: int) -> bool:
    """Whether a graph of ``opset`` has operators that mean something else at the pinned one."""
    return opset > OPSET or any(
        opset < _SAME_SINCE.get(op, OPSET) for op in changed_operators(graph, opset)
    )


def to_pinned_opset(proto: onnx.ModelProto, opset: int, source: str) -> onnx.ModelProto:
    """The model with opset 21 and IR 10, computing the same.

    Where no operator of the model changed its meaning in between, only the version is rewritten;
    elsewhere the adapters need the types and ranks of all tensors in ``proto``. Newer opsets
    are lowered by :mod:`engine.frontends.onnx.opset_downgrade`. Older ones ONNX's converter brings
    up, and what it gets wrong (onnx 1.23: Upsample and Resize of opset 10, Hardmax,
    GroupNormalization of opset 18) is put right: after it here, before it by
    :func:`rewrite_old_operators`.

    Args:
        proto: cleaned, rewritten, checked, without large weights; may be changed.
        opset: its version of ONNX's operators.
        source: how messages call the model.

    Raises:
        UnsupportedOperatorError: an operator that has no equal in opset 21; names it.
    """
    _refuse_ancient(proto.graph, opset, source)
    if opset > OPSET:
        proto = downgrade_opset(proto, opset, source)
        del proto.graph.value_info[:]
    elif needs_rewrite(proto.graph, opset):
        proto.ir_version = IR_VERSION
        resized = _resize_outputs(proto.graph, opset)
        proto = _convert(proto, opset, source)
        _after(proto.graph, opset, resized, source)
    for entry in proto.opset_import:
        if entry.domain in STANDARD_DOMAINS:
            entry.version = OPSET
    proto.ir_version = IR_VERSION
    return proto


# below opset 7: operators that the converter takes and gets wrong, and what they did there
_ANCIENT = {
    "PRelu": "its slope is meant per channel there",
    "Upsample": "its scales are attributes of other names there",
}


def _refuse_ancient(graph: onnx.GraphProto, opset: int, source: str) -> None:
    for node in graph.node if opset < 7 else ():
        if node.op_type in _ANCIENT:
            raise UnsupportedOperatorError(
                f"{source}: {node.op_type} of opset {opset} (node {sanitize(node.name, 100)!r}) "
                f"cannot be converted to opset {OPSET}: {_ANCIENT[node.op_type]}.",
                cause="The model was exported by a very old tool.",
                remedy=f"Export the model with a newer opset, {OPSET} at best.",
            )


def _since(op: str, opset: int) -> int:
    return int(onnx.defs.get_schema(op, opset, "").since_version)


def changed_operators(graph: onnx.GraphProto, opset: int) -> list[str]:
    """The operators of a graph that ONNX changed at all between ``opset`` and the pinned one."""
    changed = []
    for op in sorted({node.op_type for node in graph.node if not is_custom(node)}):
        try:
            target = _since(op, OPSET)
        except onnx.defs.SchemaError:
            changed.append(op)
            continue
        schema = onnx.defs.get_schema(op, OPSET, "")
        if schema.deprecated or target != _since(op, opset):
            changed.append(op)
    return changed


def _convert(proto: onnx.ModelProto, opset: int, source: str) -> onnx.ModelProto:
    try:
        return onnx.version_converter.convert_version(proto, OPSET)
    except Exception as error:  # the C++ converter raises what its adapters raise
        text = str(error)
        found = _NO_ADAPTER.search(text)
        changed = [found[1]] if found else _culprits(proto, opset)
        names = ", ".join(sanitize(op, 60) for op in changed)
        raise UnsupportedOperatorError(
            f"{source}: {names} of opset {opset} cannot be converted to opset {OPSET}: "
            f"{sanitize(text.rsplit('failed: ', 1)[-1] or 'no reason given', 200)}",
            cause="The operator changed its meaning between the two versions.",
            remedy=f"Export the model with a newer opset, {OPSET} at best.",
        ) from error


def _culprits(proto: onnx.ModelProto, opset: int) -> list[str]:
    """The changed operators whose nodes alone fail to convert; all changed ones if none does."""
    known = {
        value.name: value
        for value in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output)
    }
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    changed = changed_operators(proto.graph, opset)
    failing: list[str] = []
    for node in proto.graph.node:
        if node.op_type not in changed or node.op_type in failing:
            continue
        blank = [helper.make_tensor_value_info(n, 1, None) for n in node.output if n]
        graph = helper.make_graph(
            [node],
            "one",
            [known[n] for n in node.input if n in known and n not in constants],
            blank,
            [constants[n] for n in node.input if n in constants],
        )
        imports = [helper.make_opsetid("", opset)]
        try:
            onnx.version_converter.convert_version(
                helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION), OPSET
            )
        except (
            onnx.version_converter.ConvertError,
            RuntimeError,
            ValueError,
        ):  # any failure marks the operator
            failing.append(node.op_type)
    return failing or changed


# -- what the converter gets wrong, put right before it runs ----------------------------------


def rewrite_old_operators(graph: onnx.GraphProto, opset: int) -> None:
    """Rewrite, in place and within the source opset, what checker or converter would spoil."""
    table: dict[str, Rewrite] = {}
    if opset < 13:
        table["Hardmax"] = _hardmax_on_rows
    if 18 <= opset < 21:
        table["GroupNormalization"] = _group_norm_as_instance_norm
    rewrite(graph, table)


def _hardmax_on_rows(node: onnx.NodeProto, context: Context) -> list[onnx.NodeProto]:
    """Hardmax below opset 13 works on the tensor flattened to two axes at ``axis`` (default 1)."""
    x, y = node.input[0], node.output[0]
    flat, chosen, shape = (context.name(f"{y}_{part}") for part in ("flat", "rows", "shape"))
    return [
        helper.make_node("Shape", [x], [shape]),
        helper.make_node("Flatten", [x], [flat], axis=attribute(node, "axis", 1)),
        helper.make_node("Hardmax", [flat], [chosen], name=node.name, axis=1),
        helper.make_node("Reshape", [chosen, shape], [y]),
    ]


def _group_norm_as_instance_norm(node: onnx.NodeProto, context: Context) -> list[onnx.NodeProto]:
    """GroupNormalization of opset 18 scales per group, that of opset 21 per channel.

    Per group it is InstanceNormalization of the tensor with its groups as channels.
    """
    x, y = node.input[0], node.output[0]
    grouped, normed, shape = (context.name(f"{y}_{part}") for part in ("groups", "normed", "shape"))
    wanted = context.ints(f"{y}_as_groups", 0, attribute(node, "num_groups", 1), -1)
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    return [
        helper.make_node("Shape", [x], [shape]),
        helper.make_node("Reshape", [x, wanted], [grouped]),
        helper.make_node(
            "InstanceNormalization",
            [grouped, *node.input[1:]],
            [normed],
            name=node.name,
            epsilon=epsilon,
        ),
        helper.make_node("Reshape", [normed, shape], [y]),
    ]


# -- and after it ------------------------------------------------------------------------------


def _resize_outputs(graph: onnx.GraphProto, opset: int) -> dict[str, np.ndarray | None]:
    """Outputs of Upsample and of Resize up to opset 10, with their scales where constant."""
    if opset > 10:
        return {}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            constants[node.output[0]] = node.attribute[0].t
    found: dict[str, np.ndarray | None] = {}
    for node in graph.node:
        if node.op_type not in ("Upsample", "Resize"):
            continue
        scales = next((list(a.floats) for a in node.attribute if a.name == "scales"), None)
        if scales is None and len(node.input) > 1 and node.input[1] in constants:
            scales = numpy_helper.to_array(constants[node.input[1]]).tolist()
        found[node.output[0]] = None if scales is None else np.asarray(scales)
    return found


def _after(
    graph: onnx.GraphProto, opset: int, resized: dict[str, np.ndarray | None], source: str
) -> None:
    for node in graph.node:
        if node.domain in STANDARD_DOMAINS and node.output and node.output[0] in resized:
            _resize_of_opset_10(node, resized[node.output[0]], opset, source)


def _resize_of_opset_10(
    node: onnx.NodeProto, scales: np.ndarray | None, opset: int, source: str
) -> None:
    """Opset 10 and older map coordinates ``asymmetric``; later opsets default to half pixels.

    Nearest took the pixel below when enlarging and the one above when reducing (what ONNX Runtime
    does for those opsets), so a node that does both, or whose scales are not known, has no equal.
    """
    kept = [
        attribute
        for attribute in node.attribute
        if attribute.name not in ("coordinate_transformation_mode", "nearest_mode")
    ]
    kept.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    mode = next((a.s.decode() for a in kept if a.name == "mode"), "nearest")
    if mode == "nearest":
        grows = scales is not None and bool((scales >= 1).all())
        shrinks = scales is not None and bool((scales <= 1).all())
        if not grows and not shrinks:
            raise UnsupportedOperatorError(
                f"{source}: Resize of opset {opset} (output {sanitize(node.output[0])!r}) cannot "
                f"be brought to opset {OPSET}: nearest, with scales that "
                f"{'are computed' if scales is None else 'grow one axis and shrink another'}.",
                cause="Opset 10 does not say which pixel is nearest in this case.",
                remedy="Export the model with opset 11 or newer.",
            )
        kept.append(helper.make_attribute("nearest_mode", "floor" if grows else "ceil"))
    del node.attribute[:]
    node.attribute.extend(kept)
