"""Bring a model to the pinned opset, or refuse by the operator's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import helper

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.onnx.control import expand
from engine.frontends.onnx.tensors import forget_shapes
from engine.graph.ir.custom import is_custom
from engine.graph.ir.dataflow import has_open_shapes
from engine.graph.ir.naming import IR_VERSION, OPSET, STANDARD_DOMAINS
from engine.graph.ir.opsets import NoFormError, lower, no_form, unchanged
from engine.graph.ir.rewriting import (
    Context,
    Replacement,
    Rewrite,
    attribute,
    refill,
    rewrite,
    without,
)
from engine.graph.ir.shapes import infer_proto

_NO_ADAPTER = re.compile(r"No Adapter (?:From|For).*? for (\w+)")

_LOWERED = "rknntui.lowered"

_FUNCTION_ERRORS = (
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    RuntimeError,
    TypeError,
    ValueError,
)


def needs_rewrite(graph: onnx.GraphProto, opset: int) -> bool:
    """Whether a graph of ``opset`` has operators that mean something else at the pinned one."""
    return opset > OPSET or bool(changed_operators(graph, opset))


def changed_operators(graph: onnx.GraphProto, opset: int) -> list[str]:
    """The operators of a graph that mean something else at the pinned opset, or may do so."""
    operators = sorted({node.op_type for node in graph.node if not is_custom(node)})
    return [op for op in operators if not unchanged(op, opset)]


def to_pinned_opset(proto: onnx.ModelProto, opset: int, source: str) -> onnx.ModelProto:
    """The model with opset 21 and IR 10, computing the same.

    Where no operator of the model changed its meaning in between, only the version is rewritten;
    elsewhere the adapters need the types and ranks of all tensors in ``proto``. Newer opsets
    are lowered: operators that opset 21 lacks are replaced by the functions that their own schemas
    define, the others by :mod:`engine.graph.ir.opsets`. Older ones ONNX's converter brings up, and
    what it gets wrong (onnx 1.23: Upsample and Resize of opset 10, Hardmax, GroupNormalization of
    opset 18) is put right: after it here, before it by :func:`rewrite_old_operators`.

    Args:
        proto: cleaned, rewritten, checked, without large weights; may be changed.
        opset: its version of ONNX's operators.
        source: how messages call the model.

    Raises:
        UnsupportedOperatorError: an operator that has no equal in opset 21; names it.
    """
    _refuse_ancient(proto.graph, opset, source)
    if opset > OPSET:
        proto = _downgraded(proto, opset, source)
        del proto.graph.value_info[:]
    elif needs_rewrite(proto.graph, opset):
        proto.ir_version = IR_VERSION
        resized = _resize_outputs(proto.graph, opset)
        proto = _convert(proto, opset, source)
        for node in proto.graph.node:
            if node.domain in STANDARD_DOMAINS and node.output and node.output[0] in resized:
                _resize_of_opset_10(node, resized[node.output[0]], opset, source)
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


def _convert(proto: onnx.ModelProto, opset: int, source: str) -> onnx.ModelProto:
    try:
        return onnx.version_converter.convert_version(proto, OPSET)
    except Exception as error:  # the C++ converter raises what its adapters raise
        text = str(error)
        named = _NO_ADAPTER.search(text)
        changed = [named[1]] if named else _culprits(proto, opset)
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
        except (onnx.version_converter.ConvertError, RuntimeError, ValueError):
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


def _hardmax_on_rows(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto]:
    """Hardmax below opset 13 works on the tensor flattened to two axes at ``axis`` (default 1)."""
    at, x = Replacement(node, context), node.input[0]
    shape = at.node("Shape", [x])
    rows = at.node("Flatten", [x], axis=attribute(node, "axis", 1))
    largest = at.node("Hardmax", [rows], axis=1, name=node.name)
    return at.finished(at.node("Reshape", [largest, shape]))


def _group_norm_as_instance_norm(
    node: onnx.NodeProto, context: Context
) -> Sequence[onnx.NodeProto]:
    """GroupNormalization of opset 18 scales per group, that of opset 21 per channel.

    Per group it is InstanceNormalization of the tensor with its groups as channels.
    """
    at, (x, *weights) = Replacement(node, context), node.input
    shape = at.node("Shape", [x])
    groups = at.node("Reshape", [x, at.ints(0, attribute(node, "num_groups", 1), -1)])
    normed = at.node(
        "InstanceNormalization",
        [groups, *weights],
        name=node.name,
        epsilon=attribute(node, "epsilon", 1e-5),
    )
    return at.finished(at.node("Reshape", [normed, shape]))


# -- and after it ------------------------------------------------------------------------------


def _resize_outputs(graph: onnx.GraphProto, opset: int) -> dict[str, np.ndarray | None]:
    """Outputs of Upsample and of Resize up to opset 10, with their scales where constant."""
    if opset > 10:
        return {}
    known = Context(graph, opset).known
    resized: dict[str, np.ndarray | None] = {}
    for node in graph.node:
        if node.op_type in ("Upsample", "Resize"):
            held = attribute(node, "scales", list[float]())
            scales = known(node.input[1]) if len(node.input) > 1 and not held else np.array(held)
            resized[node.output[0]] = scales if scales is not None and scales.size else None
    return resized


def _resize_of_opset_10(
    node: onnx.NodeProto, scales: np.ndarray | None, opset: int, source: str
) -> None:
    """Opset 10 and older map coordinates ``asymmetric``; later opsets default to half pixels.

    Nearest took the pixel below when enlarging and the one above when reducing (what ONNX Runtime
    does for those opsets), so a node that does both, or whose scales are not known, has no equal.
    """
    without(node, "coordinate_transformation_mode", "nearest_mode")
    node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    if attribute(node, "mode", b"nearest") == b"nearest":
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
        nearest = helper.make_attribute("nearest_mode", "floor" if grows else "ceil")
        node.attribute.append(nearest)


# -- opsets above the pinned one ---------------------------------------------------------------


def too_new(op: str, opset: int) -> str:
    """Why an operator of a newer opset has no equal in the pinned one; empty where it has one."""
    if opset <= OPSET:
        return ""
    schema: Any = onnx.defs.get_schema(op, opset, "")  # whose stubs lack these
    by_function = schema.has_function or schema.has_context_dependent_function
    return "" if by_function and not onnx.defs.has(op, OPSET, "") else no_form(op, opset)


def _downgraded(proto: onnx.ModelProto, opset: int, source: str) -> onnx.ModelProto:
    """The model with operators of the pinned opset; it may be changed."""
    try:
        proto = _by_functions(proto, opset, source)
        lower(proto.graph, opset)
    except NoFormError as error:
        node = error.node
        raise UnsupportedOperatorError(
            f"{source} has opset {opset} and the operator {sanitize(node.op_type, 60)} (node "
            f"{sanitize(node.name, 100)!r}), which cannot be converted to opset {OPSET}: "
            f"{error.why}.",
            cause=f"Graphs here have opset {OPSET}, the newest that the runtime takes throughout.",
            remedy=f"Export the model with opset {OPSET} or lower.",
        ) from None
    return proto


def _is_new(node: onnx.NodeProto) -> bool:
    return not is_custom(node) and not onnx.defs.has(node.op_type, OPSET, "")


def _by_functions(proto: onnx.ModelProto, opset: int, source: str) -> onnx.ModelProto:
    # a function may call another new operator: SwiGLU calls Swish
    while any(map(_is_new, proto.graph.node)):
        if has_open_shapes(proto.graph):
            # what a function does depends on sizes, and inference takes open ones for 0
            expand(proto.graph, opset, source, always=True)
            forget_shapes(proto.graph)
            proto = infer_proto(proto)
        context = Context(proto.graph)
        for node in filter(_is_new, proto.graph.node):
            schema = onnx.defs.get_schema(node.op_type, opset, "")
            number = len(proto.functions)
            proto.functions.append(_function(node, schema, context, opset, number))
            attributes = {a.name for a in node.attribute}
            node.attribute.extend(
                a.default_value
                for name, a in schema.attributes.items()
                if name not in attributes and a.default_value.name
            )
            node.domain, node.op_type = _LOWERED, proto.functions[-1].name
        proto = _inlined(proto, source)
        # the functions compute sizes, and LinearAttention is a Scan
        expand(proto.graph, opset, source, always=True)
        proto = infer_proto(proto)
    return proto


def _inlined(proto: onnx.ModelProto, source: str) -> onnx.ModelProto:
    proto.opset_import.add(domain=_LOWERED, version=1)
    forget_shapes(proto.graph)
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(proto)
    except _FUNCTION_ERRORS as error:
        raise SourceModelError(
            f"{source}: an operator newer than opset {OPSET} could not be written out: "
            f"{sanitize(str(error), 200)}",
            remedy=f"Export the model with opset {OPSET} or lower.",
        ) from error
    refill(inlined.opset_import, [e for e in inlined.opset_import if e.domain != _LOWERED])
    return inlined


def _function(
    # onnx's stubs leave the methods about functions out
    node: onnx.NodeProto,
    schema: Any,
    context: Context,
    opset: int,
    number: int,
) -> onnx.FunctionProto:
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        types = [context.type(name).SerializeToString() for name in node.input]
        try:
            data = schema.get_context_dependent_function(node.SerializeToString(), types)
        except _FUNCTION_ERRORS:
            data = b""
        function.ParseFromString(data)
        if not function.node:
            raise NoFormError(node, "its inputs do not have the types that it needs")
    else:
        function.CopyFrom(schema.function_body)
    function.domain, function.name = _LOWERED, f"{node.op_type}_{number}"
    del function.opset_import[:]
    function.opset_import.add(domain="", version=opset)
    return function
