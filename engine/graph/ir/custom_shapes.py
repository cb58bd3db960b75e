"""Types and shapes around nodes that ONNX's inference does not know."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx_ir as ir
from onnx_ir import serde

from engine.base.errors import GraphError
from engine.graph.ir.constants import STANDARD_DOMAINS
from engine.graph.ir.custom import CustomOperators, is_custom
from engine.graph.ir.custom_op_calls import Typed, inferred_types, node_label
from engine.graph.ir.spec import dtype_name, shape_of

Infer = Callable[[onnx.ModelProto], onnx.ModelProto]


def infer_custom(
    proto: onnx.ModelProto, operators: CustomOperators, infer: Infer
) -> onnx.ModelProto:
    """Infer a model with custom operators, asking their classes for what they give.

    ONNX's inference passes over every error of a model in which it does not know an operator. So it
    gets the nodes before any custom one that is open; then the classes of those are asked, and it
    gets the next ones, with what custom nodes give as inputs.

    Args:
        proto: stays as it is.
        operators: those that are registered; behind a node of another one, whose outputs the model
            does not declare either, all stays open.
        infer: ONNX's inference.

    Raises:
        GraphError: user code raised, or what it said does not fit; or ``infer`` raised.
    """
    work = onnx.ModelProto()
    work.CopyFrom(proto)
    asked: set[tuple[str, ...]] = set()
    while True:
        _take(work.graph, infer(_certain(work)).graph)
        answers = _ask(work.graph, operators, asked)
        if not answers:
            return work
        _declare(work.graph, answers)


def _certain(proto: onnx.ModelProto) -> onnx.ModelProto:
    """ONNX's own nodes that do not depend on an open output of a custom one."""
    known = _known(proto.graph)
    part = onnx.ModelProto(ir_version=proto.ir_version)
    part.opset_import.extend(e for e in proto.opset_import if e.domain in STANDARD_DOMAINS)
    graph = part.graph
    graph.name = proto.graph.name
    graph.input.extend(proto.graph.input)
    graph.initializer.extend(proto.graph.initializer)
    graph.value_info.extend(proto.graph.value_info)
    infos = {value.name: value for value in (*proto.graph.value_info, *proto.graph.output)}
    left_out: set[str] = set()
    for node in proto.graph.node:
        if is_custom(node):
            declared = [name for name in node.output if name in known]
            graph.input.extend(infos[name] for name in declared)
            left_out.update(name for name in node.output if name not in known)
        elif left_out.isdisjoint(node.input):
            graph.node.append(node)
        else:
            left_out.update(node.output)
    graph.output.extend(v for v in proto.graph.output if v.name not in left_out)
    return part


def _take(graph: onnx.GraphProto, inferred: onnx.GraphProto) -> None:
    """Note what was inferred of a part."""
    infos = {value.name: value for value in (*graph.value_info, *graph.output)}
    for value in (*inferred.value_info, *inferred.output):
        (infos.get(value.name) or graph.value_info.add(name=value.name)).type.CopyFrom(value.type)


def _ask(
    graph: onnx.GraphProto, operators: CustomOperators, asked: set[tuple[str, ...]]
) -> dict[str, Typed]:
    """Output -> its type, of every node whose inputs are known and whose outputs are open.

    Args:
        graph: what is known so far.
        operators: the classes to ask.
        asked: outputs of the nodes that were asked; grows.
    """
    known = _known(graph)
    answers: dict[str, Typed] = {}
    for node in graph.node:
        outputs = tuple(node.output)
        if not is_custom(node) or outputs in asked or all(map(_is_closed(known), outputs)):
            continue
        operator = operators.get(node.op_type)
        if operator is None or operator.shape_infer is None:
            continue
        inputs = [known.get(name) if name else _LEFT_OUT for name in node.input]
        typed = [types for types in inputs if types is not None]
        if len(typed) < len(inputs):
            continue
        types = inferred_types(operator, node, [s for s, _ in typed], [d for _, d in typed])
        named = {n: t for n, t in zip(outputs, types, strict=True) if n}
        _compare(graph, node, named)
        asked.add(outputs)
        answers |= named
        known |= named
    return answers


def _is_closed(known: dict[str, Typed]) -> Callable[[str], bool]:
    """Whether nothing of a tensor is open, or there is no tensor."""
    return lambda name: not name or (name in known and -1 not in known[name][0])


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


def _compare(graph: onnx.GraphProto, node: onnx.NodeProto, types: dict[str, Typed]) -> None:
    """Whether the types of the model's outputs are those that user code tells of them."""
    for value in graph.output:
        said = value.type.tensor_type.elem_type
        if value.name in types and said and types[value.name][1] != said:
            raise GraphError(
                f"shape_infer says that {node_label(node)} gives "
                f"{dtype_name(types[value.name][1])}; the model says "
                f"{dtype_name(ir.DataType(said))} of its output {value.name!r}.",
                cause="The class and the model do not belong together.",
                remedy="Correct shape_infer of the custom operator.",
            )


def _declare(graph: onnx.GraphProto, answers: dict[str, Typed]) -> None:
    infos = {value.name: value for value in (*graph.value_info, *graph.output)}
    for name, (shape, dtype) in answers.items():
        info = infos.get(name) or graph.value_info.add(name=name)
        dims = [size if size >= 0 else None for size in shape]
        info.type.CopyFrom(onnx.helper.make_tensor_type_proto(int(dtype), dims))
