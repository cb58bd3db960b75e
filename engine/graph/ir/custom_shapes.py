"""Types and shapes around nodes that ONNX's inference does not know."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx_ir as ir
from onnx_ir import serde

from engine.base.errors import GraphError
from engine.graph.ir.custom import CustomOperators, is_custom
from engine.graph.ir.spec import dtype_name, shape_of
from engine.graph.ir.usercode import Typed, inferred_types, node_words

__all__ = ["infer_custom"]

Infer = Callable[[onnx.ModelProto], onnx.ModelProto]


def infer_custom(
    proto: onnx.ModelProto, operators: CustomOperators, infer: Infer
) -> onnx.ModelProto:
    """Ask the classes of custom operators for what inference left open, and go on behind them.

    Args:
        proto: after ``infer``.
        operators: those that are registered; a node of another one stays as open as it is.
        infer: ONNX's inference, run again after every round of answers.

    Raises:
        GraphError: user code raised, or what it said does not fit; or ``infer`` raised.
    """
    while answers := _ask(proto, operators):
        _declare(proto, answers)
        proto = infer(proto)
    return proto


def _ask(proto: onnx.ModelProto, operators: CustomOperators) -> dict[str, Typed]:
    """Output -> its type, of every node whose inputs are known and whose outputs are not."""
    known = _known(proto.graph)
    answers: dict[str, Typed] = {}
    for node in proto.graph.node:
        if not is_custom(node) or all(name in known for name in node.output if name):
            continue
        operator = operators.get(node.op_type)
        if operator is None or operator.shape_infer is None:
            continue
        inputs = [known.get(name) if name else _LEFT_OUT for name in node.input]
        typed = [found for found in inputs if found is not None]
        if len(typed) < len(inputs):
            continue
        found = inferred_types(operator, node, [s for s, _ in typed], [d for _, d in typed])
        named = {n: t for n, t in zip(node.output, found, strict=True) if n}
        _compare(proto.graph, node, named)
        answers |= named
        known |= named
    return answers


_LEFT_OUT: Typed = ((), ir.DataType.UNDEFINED)


def _known(graph: onnx.GraphProto) -> dict[str, Typed]:
    """Tensors of which type and rank are known."""
    known: dict[str, Typed] = {}
    for tensor in graph.initializer:
        known[tensor.name] = (tuple(tensor.dims), ir.DataType(tensor.data_type))
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.elem_type and kind.HasField("shape"):
            shape = serde.deserialize_type_proto_for_shape(value.type)
            known[value.name] = (shape_of(shape), ir.DataType(kind.elem_type))
    return known


def _compare(graph: onnx.GraphProto, node: onnx.NodeProto, found: dict[str, Typed]) -> None:
    """Whether the types of the model's outputs are those that user code tells of them."""
    for value in graph.output:
        said = value.type.tensor_type.elem_type
        if value.name in found and said and found[value.name][1] != said:
            raise GraphError(
                f"shape_infer says that {node_words(node)} gives "
                f"{dtype_name(found[value.name][1])}; the model says "
                f"{dtype_name(ir.DataType(said))} of its output {value.name!r}.",
                cause="The class and the model do not belong together.",
                remedy="Correct shape_infer of the custom operator.",
            )


def _declare(proto: onnx.ModelProto, answers: dict[str, Typed]) -> None:
    infos = {value.name: value for value in (*proto.graph.value_info, *proto.graph.output)}
    for name, (shape, dtype) in answers.items():
        info = infos.get(name) or proto.graph.value_info.add(name=name)
        dims = [size if size >= 0 else None for size in shape]
        info.type.CopyFrom(onnx.helper.make_tensor_type_proto(int(dtype), dims))
