"""A frozen TensorFlow graph (GraphDef), read without TensorFlow.

Field numbers are those of tensorflow/core/framework: graph.proto, node_def.proto, attr_value.proto,
tensor.proto, tensor_shape.proto, types.proto and function.proto.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import SourceModelError
from engine.base.files import read_bounded
from engine.base.formats.protobuf import FIXED32, LENGTH, VARINT, fields, signed, varints
from engine.base.text import sanitize
from engine.frontends.facts import facts

# protobuf itself reads no message above 2 GiB
_MAX_BYTES = (1 << 31) - 1
_MAX_NODES = 500_000
_MAX_RANK = 64
_MAX_LIST = 64
_MAX_TEXT = 200

DTYPES = {int(number): name for number, name in facts(__package__, "dtypes.toml").items()}
"""Number of a DataType -> its name in numpy."""


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
        functions: of its library by name, not read yet.
    """

    nodes: dict[str, Node]
    producer: int
    functions: dict[str, memoryview]

    def body(self, function: str) -> tuple[Node, ...]:
        """The nodes of a function, read when they are asked for; libraries hold training, too.

        Raises:
            ValueError: its bytes are damaged.
        """
        return tuple(
            _node(node)
            for number, wire, _, node in fields(self.functions[function])
            if (number, wire) == (3, LENGTH)
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
            f"{sanitize(str(path))} is not a whole TensorFlow graph: {sanitize(str(error), 200)}.",
            cause="The download or the export was interrupted, or the file was changed.",
            remedy="Get the file again, or freeze the model again.",
        ) from error


def _graph(data: memoryview) -> GraphFile:
    nodes: dict[str, Node] = {}
    functions: dict[str, memoryview] = {}
    producer = 0
    for number, wire, value, payload in fields(data):
        if number == 1 and wire == LENGTH:
            node = _node(payload)
            if not node.name or not node.op:
                raise ValueError("a node has no name or no operator")
            if node.name in nodes:
                raise ValueError(f"two nodes are called {sanitize(node.name, 80)!r}")
            if len(nodes) >= _MAX_NODES:
                raise ValueError(f"it has more than {_MAX_NODES} nodes")
            nodes[node.name] = node
        elif number == 2 and wire == LENGTH:
            functions.update(_library(payload))
        elif number == 3 and wire == VARINT:
            producer = producer or value
        elif number == 4 and wire == LENGTH:
            producer = _number(payload)
    if not nodes:
        raise ValueError("it has no nodes")
    return GraphFile(nodes, producer, functions)


def _text(data: memoryview) -> str:
    return bytes(data).decode("utf-8")


def _name(data: memoryview) -> str:
    """Field 1 of a message, which is its name; empty where it has none."""
    return next((_text(p) for n, wire, _, p in fields(data) if (n, wire) == (1, LENGTH)), "")


def _number(data: memoryview) -> int:
    """Field 1 of a message that is a number; 0 where it has none."""
    return next((value for n, wire, value, _ in fields(data) if (n, wire) == (1, VARINT)), 0)


def _node(data: memoryview) -> Node:
    name = op = ""
    inputs: list[str] = []
    attributes: dict[str, _Attribute] = {}
    for number, wire, _, payload in fields(data):
        if wire != LENGTH:
            continue
        if number == 1:
            name = _text(payload)
        elif number == 2:
            op = _text(payload)
        elif number == 3:
            inputs.append(_text(payload))
        elif number == 5:
            key, value = _entry(payload)
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


def _entry(data: memoryview) -> tuple[str, _Attribute]:
    key, value = "", _Attribute()
    for number, wire, _, payload in fields(data):
        if (number, wire) == (1, LENGTH):
            key = _text(payload)
        elif (number, wire) == (2, LENGTH):
            value = _attribute(payload)
    return key, value


def _attribute(data: memoryview) -> _Attribute:
    attribute = _Attribute()
    for number, wire, value, payload in fields(data):
        if number == 1 and wire == LENGTH:
            items = _list(payload)
            attribute.count = len(items)
            shown = items[:_MAX_LIST] + (["…"] if len(items) > _MAX_LIST else [])
            attribute.text = f"[{', '.join(shown)}]"
        elif number == 7 and wire == LENGTH:
            attribute.shape, attribute.has_shape = _shape(payload), True
            attribute.text = "?" if attribute.shape is None else str(list(attribute.shape))
        elif number == 8 and wire == LENGTH:
            _tensor(payload, attribute)
        elif number == 10 and wire == LENGTH:
            attribute.text = _name(payload)
        else:
            attribute.text = _plain(number, wire, value, payload)
            if number == 3:
                attribute.number = signed(value)
    return attribute


def _plain(number: int, wire: int, value: int, payload: memoryview) -> str:
    """A text, number or type of AttrValue (fields 2 to 6)."""
    if number == 2 and wire == LENGTH:
        return sanitize(bytes(payload[:_MAX_TEXT]).decode("utf-8", "replace"), _MAX_TEXT)
    if number == 3 and wire == VARINT:
        return str(signed(value))
    if number == 4 and wire == FIXED32:
        return f"{struct.unpack('<f', payload)[0]:g}"
    if number == 5 and wire == VARINT:
        return "true" if value else "false"
    if number == 6 and wire == VARINT:
        return DTYPES.get(value, f"type {value}")
    return ""


def _list(data: memoryview) -> list[str]:
    """AttrValue.ListValue: numbers may be packed."""
    items: list[str] = []
    for number, wire, value, payload in fields(data):
        if number in (3, 5, 6) and wire == LENGTH:
            items.extend(_plain(number, VARINT, item, payload) for item in varints(payload))
        elif number == 4 and wire == LENGTH:
            items.extend(f"{v[0]:g}" for v in struct.iter_unpack("<f", payload))
        elif number == 7 and wire == LENGTH:
            items.append(str(_shape(payload)))
        else:
            items.append(_plain(number, wire, value, payload))
    return items


def _shape(data: memoryview) -> tuple[int, ...] | None:
    sizes: list[int] = []
    for number, wire, value, payload in fields(data):
        if (number, wire) == (3, VARINT) and value:
            return None
        if (number, wire) == (2, LENGTH):
            sizes.append(max(signed(_number(payload)), -1))
    if len(sizes) > _MAX_RANK:
        raise ValueError(f"a shape has {len(sizes)} axes")
    return tuple(sizes)


def _tensor(data: memoryview, attribute: _Attribute) -> None:
    """TensorProto: its type, its shape and how long its data are."""
    dtype = ""
    shape: tuple[int, ...] = ()
    for number, wire, value, payload in fields(data):
        if (number, wire) == (1, VARINT):
            dtype = DTYPES.get(value, f"type {value}")
        elif (number, wire) == (2, LENGTH):
            shape = _shape(payload) or ()
        elif wire == LENGTH:
            attribute.bytes += len(payload)
    attribute.shape, attribute.has_shape = shape, True
    attribute.text = f"{dtype} {list(shape)}"


def _library(data: memoryview) -> dict[str, memoryview]:
    """FunctionDefLibrary: where each function stands (function = 1, signature = 1, name = 1)."""
    functions: dict[str, memoryview] = {}
    for number, wire, _, function in fields(data):
        if (number, wire) != (1, LENGTH):
            continue
        for inner, kind, _, signature in fields(function):
            if (inner, kind) == (1, LENGTH):
                functions[_name(signature)] = function
                break
    return functions
