"""In the child, while loops are written out: values that no input decides, and lists of tensors.

A list (TensorList, TensorArray) is known element by element, so that reading an element gives the
very tensor that was written (tensorflow/core/ops/list_ops.cc and data_flow_ops.cc).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.ends import reached
from engine.frontends.tensorflow.graphdef import tensor_of
from engine.frontends.tensorflow.prepare import TF_ERRORS, NodeDef, constant, imported
from engine.graph.ir.folding import TooLargeError, fold

# what loop counters and their conditions are made of; anything else is asked of TensorFlow
_FOLDED = {
    "AddV2": "Add",
    "LessEqual": "LessOrEqual",
    "GreaterEqual": "GreaterOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalNot": "Not",
    "Maximum": "Max",
    "Minimum": "Min",
    **{op: op for op in ("Add", "Equal", "Greater", "Identity", "Less", "Mul", "NotEqual", "Sub")},
}
"""Operator -> its name in :mod:`engine.graph.ir.folding`."""


class Constants:
    """Values and shapes of tensors of a graph that grows.

    Args:
        nodes: the graph's nodes by name; others may be added later.
        versions: of the GraphDef.
    """

    def __init__(self, nodes: dict[str, NodeDef], versions: Any) -> None:
        self._nodes = nodes
        self._versions = versions
        self._known: dict[str, np.ndarray | None] = {}

    def value(self, tensor: str) -> np.ndarray | None:
        """The value of a tensor, None where inputs decide it.

        Values are asked for in the order of execution, so what an operator reads is known.
        """
        if tensor not in self._known:
            self._known[tensor] = self._value(tensor)
        return self._known[tensor]

    def _value(self, tensor: str) -> np.ndarray | None:
        name, number = tensor_of(tensor)
        node = self._nodes[name]
        if node.op == "Const":
            return np.asarray(tf.make_ndarray(node.attr["value"].tensor))
        if node.op == "Placeholder":
            return None
        if node.op in _FOLDED and number == 0:
            inputs = [self.value(i) for i in node.input]
            if all(value is not None for value in inputs):
                with contextlib.suppress(TooLargeError):
                    return fold(_FOLDED[node.op], inputs)
        return self._asked(tensor)

    def shape(self, tensor: str) -> list[int | None] | None:
        """What TensorFlow infers of a shape, None for an unknown rank."""
        dims = imported(self._part(tensor)).get_tensor_by_name(_full(tensor)).shape
        return None if dims.rank is None else dims.as_list()

    def _asked(self, tensor: str) -> np.ndarray | None:
        part = self._part(tensor)
        graph = imported(part)
        _fix_shapes(part, graph)
        needed = tf.compat.v1.graph_util.extract_sub_graph(part, [tensor_of(tensor)[0]])
        if any(node.op == "Placeholder" for node in needed.node):
            return None
        try:
            with tf.compat.v1.Session(graph=imported(needed)) as session:
                return np.asarray(session.run(_full(tensor)))
        except TF_ERRORS:
            return None

    def _part(self, tensor: str) -> Any:
        """What a tensor needs of the graph."""
        part = tf.compat.v1.GraphDef()
        part.versions.CopyFrom(self._versions)

        def copied(name: str) -> list[str]:
            part.node.add().CopyFrom(self._nodes[name])
            return [tensor_of(i)[0] for i in self._nodes[name].input]

        reached([tensor_of(tensor)[0]], copied)
        return part


def _fix_shapes(part: Any, graph: Any) -> None:
    """Make constants of shapes that are known although inputs decide what has them."""
    for node in part.node:
        if node.op not in ("Shape", "Size", "Rank"):
            continue
        tensor = graph.get_tensor_by_name(f"{node.name}:0")
        with graph.as_default():
            value = tf.get_static_value(tensor)
        if value is not None:
            node.CopyFrom(constant(tensor.op.name, value, tensor.dtype))


def _full(tensor: str) -> str:
    node, number = tensor_of(tensor)
    return f"{node}:{number}"


# -------------------------------------------------------------------------------- lists of tensors


_MAX_ELEMENTS = 10_000


Items = tuple[str | None, ...]
"""A list: tensors by place, None where nothing was written yet."""

Value = str | Items


@dataclass(frozen=True)
class ListCall:
    """One run of an operator on lists, which may write the few nodes that it needs.

    Attributes:
        nodes: of the new graph, by name.
        constants: values of its tensors.
        node: as the source has it.
        inputs: its values in the new graph.
        name: for the node that takes its place, where there is one.
    """

    nodes: dict[str, NodeDef]
    constants: Constants
    node: NodeDef
    inputs: tuple[Value, ...]
    name: str

    def run(self) -> list[Value]:
        """The outputs.

        Raises:
            UnsupportedOperatorError: inputs decide a place or a length, or nothing was written
                where it reads.
        """
        return LIST_OPERATORS[self.node.op](self)

    def integer(self, number: int) -> int:
        """The value of an input that must be a constant."""
        return int(self.integers(number).reshape(-1)[0])

    def integers(self, number: int) -> np.ndarray:
        """The values of an input that must be a constant."""
        tensor = self.inputs[number]
        value = self.constants.value(tensor) if isinstance(tensor, str) else None
        if value is None or value.size == 0 or value.size > _MAX_ELEMENTS:
            raise self.refusal("its place or length is decided by the data")
        return value

    def items(self, number: int) -> Items:
        """An input that is a list."""
        operand = self.inputs[number] if number < len(self.inputs) else None
        if not isinstance(operand, tuple):
            raise self.refusal("it reads a tensor as if it were a list")
        return operand

    def element(self, number: int, place: int) -> str:
        """An element that was written."""
        elements = self.items(number)
        value = elements[place] if 0 <= place < len(elements) else None
        if value is None:
            raise self.refusal(f"it reads element {place}, which was never written")
        return value

    def tensor(self, number: int) -> str:
        """An input that is a tensor."""
        operand = self.inputs[number]
        if not isinstance(operand, str):
            raise self.refusal("it puts a list into a list")
        return operand

    def split(self, tensor: Value) -> Items:
        """A tensor as a list along its first axis."""
        if not isinstance(tensor, str):
            raise self.refusal("it reads a list as if it were a tensor")
        shape = self.constants.shape(tensor)
        if not shape or shape[0] is None or shape[0] > _MAX_ELEMENTS:
            raise self.refusal("the length of its tensor is not known")
        name = self._write("Unpack", [tensor], num=shape[0], axis=0)
        return tuple(f"{name}:{i}" if i else name for i in range(shape[0]))

    def join(self, elements: Sequence[str | None]) -> list[Value]:
        """A list as a tensor along a new first axis."""
        if not elements or None in elements:
            raise self.refusal("it reads an element that was never written")
        return [
            self._write("Pack", [e for e in elements if e is not None], N=len(elements), axis=0)
        ]

    def number(self, value: int) -> list[Value]:
        """An int32 constant."""
        self.nodes[self.name] = constant(self.name, value, tf.int32)
        return [self.name]

    def _write(self, op: str, inputs: Sequence[str], **numbers: int) -> str:
        """A node of the new graph with the elements' type; its name."""
        node = tf.compat.v1.NodeDef(name=self.name, op=op, input=inputs)
        kinds = [
            self.node.attr[k].type for k in ("element_dtype", "dtype", "T") if k in self.node.attr
        ]
        node.attr["T"].type = kinds[0] if kinds else tf.float32.as_datatype_enum
        for name, number in numbers.items():
            node.attr[name].i = number
        self.nodes[node.name] = node
        return self.name

    def refusal(self, why: str) -> UnsupportedOperatorError:
        """The error for a use of lists that constants do not decide."""
        return UnsupportedOperatorError(
            f"Node {sanitize(self.node.name)!r} is a {self.node.op}, and {why}.",
            cause="Loops are written out; that needs lists whose use constants decide.",
            remedy="Give fixed sizes in 'input_size_list', or cut the graph before the loop.",
        )


def put(elements: Items, place: int, tensor: str) -> Items:
    """A list that differs in one place."""
    return (*elements[:place], tensor, *elements[place + 1 :])


_ListOperator = Callable[[ListCall], list[Value]]


def _reserve(number: int) -> _ListOperator:
    def run(call: ListCall) -> list[Value]:
        length = call.integer(number)
        if not 0 <= length <= _MAX_ELEMENTS:
            raise SourceModelError(
                f"Node {sanitize(call.node.name)!r} makes a list of {length} tensors.",
                remedy="Give a shorter sequence in 'input_size_list'.",
            )
        empty: Items = (None,) * length
        # a TensorArray's first output is a handle, the second its content
        return [empty, empty]

    return run


def _write(items: int, place: int, value: int) -> _ListOperator:
    def run(call: ListCall) -> list[Value]:
        where, elements = call.integer(place), call.items(items)
        if not 0 <= where < len(elements):
            raise call.refusal(f"it writes element {where} of {len(elements)}")
        return [put(elements, where, call.tensor(value))]

    return run


def _read(items: int, place: int) -> _ListOperator:
    return lambda call: [call.element(items, call.integer(place))]


def _length(items: int) -> _ListOperator:
    return lambda call: call.number(len(call.items(items)))


def _scatter(call: ListCall) -> list[Value]:
    elements = call.items(3)
    parts = call.split(call.inputs[2])
    for place, part in zip(call.integers(1).reshape(-1), parts, strict=False):
        if part is None or not 0 <= place < len(elements):
            raise call.refusal(f"it writes element {place} of {len(elements)}")
        elements = put(elements, int(place), part)
    return [elements]


def _gather(call: ListCall) -> list[Value]:
    return call.join([call.element(2, int(place)) for place in call.integers(1).reshape(-1)])


LIST_OPERATORS: dict[str, _ListOperator] = {
    "EmptyTensorList": lambda _call: [()],
    "TensorListReserve": _reserve(1),
    "TensorListFromTensor": lambda call: [call.split(call.inputs[0])],
    "TensorListGetItem": _read(0, 1),
    "TensorListSetItem": _write(0, 1, 2),
    "TensorListPushBack": lambda call: [(*call.items(0), call.tensor(1))],
    "TensorListStack": lambda call: call.join(call.items(0)),
    "TensorListLength": _length(0),
    "TensorArrayV3": _reserve(0),
    "TensorArrayReadV3": _read(2, 1),
    "TensorArrayWriteV3": _write(3, 1, 2),
    "TensorArrayScatterV3": _scatter,
    "TensorArrayGatherV3": _gather,
    "TensorArraySizeV3": _length(1),
}
"""Operator -> what it does; a TensorArray is its last input, the flow that orders its use."""
