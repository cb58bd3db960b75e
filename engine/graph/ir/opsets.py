"""What changed in ONNX's operators from opset 10 to 28, and the way back to an older opset.

Of every operator the schemas of onnx 1.23.2 and their texts were compared, version by version.
Where inputs, outputs and attributes are the same, a version only took more types: the checker of
the older opset refuses a model that has one of them. All else that has a way back stands in one
table. ONNX's own converter goes down for few operators (it has no way for a Relu), so this is done
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import onnx
from onnx import helper

from engine.base.text import sanitize
from engine.graph.ir.custom import is_custom
from engine.graph.ir.naming import OPSET
from engine.graph.ir.rewriting import Context, Replacement, Rewrite, attribute, rewrite, without

NEWEST_OPSET = 28
"""The newest whose changes were read."""

_UP_FROM = 13
"""The oldest opset whose nodes are compared on the way up; older ones ONNX's converter takes."""

_NEGATIVE_AXES = 11
"""Axes may count from the end since this opset."""

# int4 is 22; float4e2m1, float8e8m0, uint2 and int2 came after opset 21
_LAST_ELEMENT = onnx.TensorProto.INT4

_AXIS = ("axis", "axes")
"""Attributes that count axes."""

_SHORT_FLOATS = frozenset({onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})


class NoFormError(Exception):
    """A node has no form in an older opset.

    Attributes:
        node: the node.
        why: in words.
    """

    def __init__(self, node: onnx.NodeProto, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


# -- kinds of changes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """What a version changed in an operator.

    Attributes:
        back: brings a node of the version to the one before; raises :class:`NoFormError`.
        means_same: whether a node of the version before means the same in this one.
        attributes: those that came with the version, each with the value that says what there was
            before: a number for every entry of a list, None where any value changes something.
        inputs: those that came in place of attributes of the same names.
    """

    back: Rewrite
    means_same: bool = False
    attributes: Mapping[str, int | str | None] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()


def _came(**before: int | str | None) -> Change:
    """Attributes came: back, they are left out where they say what there was before."""

    def back(node: onnx.NodeProto, context: Context) -> None:
        for held in node.attribute:
            if held.name not in before:
                continue
            value, same = helper.get_attribute_value(held), before[held.name]
            plain = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            if same is None or any(entry != same for entry in np.atleast_1d(plain).tolist()):
                raise NoFormError(node, f"its {held.name} is {sanitize(str(plain), 60)}")
        without(node, *before)

    return Change(back, means_same=True, attributes=before)


def _moved(*names: str, **before: int | str | None) -> Change:
    """The inputs behind the first were attributes: constant ones become these again."""
    attributes = _came(**before)

    def back(node: onnx.NodeProto, context: Context) -> None:
        attributes.back(node, context)
        for name, tensor in zip(names, node.input[1:], strict=False):
            array = context.known(tensor)
            if tensor and array is None:
                raise NoFormError(node, f"its {name} is computed")
            if array is not None and array.size:
                node.attribute.append(helper.make_attribute(name, array.tolist()))
        del node.input[1:]

    return Change(back, attributes=before, inputs=names)


# -- changes of one operator ---------------------------------------------------------------------


def _cast(node: onnx.NodeProto, context: Context) -> None:
    """``round_mode`` is about float8e8m0 alone."""
    if attribute(node, "to", 0) > _LAST_ELEMENT:
        raise NoFormError(node, f"opset {OPSET} has no such type to cast to")
    without(node, "round_mode")


def _quantize(node: onnx.NodeProto, context: Context) -> None:
    """``precision`` is the type that is divided in: the scale's by default."""
    if attribute(node, "output_dtype", 0) > _LAST_ELEMENT:
        raise NoFormError(node, f"opset {OPSET} has no such type to quantize to")
    if attribute(node, "precision", 0) not in (0, context.element(node.input[1])):
        raise NoFormError(node, "it divides in another type than its scale's")
    without(node, "precision")


def _dequantize(node: onnx.NodeProto, context: Context) -> None:
    """``output_dtype`` is the scale's type by default."""
    if attribute(node, "output_dtype", 0) not in (0, context.element(node.input[1])):
        raise NoFormError(node, "it multiplies in another type than its scale's")
    without(node, "output_dtype")


def _range(node: onnx.NodeProto, context: Context) -> None:
    """``stash_type`` is about short floats."""
    if context.element(node.input[0]) in _SHORT_FLOATS:
        raise NoFormError(node, "it counts short floats in float32")
    without(node, "stash_type")


def _mod(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """Floats without ``fmod``: the remainder takes the sign of the divisor, as in Python."""
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, *_SHORT_FLOATS)
    if attribute(node, "fmod", 0) or context.element(node.input[0]) not in floats:
        return None
    w, divisor = Replacement(node, context), node.input[1]
    zero = w.scalar(0, helper.tensor_dtype_to_np_dtype(context.element(node.input[0])))
    rest = w.node("Mod", node.input, fmod=1, name=node.name)
    signs = w.node("Mul", [w.node("Sign", [rest]), w.node("Sign", [divisor])])
    moved = w.node("Add", [rest, divisor])
    return w.finished(w.node("Where", [w.node("Less", [signs, zero]), moved, rest]))


def _space_to_depth(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """``mode``: CRD keeps the channels of a block together, DCR is the only one of 21."""
    mode = attribute(node, "mode", b"DCR")
    if mode == b"DCR":
        without(node, "mode")
        return None
    shape, block = context.shape(node.input[0]), attribute(node, "blocksize", 1)
    if shape is None or len(shape) != 4 or block < 1:
        raise NoFormError(node, "mode CRD, and the size of its input is not known")
    n, c, height, width = shape
    h, w, at = height // block, width // block, Replacement(node, context)
    blocks = at.node("Reshape", [node.input[0], at.ints(n, c, h, block, w, block)])
    turned = at.node("Transpose", [blocks], perm=[0, 1, 3, 5, 2, 4], name=node.name)
    return at.finished(at.node("Reshape", [turned, at.ints(n, c * block * block, h, w)]))


def _grid_sample(node: onnx.NodeProto, context: Context) -> None:
    """Names of modes of pictures; ``linear`` was the default under its older name."""
    older = {b"linear": b"bilinear", b"cubic": b"bicubic"}
    for held in node.attribute:
        if held.name == "mode":
            held.s = older.get(held.s, held.s)


def _softmax(node: onnx.NodeProto, context: Context) -> None:
    """Before, all axes from this one on were one: the same where it is the last."""
    rank, axis = context.rank(node.input[0]), attribute(node, "axis", -1)
    if not rank or axis not in (-1, rank - 1):
        raise NoFormError(node, "its axis is not the last one, or its shape is not known")
    without(node, "axis")
    node.attribute.append(helper.make_attribute("axis", rank - 1))


def _split(node: onnx.NodeProto, context: Context) -> None:
    """``num_outputs`` says what the outputs say, where these are of one size."""
    shape, axis = context.shape(node.input[0]), attribute(node, "axis", 0)
    count = attribute(node, "num_outputs", len(node.output))
    if count != len(node.output) or (len(node.input) < 2 and shape and shape[axis] % count):
        raise NoFormError(node, "its parts are not of one size")
    without(node, "num_outputs")


def _pad(node: onnx.NodeProto, context: Context) -> None:
    if len(node.input) > 3 and node.input[3]:
        raise NoFormError(node, "its axes are given")
    del node.input[3:]


def _front_axes(node: onnx.NodeProto, context: Context) -> None:
    """Axes that count from the end are counted from the front."""
    for held in node.attribute:
        axes = np.atleast_1d(helper.get_attribute_value(held)) if held.name in _AXIS else np.ones(1)
        if axes.min() >= 0:
            continue
        rank = context.rank(node.output[0] if node.op_type == "Unsqueeze" else node.input[0])
        if not rank:
            raise NoFormError(node, "its axes count from the end, and its shape is not known")
        front = (axes % rank).tolist()
        value = front if held.type == onnx.AttributeProto.INTS else front[0]
        held.CopyFrom(helper.make_attribute(held.name, value))


# -- the table -----------------------------------------------------------------------------------

_TABLE: Mapping[str, Mapping[int, Change]] = {
    "ArgMax ArgMin": {12: _came(select_last_index=0)},
    "AveragePool": {10: _came(ceil_mode=0), 19: _came(dilations=1)},
    # its inputs and outputs have other names since then, and outputs of training went
    "BatchNormalization": {14: Change(_came(training_mode=0).back)},
    "Cast CastLike": {
        19: _came(saturate=1),
        23: Change(_cast, means_same=True),
        24: Change(_cast, means_same=True),
    },
    "Clip": {11: _moved("min", "max")},
    "DepthToSpace": {11: _came(mode="DCR")},
    "DequantizeLinear": {21: _came(block_size=0), 23: Change(_dequantize, means_same=True)},
    "GRU LSTM RNN": {14: _came(layout=0)},
    "GatherND": {12: _came(batch_dims=0)},
    # an addend may be missing since then, which the checker of the older opset tells
    "Gemm": {11: _came()},
    "GridSample": {20: Change(_grid_sample)},
    "Hardmax LogSoftmax Softmax": {13: Change(_softmax)},
    "LpPool": {18: _came(ceil_mode=0, dilations=1)},
    "MaxPool": {10: _came(ceil_mode=0, dilations=1)},
    "Mod": {28: Change(_mod)},
    "Pad": {11: _moved("pads", "value"), 18: Change(_pad, means_same=True)},
    "QuantizeLinear": {
        19: _came(saturate=1),
        21: _came(output_dtype=0, block_size=0),
        23: Change(_quantize, means_same=True),
    },
    "Range": {27: Change(_range)},
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSumSquare": {18: _moved("axes", noop_with_empty_axes=0)},
    "ReduceSum": {13: _moved("axes", noop_with_empty_axes=0)},
    "Reshape": {14: _came(allowzero=0)},
    "Resize": {18: _came(axes=None, antialias=0, keep_aspect_ratio_policy="stretch")},
    "ScatterElements ScatterND": {16: _came(reduction="none")},
    "Shape": {15: _came(start=0, end=None)},
    "SpaceToDepth": {28: Change(_space_to_depth, means_same=True)},
    "Split": {13: _moved("split"), 18: Change(_split)},
    "Squeeze Unsqueeze": {13: _moved("axes")},
    "TopK": {11: _came(sorted=1, largest=1)},
}

CHANGES = {op: versions for ops, versions in _TABLE.items() for op in ops.split()}
"""Operator -> version -> what changed with it, beside the types that it takes."""


# -- the way -------------------------------------------------------------------------------------


def _form(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    """All that a schema says but the types."""
    ends = [[(e.name, str(e.option)) for e in s] for s in (schema.inputs, schema.outputs)]
    attributes = {
        name: (str(a.type), a.default_value.SerializeToString())
        for name, a in schema.attributes.items()
    }
    return (*ends, attributes)


@cache
def _steps(op: str, opset: int, target: int) -> tuple[tuple[int, Change | None], ...]:
    """The versions from ``opset`` down to above ``target``, with their changes.

    The last change is None where its version changed the operator and has no way back.

    Raises:
        SchemaError: ONNX does not have the operator in one of both.
    """
    oldest = onnx.defs.get_schema(op, target, "").since_version
    schema = onnx.defs.get_schema(op, opset, "")
    changes: list[tuple[int, Change | None]] = []
    while (since := schema.since_version) > oldest:
        schema, newer = onnx.defs.get_schema(op, since - 1, ""), schema
        change = CHANGES.get(op, {}).get(since)
        if change is not None or _form(schema) != _form(newer):
            changes.append((since, change))
    return tuple(changes)


def unchanged(op: str, opset: int) -> bool:
    """Whether a node of an older opset means the same in the pinned one, as it is."""
    try:
        steps = _steps(op, OPSET, opset)
    except onnx.defs.SchemaError:
        return False
    if onnx.defs.get_schema(op, OPSET, "").deprecated:
        return False
    if onnx.defs.get_schema(op, OPSET, "").since_version <= opset:
        return True
    return opset >= _UP_FROM and all(c is not None and c.means_same for _, c in steps)


def no_form(op: str, opset: int, target: int = OPSET) -> str:
    """Why an operator of ``opset`` has no form in an older one; empty where it may have one."""
    if not onnx.defs.has(op, opset, ""):
        return f"ONNX has no such operator in opset {opset}"
    try:
        steps = _steps(op, opset, target)
    except onnx.defs.SchemaError:
        came = onnx.defs.get_schema(op, opset, "").since_version
        while onnx.defs.has(op, came - 1, ""):
            came = onnx.defs.get_schema(op, came - 1, "").since_version
        return f"opset {target} does not have it: it came with {came}"
    return next(
        (
            f"opset {since} changed it, and its form in opset {target} is not known here"
            for since, change in steps
            if change is None
        ),
        "",
    )


def lower(graph: onnx.GraphProto, opset: int, target: int = OPSET) -> None:
    """Write the nodes of a graph in the forms of an older opset, in place.

    Args:
        graph: without subgraphs, with the types of all values.
        opset: its version of ONNX's operators.
        target: the older one.

    Raises:
        NoFormError: a node that has no such form.
    """
    for node in graph.node:
        why = "" if is_custom(node) else no_form(node.op_type, opset, target)
        if why:
            raise NoFormError(node, why)

    def lowered(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
        for _, change in _steps(node.op_type, opset, target):
            replaced = None if change is None else change.back(node, context)
            if replaced is not None:
                return replaced
        if target < _NEGATIVE_AXES:
            _front_axes(node, context)
        return None

    operators = {node.op_type for node in graph.node if not is_custom(node)}
    rewrite(graph, dict.fromkeys(operators, lowered), opset=opset)
