"""Types and shapes of all values, by ONNX's own inference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

import onnx
import onnx_ir as ir
from onnx_ir import serde

from engine.base.errors import GraphError
from engine.base.text import sanitize
from engine.graph.ir.custom import CustomOperators, custom_ops_in, is_custom
from engine.graph.ir.custom_shapes import infer_custom
from engine.graph.ir.dataflow import complete_shapes, has_open_shapes
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import OPSET, STANDARD_DOMAINS
from engine.graph.ir.weightless import weightless_proto

# ONNX's shape inference, with constants carried through a graph where that is needed and bounded.
#
# Its data propagation holds the sizes that a graph computes (Shape, Gather, Concat ...), an object
# an element, and reads every tensor of one axis so, also one of a billion elements. A chain of
# Concat that each read their input twice makes as many from a file of 1 KB. So it is done only
# where shapes stay open without it, and elements are counted first; real models carry some dozens.

MAX_CARRIED = 1 << 18
"""Elements of all carried tensors together (about 80 bytes each)."""

_MAX_RANK = 64

# Carried through Add, Sub and Mul, tensors are flat lists to ONNX: a column and a row, whose
# broadcast makes a table, are an error to it (onnx 1.23).
_ONLY_CARRIED = "broadcasting: ("


def infer_bounded(proto: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """``onnx.shape_inference.infer_shapes``, with data propagation where that is of use.

    Args:
        proto: the model.
        strict: whether types are checked and errors raised, rather than passed over.

    Raises:
        InferenceError, RuntimeError, ValueError: as ONNX raises them.
    """

    def infer(carry: bool) -> onnx.ModelProto:
        return onnx.shape_inference.infer_shapes(
            proto, check_type=strict, strict_mode=strict, data_prop=carry
        )

    inferred = infer(False)
    graph = inferred.graph
    typed = {value.name for value in (*graph.value_info, *graph.output)}
    whole = all(name in typed for node in graph.node for name in node.output if name)
    if (whole and not has_open_shapes(graph)) or not carries_little(inferred):
        return inferred
    try:
        return infer(True)
    except onnx.shape_inference.InferenceError as error:
        if _ONLY_CARRIED in str(error):
            return inferred
        raise


def carries_little(proto: onnx.ModelProto) -> bool:
    """Whether inference with data propagation holds few elements; one walk over the nodes.

    Counted is the worst case: every operator carries what it reads, Concat all of it.

    Args:
        proto: after inference without data propagation.
    """
    counts: dict[str, int] = {}
    several: set[str] = set()  # tensors of two axes and more: these are never carried
    for tensor in proto.graph.initializer:
        if len(tensor.dims) < 2:
            counts[tensor.name] = prod(tensor.dims)
    graph = proto.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) > 1:
            several.add(value.name)
        elif dims and dims[0].dim_value > 0:
            counts.setdefault(value.name, dims[0].dim_value)
    carried = 0
    read: set[str] = set()
    for node in all_nodes(proto.graph):
        outputs = [name for name in node.output if name and name not in several]
        count = _count(node, counts) if outputs else None
        if count is None:
            continue
        new = {name for name in node.input if name in counts and name not in read}
        read |= new
        carried += sum(counts[name] for name in new)
        for name in outputs:
            counts[name] = max(count, counts.get(name, 0))
        if carried > MAX_CARRIED:
            return False
    return True


def all_nodes(holder: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Nodes behind those of the graphs inside them; protobuf bounds how deep those are."""
    for node in holder.node:
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else []
            for part in (*inner, *attribute.graphs):
                yield from all_nodes(part)
        yield node


def _count(node: onnx.NodeProto, counts: dict[str, int]) -> int | None:
    """Elements that a node's output may carry; None where it carries nothing."""
    if node.op_type in ("Shape", "Size"):
        return _MAX_RANK
    if node.op_type == "Constant":
        return max((_literal(attribute) for attribute in node.attribute), default=0)
    known = [counts[name] for name in node.input if name in counts]
    if node.op_type == "Concat":
        return sum(known) if len(known) == len(node.input) else None
    return max(known, default=None)


def _literal(attribute: onnx.AttributeProto) -> int:
    if attribute.HasField("t"):
        return prod(attribute.t.dims) if len(attribute.t.dims) < 2 else 0
    return max(1, len(attribute.ints), len(attribute.floats))


def infer_shapes(graph: Graph, *, refresh: bool = False) -> Graph:
    """A copy of the graph whose values are typed and shaped as far as ONNX can tell.

    Args:
        graph: stays as it is.
        refresh: forget the shapes of all inner values first, for after a rewrite that changed them.

    Raises:
        GraphError: an operator does not accept the types or shapes of its inputs; names the node.
    """
    copy = graph.copy()
    infer_model(copy.model, refresh=refresh)
    return Graph(copy.model)


def with_types(graph: Graph) -> Graph:
    """The graph with the types of all tensors: a file need not say those of inner ones."""
    named = (value for node in graph.nodes for value in node.outputs if value.name)
    return infer_shapes(graph) if any(value.dtype is None for value in named) else graph


def infer_model(model: ir.Model, *, refresh: bool = False) -> None:
    """:func:`infer_shapes` in place, for passes that own their model."""
    operators = custom_ops_in(model)
    if refresh:
        for node in model.graph:
            if is_custom(node) and not _can_tell(operators, node.op_type):
                continue  # nobody could say them again
            for value in node.outputs:
                value.shape = None
                if not value.is_graph_output():
                    value.type = None
    inferred = infer_proto(weightless_proto(model), operators).graph
    known = {info.name: info for info in inferred.value_info}
    known.update((info.name, info) for info in inferred.output)
    for node in model.graph:
        for value in node.outputs:
            info = known.get(value.name or "")
            if info is None:
                continue
            value.type = serde.deserialize_type_proto_for_type(info.type) or value.type
            shape = serde.deserialize_type_proto_for_shape(info.type)
            value.shape = shape if shape is not None else value.shape


def _can_tell(operators: CustomOperators, op_type: str) -> bool:
    operator = operators.get(op_type)
    return operator is not None and operator.shape_infer is not None


def infer_proto(
    proto: onnx.ModelProto, operators: CustomOperators | None = None
) -> onnx.ModelProto:
    """ONNX shape inference with types checked and constants propagated, on a protobuf model.

    Args:
        proto: the model.
        operators: classes of custom operators, asked for what their nodes give, in the nodes'
            order, where the model does not say it.

    Raises:
        GraphError: an operator does not accept the types or shapes of its inputs, or the code of a
            custom operator failed; names the node.
    """
    # nearly every model imports one domain alone: its nodes need not be looked at
    if len(proto.opset_import) > 1 and any(is_custom(node) for node in proto.graph.node):
        return infer_custom(proto, operators or CustomOperators(), _infer_standard)
    return _infer_standard(proto)


def _infer_standard(proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        inferred = infer_bounded(proto, strict=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise GraphError(
            f"Shapes do not fit together: {inference_message(str(error))}",
            cause="A tensor has a shape or type that its operator does not take.",
            remedy="Check the sizes given for the inputs, then how the model was exported.",
        ) from error
    pinned = all(
        entry.version == OPSET
        for entry in inferred.opset_import
        if entry.domain in STANDARD_DOMAINS
    )
    if pinned and has_open_shapes(inferred.graph):
        complete_shapes(inferred)
    return inferred


_NODE = re.compile(r"\(op_type:\s*(\S+?)(?:,\s*node name:\s*(.*?))?\):\s*(.*)", re.DOTALL)


def inference_message(text: str) -> str:
    """One readable line from ONNX's: the node, its operator, what does not fit."""
    match = _NODE.search(text)
    if not match:
        return sanitize(text.split("\n")[0], 400)
    op, name, rest = match.groups()
    where = f"node {name!r} ({op})" if name else f"an operator {op}"
    detail = re.sub(r"\[\w+\]\s*", "", rest.split("\n")[0])
    detail = re.sub(r"\(op_type.*?\):?", "", detail)
    return sanitize(f"{where}: {detail.strip()}", 400)
