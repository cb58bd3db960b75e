"""Custom operators: calls of their code, and the types and shapes around their nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import serde

from engine.base.errors import EngineError, GraphError
from engine.base.paths import log_crash
from engine.base.text import sanitize
from engine.graph.ir.custom import CustomOperator, CustomOperators, is_custom
from engine.graph.ir.naming import STANDARD_DOMAINS
from engine.graph.ir.spec import dtype_name, shape_of

# Calls of a custom operator's code: its errors and its results are checked.
#
# An error in it is the user's, so that it must never look like one of this program: every message
# names the class, the node and what was raised; the traceback goes to a log file.

_MOST_DIMENSIONS = 32
_MOST_ELEMENTS = 1 << 40

Typed = tuple[tuple[int, ...], ir.DataType]


def node_label(node: onnx.NodeProto) -> str:
    """``node 'name' (operator)``."""
    return f"node {sanitize(node.name, 120)!r} ({sanitize(node.op_type, 80)})"


@contextmanager
def user_code_errors(code: str, what: str, kind: type[EngineError]) -> Iterator[None]:
    """Turn whatever the user's code raises into an error of ``kind``; ``sys.exit`` too."""
    try:
        yield
    except (Exception, SystemExit) as error:
        log = log_crash(error)
        raise kind(
            f"{what}: {type(error).__name__}: {sanitize(str(error), 300)}",
            cause=f"{code} raised it.",
            remedy="Correct it" + (f"; the traceback is in {log}." if log is not None else "."),
        ) from error


def operator_errors(
    operator: CustomOperator, node: onnx.NodeProto, method: str, kind: type[EngineError]
) -> AbstractContextManager[None]:
    """:func:`user_code_errors` of a method of a custom operator."""
    what = f"{operator.origin}: {method} failed at {node_label(node)}"
    return user_code_errors("The code of the custom operator", what, kind)


def inferred_types(
    operator: CustomOperator,
    node: onnx.NodeProto,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[ir.DataType],
) -> list[Typed]:
    """What ``shape_infer`` says of the outputs of one node.

    The user's code gets ``node`` as ``onnx.NodeProto``, ``in_shapes`` as lists of int (-1 for a
    size that depends on data) and ``in_dtypes`` as ``numpy.dtype``, one of each per input; an input
    that is left out is ``[]`` and None. The vendor does not say what its dtypes are; these compare
    equal to ``np.float32`` and to ``'float32'``.

    Returns:
        Shape and type per output.

    Raises:
        GraphError: it raised, or what it gave does not fit the node.
    """
    if operator.shape_infer is None:
        raise GraphError(
            f"{operator.origin} does not say what shapes {node_label(node)} gives.",
            cause="The operator is opaque: only its name is known.",
            remedy="Register a class with shape_infer and compute for it.",
        )
    input_shapes = [list(shape) for shape in shapes]
    kinds = [None if d is ir.DataType.UNDEFINED else np.dtype(d.numpy()) for d in dtypes]
    with operator_errors(operator, node, "shape_infer", GraphError):
        returned: Any = operator.shape_infer(_copy(node), input_shapes, kinds)
    answer = _Answer(operator, node)
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise answer.wrong(f"it gave {_shown(returned)}, not (out_shapes, out_dtypes)")
    out_shapes = answer.listed(returned[0], "shapes")
    out_dtypes = answer.listed(returned[1], "dtypes")
    open_sizes = any(-1 in shape for shape in shapes)
    return [
        (answer.shape(shape, index, open_sizes=open_sizes), answer.dtype(dtype, index))
        for index, (shape, dtype) in enumerate(zip(out_shapes, out_dtypes, strict=True))
    ]


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node that user code may keep or change."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def _shown(value: Any) -> str:
    return sanitize(repr(value), 100)


class _Answer:
    """Checks what ``shape_infer`` told of one node."""

    def __init__(self, operator: CustomOperator, node: onnx.NodeProto) -> None:
        self._operator = operator
        self._node = node

    def wrong(self, what: str) -> GraphError:
        """The error that says what does not fit."""
        return GraphError(
            f"{self._operator.origin}: shape_infer at {node_label(self._node)}: {what}.",
            cause="It must give a list of shapes and a list of dtypes, one of each per output.",
            remedy="Correct shape_infer of the custom operator.",
        )

    def listed(self, value: Any, what: str) -> list[Any]:
        """A list with an entry per output."""
        count = len(self._node.output)
        if not isinstance(value, list | tuple):
            raise self.wrong(f"its {what} are {_shown(value)}, no list")
        if len(value) != count:
            raise self.wrong(f"it gave {len(value)} {what} for {count} outputs")
        return list(value)

    def shape(self, value: Any, index: int, *, open_sizes: bool) -> tuple[int, ...]:
        """One shape; -1 only where an input has such a size."""
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple) or len(value) > _MOST_DIMENSIONS:
            raise self.wrong(f"shape {index} is {_shown(value)}, no list of sizes")
        count = 1
        for size in value:
            whole = isinstance(size, int | np.integer) and not isinstance(size, bool | np.bool_)
            if not whole or size < (-1 if open_sizes else 0):
                raise self.wrong(f"shape {index} is {_shown(value)}: {_shown(size)} is not a size")
            count *= max(int(size), 1)
        if count > _MOST_ELEMENTS:
            raise self.wrong(f"shape {index} is {_shown(value)}, too large for a tensor")
        return tuple(int(size) for size in value)

    def dtype(self, value: Any, index: int) -> ir.DataType:
        """One type: what numpy takes as one, or a number of ``onnx.TensorProto``."""
        try:
            if isinstance(value, int) and not isinstance(value, bool):
                dtype = ir.DataType(value)
            else:
                if value is None:  # float64 to numpy
                    raise TypeError
                dtype = ir.DataType.from_numpy(np.dtype(value))
        except (TypeError, ValueError) as error:
            raise self.wrong(f"dtype {index} is {_shown(value)}, no type of a tensor") from error
        if dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
            raise self.wrong(f"dtype {index} is {_shown(value)}, no type of numbers")
        return dtype


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
