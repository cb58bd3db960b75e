"""A frozen TensorFlow graph (GraphDef), read without TensorFlow.

Field numbers are those of tensorflow/core/framework: graph.proto, node_def.proto, attr_value.proto,
tensor.proto, tensor_shape.proto, types.proto and function.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import SourceModelError
from engine.base.files import read_bounded
from engine.base.text import printable

__all__ = ["GraphFile", "Node", "read_graph", "tensor_of"]

# protobuf itself reads no message above 2 GiB
_MAX_BYTES = (1 << 31) - 1
_MAX_NODES = 500_000
_MAX_RANK = 64
_MAX_LIST = 64
_MAX_TEXT = 200

DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    20: "resource",
    21: "variant",
    22: "uint32",
    23: "uint64",
}
"""Numbers of types.proto, DataType; other ones are quantized and reference types."""

Wire = tuple[int, int, int, int]  # field, wire type, where its payload starts and ends


@dataclass(frozen=True)
class Node:
    """A node of the graph.

    Attributes:
        inputs: ``node``, ``node:1`` or ``^node`` (order of execution only).
        attributes: name -> what it says, as text.
        dtype: of the first output, where an attribute tells it.
        shape: what the attribute ``shape`` or a constant says, -1 for what is open; None unknown.
        bytes: of the constant that it holds.
        outputs: how many tensors it has, where an attribute tells it, else 1.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: dict[str, str] = field(default_factory=dict)
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    bytes: int = 0
    outputs: int = 1

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the nodes whose values it reads."""
        return tuple(tensor_of(name)[0] for name in self.inputs if not name.startswith("^"))

    @property
    def after(self) -> tuple[str, ...]:
        """Names of the nodes that only have to run before it."""
        return tuple(name[1:] for name in self.inputs if name.startswith("^"))


@dataclass(frozen=True)
class GraphFile:
    """A whole file.

    Attributes:
        nodes: by name, in the file's order.
        producer: the version of GraphDef that wrote it; 0 where it does not say.
    """

    nodes: dict[str, Node]
    producer: int
    _data: memoryview
    _functions: dict[str, tuple[int, int]]

    @property
    def functions(self) -> frozenset[str]:
        """Names of the functions in its library."""
        return frozenset(self._functions)

    def body(self, function: str) -> tuple[Node, ...]:
        """The nodes of a function, read when they are asked for; libraries hold training, too.

        Raises:
            ValueError: its bytes are damaged.
        """
        start, end = self._functions[function]
        return tuple(
            _node(self._data, first, last)
            for number, wire, first, last in _fields(self._data, start, end)
            if (number, wire) == (3, 2)
        )


def tensor_of(name: str) -> tuple[str, int]:
    """Node and output number of a tensor name: ``x`` and ``x:0`` are the same."""
    node, colon, number = name.rpartition(":")
    return (node, int(number)) if colon and number.isdecimal() and node else (name, 0)


def read_graph(path: Path) -> GraphFile:
    """Read the structure of a frozen graph; weights are passed over.

    Raises:
        SourceModelError: missing, unreadable, larger than 2 GiB, or no GraphDef.
    """
    data = read_bounded(path, _MAX_BYTES, "a TensorFlow graph")
    try:
        return _graph(memoryview(data))
    except (ValueError, IndexError, struct.error) as error:
        raise SourceModelError(
            f"{printable(str(path))} is no whole TensorFlow graph: {printable(str(error), 200)}.",
            cause="The download or the export was interrupted, or the file was changed.",
            remedy="Get the file again, or freeze the model anew.",
        ) from error


def _graph(data: memoryview) -> GraphFile:
    nodes: dict[str, Node] = {}
    functions: dict[str, tuple[int, int]] = {}
    producer = 0
    for number, wire, start, end in _fields(data, 0, len(data)):
        if number == 1 and wire == 2:
            node = _node(data, start, end)
            if not node.name or not node.op:
                raise ValueError("a node has no name or no operator")
            if node.name in nodes:
                raise ValueError(f"two nodes are called {printable(node.name, 80)!r}")
            if len(nodes) >= _MAX_NODES:
                raise ValueError(f"it has more than {_MAX_NODES} nodes")
            nodes[node.name] = node
        elif number == 2 and wire == 2:
            functions.update(_library(data, start, end))
        elif number == 3 and wire == 0:
            producer = producer or start
        elif number == 4 and wire == 2:
            producer = next((s for n, w, s, _ in _fields(data, start, end) if (n, w) == (1, 0)), 0)
    if not nodes:
        raise ValueError("it has no nodes")
    return GraphFile(nodes, producer, data, functions)


def _fields(data: memoryview, start: int, end: int) -> Iterator[Wire]:
    """The fields of a message. A number (wire type 0) stands in the place of its start."""
    position = start
    while position < end:
        key, position = _varint(data, position, end)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(data, position, end)
            yield number, wire, value, position
            continue
        if wire == 2:
            length, position = _varint(data, position, end)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a field has the wire type {wire}")
        if number == 0 or length > end - position:
            raise ValueError("a field is longer than the message that holds it")
        yield number, wire, position, position + length
        position += length


def _varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("a number is cut or too long")


def _text(data: memoryview, start: int, end: int) -> str:
    return bytes(data[start:end]).decode("utf-8")


def _name(data: memoryview, start: int, end: int) -> str:
    """Field 1 of a message, which is its name; empty where it has none."""
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (1, 2):
            return _text(data, first, last)
    return ""


def _signed(value: int) -> int:
    """An int64 as protobuf writes it: negative ones are 64 bits long."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _node(data: memoryview, start: int, end: int) -> Node:
    name = op = ""
    inputs: list[str] = []
    attributes: dict[str, _Attribute] = {}
    for number, wire, first, last in _fields(data, start, end):
        if wire != 2:
            continue
        if number == 1:
            name = _text(data, first, last)
        elif number == 2:
            op = _text(data, first, last)
        elif number == 3:
            inputs.append(_text(data, first, last))
        elif number == 5:
            key, value = _entry(data, first, last)
            attributes[key] = value
    kind = next((attributes[k] for k in ("dtype", "DstT", "T") if k in attributes), None)
    value = attributes.get("value", _NOTHING)
    shape = value if value.has_shape else attributes.get("shape", _NOTHING)
    outputs = max((attributes[k].number for k in _COUNTS if k in attributes), default=1)
    if op in ("IdentityN", "IteratorGetNext"):
        outputs = max(outputs, *(attributes[k].count for k in _LISTS if k in attributes), 1)
    return Node(
        name,
        op,
        tuple(inputs),
        {key: one.text for key, one in attributes.items() if one.text and key[:1] != "_"},
        dtype=kind.text if kind is not None else "",
        shape=shape.shape if shape.has_shape else None,
        bytes=value.bytes,
        outputs=min(max(outputs, 1), 1 << 16),
    )


_COUNTS = ("num_split", "num", "num_outputs")
_LISTS = ("T", "output_types")


@dataclass
class _Attribute:
    """What one attribute says; ``shape`` counts only where ``has_shape``."""

    text: str = ""
    shape: tuple[int, ...] | None = None
    has_shape: bool = False
    bytes: int = 0
    number: int = 1
    count: int = 0


_NOTHING = _Attribute()


def _entry(data: memoryview, start: int, end: int) -> tuple[str, _Attribute]:
    key, value = "", _Attribute()
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (1, 2):
            key = _text(data, first, last)
        elif (number, wire) == (2, 2):
            value = _attribute(data, first, last)
    return key, value


def _attribute(data: memoryview, start: int, end: int) -> _Attribute:
    found = _Attribute()
    for number, wire, first, last in _fields(data, start, end):
        if number == 1 and wire == 2:
            items = _list(data, first, last)
            found.count = len(items)
            shown = items[:_MAX_LIST] + (["…"] if len(items) > _MAX_LIST else [])
            found.text = f"[{', '.join(shown)}]"
        elif number == 7 and wire == 2:
            found.shape, found.has_shape = _shape(data, first, last), True
            found.text = "?" if found.shape is None else str(list(found.shape))
        elif number == 8 and wire == 2:
            _tensor(data, first, last, found)
        elif number == 10 and wire == 2:
            found.text = next(
                (
                    _text(data, a, b)
                    for n, w, a, b in _fields(data, first, last)
                    if (n, w) == (1, 2)
                ),
                "",
            )
        else:
            found.text = _plain(data, number, wire, first, last)
            if number == 3:
                found.number = _signed(first)
    return found


def _plain(data: memoryview, number: int, wire: int, first: int, last: int) -> str:
    """A text, number or type of AttrValue (fields 2 to 6)."""
    if number == 2 and wire == 2:
        return printable(bytes(data[first:last][:_MAX_TEXT]).decode("utf-8", "replace"), _MAX_TEXT)
    if number == 3 and wire == 0:
        return str(_signed(first))
    if number == 4 and wire == 5:
        return f"{struct.unpack_from('<f', data, first)[0]:g}"
    if number == 5 and wire == 0:
        return "true" if first else "false"
    if number == 6 and wire == 0:
        return DTYPES.get(first, f"type {first}")
    return ""


def _list(data: memoryview, start: int, end: int) -> list[str]:
    """AttrValue.ListValue: numbers may be packed."""
    items: list[str] = []
    for number, wire, first, last in _fields(data, start, end):
        if number in (3, 5, 6) and wire == 2:
            position = first
            while position < last:
                value, position = _varint(data, position, last)
                items.append(_plain(data, number, 0, value, 0))
        elif number == 4 and wire == 2:
            items.extend(f"{v[0]:g}" for v in struct.iter_unpack("<f", data[first:last]))
        elif number == 7 and wire == 2:
            items.append(str(_shape(data, first, last)))
        else:
            items.append(_plain(data, number, wire, first, last))
    return items


def _shape(data: memoryview, start: int, end: int) -> tuple[int, ...] | None:
    sizes: list[int] = []
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (3, 0) and first:
            return None
        if (number, wire) == (2, 2):
            size = next((s for n, w, s, _ in _fields(data, first, last) if (n, w) == (1, 0)), 0)
            sizes.append(max(_signed(size), -1))
    if len(sizes) > _MAX_RANK:
        raise ValueError(f"a shape has {len(sizes)} axes")
    return tuple(sizes)


def _tensor(data: memoryview, start: int, end: int, found: _Attribute) -> None:
    """TensorProto: its type, its shape and how long its data are."""
    dtype = ""
    shape: tuple[int, ...] = ()
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (1, 0):
            dtype = DTYPES.get(first, f"type {first}")
        elif (number, wire) == (2, 2):
            shape = _shape(data, first, last) or ()
        elif wire == 2:
            found.bytes += last - first
    found.shape, found.has_shape = shape, True
    found.text = f"{dtype} {list(shape)}"


def _library(data: memoryview, start: int, end: int) -> dict[str, tuple[int, int]]:
    """FunctionDefLibrary: where each function stands (function = 1, signature = 1, name = 1)."""
    found: dict[str, tuple[int, int]] = {}
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) != (1, 2):
            continue
        for inner, kind, a, b in _fields(data, first, last):
            if (inner, kind) == (1, 2):
                found[_name(data, a, b)] = (first, last)
                break
    return found
