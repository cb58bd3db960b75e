"""Opsets above the pinned one (22 to 28), brought down by what changed in them.

ONNX's converter refuses many operators on the way down that only took more types (GlobalMaxPool of
22), so this is done here. Of every operator that changed after opset 21 the schema and its text in
onnx 1.23.2 were compared: where inputs, outputs and attributes are the same, only types were added,
which the checker of opset 21 refuses where a model has one of them. The others stand in a table.
Operators that opset 21 lacks are replaced by the functions that their own schemas define.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import helper

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.onnx.control import expand
from engine.frontends.onnx.rewriting import Context, Rewrite, attribute, rewrite, without
from engine.graph.ir.constants import OPSET
from engine.graph.ir.custom import is_custom
from engine.graph.ir.dataflow import has_open_shapes
from engine.graph.ir.shapes import infer_proto

__all__ = ["NEWEST_OPSET", "downgrade_opset", "too_new"]

NEWEST_OPSET = 28
"""The newest whose changes were read."""

_LOWERED = "rknntui.lowered"

# int4 is 22; float4e2m1, float8e8m0, uint2 and int2 came after opset 21
_LAST_ELEMENT = onnx.TensorProto.INT4

_FUNCTION_ERRORS = (
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    RuntimeError,
    TypeError,
    ValueError,
)

_SHORT_FLOATS = frozenset({onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})


def too_new(op: str, opset: int) -> str:
    """Why an operator of a newer opset has no equal in the pinned one; empty where it has one."""
    if opset <= OPSET or op in _REWRITES:
        return ""
    schema = onnx.defs.get_schema(op, opset, "")
    try:
        older = onnx.defs.get_schema(op, OPSET, "")
    except onnx.defs.SchemaError:
        if _has_function(schema):
            return ""
        return f"opset {OPSET} does not have it: it came with {schema.since_version}"
    if _signature(schema) != _signature(older):
        return f"opset {schema.since_version} changed it, and opset {OPSET} has no equal"
    return ""


def downgrade_opset(proto: onnx.ModelProto, opset: int, source: str) -> onnx.ModelProto:
    """The model with operators of the pinned opset; it may be changed.

    Args:
        proto: cleaned, without subgraphs, with the types of all values.
        opset: its version of ONNX's operators, above the pinned one.
        source: how messages call the model.

    Raises:
        UnsupportedOperatorError: an operator or a type that the pinned opset does not have.
    """
    for node in proto.graph.node:
        why = "" if is_custom(node) else too_new(node.op_type, opset)
        if why:
            raise _refusal(source, node, opset, why)
    proto = _by_functions(proto, opset, source)
    try:
        rewrite(proto.graph, _REWRITES)
    except _NoEqualError as error:
        raise _refusal(source, error.node, opset, error.why) from None
    return proto


class _NoEqualError(Exception):
    def __init__(self, node: onnx.NodeProto, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


def _refusal(source: str, node: onnx.NodeProto, opset: int, why: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(
        f"{source} has opset {opset} and the operator {sanitize(node.op_type, 60)} (node "
        f"{sanitize(node.name, 100)!r}), which cannot be converted to opset {OPSET}: {why}.",
        cause=f"Graphs here have opset {OPSET}, the newest that the runtime takes throughout.",
        remedy=f"Export the model with opset {OPSET} or lower.",
    )


def _signature(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    ends = [[(e.name, str(e.option)) for e in s] for s in (schema.inputs, schema.outputs)]
    attributes = {
        name: (str(a.type), a.default_value.SerializeToString())
        for name, a in schema.attributes.items()
    }
    return (*ends, attributes)


# -- new operators, by the functions of their schemas ------------------------------------------


def _has_function(schema: Any) -> bool:
    return bool(schema.has_function or schema.has_context_dependent_function)


def _is_new(node: onnx.NodeProto) -> bool:
    return not is_custom(node) and not onnx.defs.has(node.op_type, OPSET, "")


def _by_functions(proto: onnx.ModelProto, opset: int, source: str) -> onnx.ModelProto:
    # a function may call another new operator: SwiGLU calls Swish
    while any(map(_is_new, proto.graph.node)):
        if has_open_shapes(proto.graph):
            # what a function does depends on sizes, and inference takes open ones for 0
            expand(proto.graph, opset, source, always=True)
            _forget(proto.graph)
            proto = infer_proto(proto)
        context = Context(proto.graph)
        for node in filter(_is_new, proto.graph.node):
            schema = onnx.defs.get_schema(node.op_type, opset, "")
            number = len(proto.functions)
            proto.functions.append(_function(node, schema, context, opset, number, source))
            given = {a.name for a in node.attribute}
            node.attribute.extend(
                a.default_value
                for name, a in schema.attributes.items()
                if name not in given and a.default_value.name
            )
            node.domain, node.op_type = _LOWERED, proto.functions[-1].name
        proto = _inlined(proto, source)
        # the functions compute sizes, and LinearAttention is a Scan
        expand(proto.graph, opset, source, always=True)
        proto = infer_proto(proto)
    return proto


def _forget(graph: onnx.GraphProto) -> None:
    """Drop what is known of inner and output shapes, in place."""
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")


def _inlined(proto: onnx.ModelProto, source: str) -> onnx.ModelProto:
    proto.opset_import.add(domain=_LOWERED, version=1)
    _forget(proto.graph)
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(proto)
    except _FUNCTION_ERRORS as error:
        raise SourceModelError(
            f"{source}: an operator newer than opset {OPSET} could not be written out: "
            f"{sanitize(str(error), 200)}",
            remedy=f"Export the model with opset {OPSET} or lower.",
        ) from error
    imports = [entry for entry in inlined.opset_import if entry.domain != _LOWERED]
    del inlined.opset_import[:]
    inlined.opset_import.extend(imports)
    return inlined


def _function(
    # onnx's stubs leave the methods about functions out
    node: onnx.NodeProto,
    schema: Any,
    context: Context,
    opset: int,
    number: int,
    source: str,
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
            raise _refusal(source, node, opset, "its inputs do not have the types that it needs")
    else:
        function.CopyFrom(schema.function_body)
    function.domain, function.name = _LOWERED, f"{node.op_type}_{number}"
    del function.opset_import[:]
    function.opset_import.add(domain="", version=opset)
    return function


# -- operators that changed ---------------------------------------------------------------------


def _cast(node: onnx.NodeProto, context: Context) -> None:
    """``round_mode`` (24) is about float8e8m0 alone."""
    if attribute(node, "to") > _LAST_ELEMENT:
        raise _NoEqualError(node, f"opset {OPSET} has no such type to cast to")
    without(node, "round_mode")


def _quantize(node: onnx.NodeProto, context: Context) -> None:
    """``precision`` (23) is the type that is divided in: the scale's by default."""
    if attribute(node, "output_dtype") > _LAST_ELEMENT:
        raise _NoEqualError(node, f"opset {OPSET} has no such type to quantize to")
    precision = attribute(node, "precision")
    if precision and precision != context.element(node.input[1]):
        raise _NoEqualError(node, "it divides in another type than its scale's")
    without(node, "precision")


def _dequantize(node: onnx.NodeProto, context: Context) -> None:
    """``output_dtype`` (23) is the scale's type by default."""
    wanted = attribute(node, "output_dtype")
    if wanted and wanted != context.element(node.input[1]):
        raise _NoEqualError(node, "it multiplies in another type than its scale's")
    without(node, "output_dtype")


def _range(node: onnx.NodeProto, context: Context) -> None:
    """``stash_type`` (27) is about short floats."""
    if context.element(node.input[0]) in _SHORT_FLOATS:
        raise _NoEqualError(node, "it counts short floats in float32")
    without(node, "stash_type")


def _mod(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """Floats without ``fmod`` (28): the remainder takes the sign of the divisor, as in Python."""
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, *_SHORT_FLOATS)
    if attribute(node, "fmod") or context.element(node.input[0]) not in floats:
        return None
    (a, b), y = node.input, node.output[0]
    rest, sign, divisor, both, other, moved = (
        context.name(f"{y}_{part}")
        for part in ("rest", "sign", "divisor_sign", "signs", "differ", "moved")
    )
    kind = helper.tensor_dtype_to_np_dtype(context.element(a))
    zero = context.constant(f"{y}_zero", np.array(0, kind))
    return [
        helper.make_node("Mod", [a, b], [rest], name=node.name, fmod=1),
        helper.make_node("Sign", [rest], [sign]),
        helper.make_node("Sign", [b], [divisor]),
        helper.make_node("Mul", [sign, divisor], [both]),
        helper.make_node("Less", [both, zero], [other]),
        helper.make_node("Add", [rest, b], [moved]),
        helper.make_node("Where", [other, moved, rest], [y]),
    ]


def _space_to_depth(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """``mode`` (28): CRD keeps the channels of a block together, DCR is the only one of 21."""
    mode = next((a.s for a in node.attribute if a.name == "mode"), b"DCR")
    if mode == b"DCR":
        without(node, "mode")
        return None
    shape, block = context.shape(node.input[0]), attribute(node, "blocksize", 1)
    if shape is None or len(shape) != 4 or block < 1:
        raise _NoEqualError(node, "mode CRD, and the size of its input is not known")
    n, c, h, w = shape
    x, y = node.input[0], node.output[0]
    split, turned = context.name(f"{y}_blocks"), context.name(f"{y}_turned")
    blocks = context.ints(f"{y}_split", n, c, h // block, block, w // block, block)
    whole = context.ints(f"{y}_joined", n, c * block * block, h // block, w // block)
    return [
        helper.make_node("Reshape", [x, blocks], [split]),
        helper.make_node("Transpose", [split], [turned], name=node.name, perm=[0, 1, 3, 5, 2, 4]),
        helper.make_node("Reshape", [turned, whole], [y]),
    ]


def _stays(
    change: Callable[[onnx.NodeProto, Context], None],
) -> Rewrite:
    """A rewrite that only changes attributes."""

    def apply(node: onnx.NodeProto, context: Context) -> None:
        change(node, context)

    return apply


_REWRITES: dict[str, Rewrite] = {
    "Cast": _stays(_cast),
    "CastLike": _stays(_cast),
    "DequantizeLinear": _stays(_dequantize),
    "Mod": _mod,
    "QuantizeLinear": _stays(_quantize),
    "Range": _stays(_range),
    "SpaceToDepth": _space_to_depth,
}
