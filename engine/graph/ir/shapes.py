"""Types and shapes of all values, by ONNX's own inference."""

from __future__ import annotations

import re

import onnx
import onnx_ir as ir
from onnx_ir import serde

from engine.base.errors import GraphError
from engine.base.text import sanitize
from engine.graph.ir.constants import OPSET, STANDARD_DOMAINS
from engine.graph.ir.custom import CustomOperators, custom_ops_in, is_custom
from engine.graph.ir.custom_shapes import infer_custom
from engine.graph.ir.dataflow import complete_shapes, has_open_shapes
from engine.graph.ir.graph import Graph
from engine.graph.ir.propagation import infer_bounded
from engine.graph.ir.weightless import weightless_proto

__all__ = ["infer_model", "infer_proto", "infer_shapes"]


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
    found = _NODE.search(text)
    if not found:
        return sanitize(text.split("\n")[0], 400)
    op, name, rest = found.groups()
    where = f"node {name!r} ({op})" if name else f"an operator {op}"
    detail = re.sub(r"\[\w+\]\s*", "", rest.split("\n")[0])
    detail = re.sub(r"\(op_type.*?\):?", "", detail)
    return sanitize(f"{where}: {detail.strip()}", 400)
