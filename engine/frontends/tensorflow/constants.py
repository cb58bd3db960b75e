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
from engine.frontends.tensorflow.prepare import TF_ERRORS, NodeDef, imported
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
            node.Clear()
            node.name, node.op = tensor.op.name, "Const"
            node.attr["dtype"].type = tensor.dtype.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tensor.dtype))


def _full(tensor: str) -> str:
    node, number = tensor_of(tensor)
    return f"{node}:{number}"


# -------------------------------------------------------------------------------- lists of tensors


_MAX_ELEMENTS = 10_000


@dataclass(frozen=True)
class Items:
    """A list: tensors by place, None where nothing was written yet."""

    elements: tuple[str | None, ...]

    def put(self, place: int, tensor: str) -> Items:
        """A list that differs in one place."""
        return Items((*self.elements[:place], tensor, *self.elements[place + 1 :]))


Value = str | Items


class ListWriter:
    """Does what operators on lists do, and writes the few nodes that they need.

    Args:
        nodes: of the new graph, by name.
        constants: values of its tensors.
    """

    def __init__(self, nodes: dict[str, NodeDef], constants: Constants) -> None:
        self._nodes = nodes
        self._constants = constants

    def run(self, node: Any, inputs: Sequence[Value], name: str) -> list[Value]:
        """The outputs of an operator on lists.

        Args:
            node: as the source has it.
            inputs: its values in the new graph.
            name: for the node that takes its place, where there is one.

        Raises:
            UnsupportedOperatorError: inputs decide a place or a length, or nothing was written
                where it reads.
        """
        return LIST_OPERATORS[node.op](self, _Call(node, tuple(inputs), name))

    def integer(self, call: _Call, number: int) -> int:
        """The value of an input that must be a constant."""
        return int(self.integers(call, number).reshape(-1)[0])

    def integers(self, call: _Call, number: int) -> np.ndarray:
        """The values of an input that must be a constant."""
        tensor = call.inputs[number]
        value = self._constants.value(tensor) if isinstance(tensor, str) else None
        if value is None or value.size == 0 or value.size > _MAX_ELEMENTS:
            raise call.refusal("its place or length is decided by the data")
        return value

    def split(self, call: _Call, tensor: Value) -> Items:
        """A tensor as a list along its first axis."""
        if not isinstance(tensor, str):
            raise call.refusal("it reads a list as if it were a tensor")
        shape = self._constants.shape(tensor)
        if not shape or shape[0] is None or shape[0] > _MAX_ELEMENTS:
            raise call.refusal("the length of its tensor is not known")
        node = call.make("Unpack", [tensor])
        node.attr["num"].i = shape[0]
        node.attr["axis"].i = 0
        self._nodes[node.name] = node
        return Items(tuple(f"{node.name}:{i}" if i else node.name for i in range(shape[0])))

    def join(self, call: _Call, elements: Sequence[str | None]) -> list[Value]:
        """A list as a tensor along a new first axis."""
        if not elements or None in elements:
            raise call.refusal("it reads an element that was never written")
        node = call.make("Pack", [e for e in elements if e is not None])
        node.attr["N"].i = len(elements)
        node.attr["axis"].i = 0
        self._nodes[node.name] = node
        return [node.name]

    def number(self, call: _Call, value: int) -> list[Value]:
        """An int32 constant."""
        node = tf.compat.v1.NodeDef(name=call.name, op="Const")
        node.attr["dtype"].type = tf.int32.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int32))
        self._nodes[node.name] = node
        return [node.name]


@dataclass(frozen=True)
class _Call:
    """One run of an operator on lists."""

    node: Any
    inputs: tuple[Value, ...]
    name: str

    def items(self, number: int) -> Items:
        """An input that is a list."""
        operand = self.inputs[number] if number < len(self.inputs) else None
        if not isinstance(operand, Items):
            raise self.refusal("it reads a tensor as if it were a list")
        return operand

    def element(self, number: int, place: int) -> str:
        """An element that was written."""
        elements = self.items(number).elements
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

    def make(self, op: str, inputs: Sequence[str]) -> Any:
        """A node of the new graph with the elements' type."""
        node = tf.compat.v1.NodeDef(name=self.name, op=op, input=inputs)
        kinds = [
            self.node.attr[k].type for k in ("element_dtype", "dtype", "T") if k in self.node.attr
        ]
        node.attr["T"].type = kinds[0] if kinds else tf.float32.as_datatype_enum
        return node

    def refusal(self, why: str) -> UnsupportedOperatorError:
        return UnsupportedOperatorError(
            f"Node {sanitize(self.node.name)!r} is a {self.node.op}, and {why}.",
            cause="Loops are written out; that needs lists whose use constants decide.",
            remedy="Give fixed sizes in 'input_size_list', or cut the graph before the loop.",
        )


def _reserve(number: int) -> Callable[[ListWriter, _Call], list[Value]]:
    def run(writer: ListWriter, call: _Call) -> list[Value]:
        length = writer.integer(call, number)
        if not 0 <= length <= _MAX_ELEMENTS:
            raise SourceModelError(
                f"Node {sanitize(call.node.name)!r} makes a list of {length} tensors.",
                remedy="Give a shorter sequence in 'input_size_list'.",
            )
        empty = Items((None,) * length)
        # a TensorArray's first output is a handle, the second its content
        return [empty, empty]

    return run


def _write(items: int, place: int, value: int) -> Callable[[ListWriter, _Call], list[Value]]:
    def run(writer: ListWriter, call: _Call) -> list[Value]:
        where, elements = writer.integer(call, place), call.items(items)
        if not 0 <= where < len(elements.elements):
            raise call.refusal(f"it writes element {where} of {len(elements.elements)}")
        return [elements.put(where, call.tensor(value))]

    return run


def _read(items: int, place: int) -> Callable[[ListWriter, _Call], list[Value]]:
    return lambda writer, call: [call.element(items, writer.integer(call, place))]


def _length(items: int) -> Callable[[ListWriter, _Call], list[Value]]:
    return lambda writer, call: writer.number(call, len(call.items(items).elements))


def _scatter(writer: ListWriter, call: _Call) -> list[Value]:
    elements = call.items(3)
    parts = writer.split(call, call.inputs[2]).elements
    for place, part in zip(writer.integers(call, 1).reshape(-1), parts, strict=False):
        if part is None or not 0 <= place < len(elements.elements):
            raise call.refusal(f"it writes element {place} of {len(elements.elements)}")
        elements = elements.put(int(place), part)
    return [elements]


def _gather(writer: ListWriter, call: _Call) -> list[Value]:
    places = writer.integers(call, 1).reshape(-1)
    return writer.join(call, [call.element(2, int(place)) for place in places])


LIST_OPERATORS: dict[str, Callable[[ListWriter, _Call], list[Value]]] = {
    "EmptyTensorList": lambda _writer, _call: [Items(())],
    "TensorListReserve": _reserve(1),
    "TensorListFromTensor": lambda writer, call: [writer.split(call, call.inputs[0])],
    "TensorListGetItem": _read(0, 1),
    "TensorListSetItem": _write(0, 1, 2),
    "TensorListPushBack": lambda _writer, call: [Items((*call.items(0).elements, call.tensor(1)))],
    "TensorListStack": lambda writer, call: writer.join(call, call.items(0).elements),
    "TensorListLength": _length(0),
    "TensorArrayV3": _reserve(0),
    "TensorArrayReadV3": _read(2, 1),
    "TensorArrayWriteV3": _write(3, 1, 2),
    "TensorArrayScatterV3": _scatter,
    "TensorArrayGatherV3": _gather,
    "TensorArraySizeV3": _length(1),
}
"""Operator -> what it does; a TensorArray is its last input, the flow that orders its use."""
