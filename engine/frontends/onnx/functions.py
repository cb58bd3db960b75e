"""How large a model becomes when its functions are put in the place of their calls.

A function may call another one twice, and that one the next: 25 functions of two calls each are 33
million nodes in a file of 2 KB. So nodes and bytes are counted before anything is inlined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx

from engine.base.errors import SourceModelError
from engine.base.text import human_bytes, sanitize
from engine.graph.ir.constants import STANDARD_DOMAINS

__all__ = ["MAX_INLINED_NODES", "check_functions"]

MAX_INLINED_NODES = 200_000
"""Nodes of a model after inlining (20 microseconds each, several times over); the largest models
that exporters write with functions have some ten thousand."""

_MAX_BYTES = 256 << 20
_MAX_GROWTH = 4
# counting ends here: thousands of functions that double make numbers of thousands of digits
_COUNTED = 10**15

Key = tuple[str, str, str]


@dataclass(frozen=True)
class _Size:
    nodes: int
    bytes: int


def check_functions(proto: onnx.ModelProto) -> None:
    """Count what inlining the functions of a model would make of it.

    Raises:
        SourceModelError: too many nodes or bytes, or functions that call each other in a circle.
    """
    functions = {_key(f.domain, f.name, f.overload): f for f in proto.functions}
    sizes: dict[Key, _Size] = {}
    for key in functions:
        _measure(key, functions, sizes)
    whole = _sum(proto.graph.node, sizes)
    limit = max(_MAX_BYTES, _MAX_GROWTH * proto.ByteSize())
    if whole.nodes <= MAX_INLINED_NODES and whole.bytes <= limit:
        return
    raise SourceModelError(
        f"The model's functions make {whole.nodes:,} operators of {human_bytes(whole.bytes)} out "
        f"of {len(proto.graph.node):,} nodes; up to {MAX_INLINED_NODES:,} operators of "
        f"{human_bytes(limit)} are taken.",
        cause="Its functions call each other again and again, as in no model that computes "
        "something useful.",
        remedy="Export the model with its functions inlined.",
    )


def _key(domain: str, name: str, overload: str) -> Key:
    return ("" if domain in STANDARD_DOMAINS else domain, name, overload)


def _called(node: onnx.NodeProto) -> Key:
    return _key(node.domain, node.op_type, node.overload)


def _measure(first: Key, functions: dict[Key, onnx.FunctionProto], sizes: dict[Key, _Size]) -> None:
    """Note the size of a function and of all that it calls, those first; without recursion."""
    open_calls: list[Key] = [first]
    waiting: set[Key] = set()
    while open_calls:
        key = open_calls[-1]
        if key in sizes:
            open_calls.pop()
            continue
        function = functions[key]
        missing = {
            call
            for node in _nodes(function.node)
            if (call := _called(node)) in functions and call not in sizes
        }
        if not missing:
            sizes[key] = _sum(function.node, sizes)
            waiting.discard(open_calls.pop())
            continue
        waiting.add(key)
        if missing & waiting:
            name = sanitize(min(missing & waiting)[1], 100)
            raise SourceModelError(
                f"The model's function {name!r} calls itself, directly or through another one.",
                cause="ONNX allows no such functions: they would never end.",
                remedy="Export the model again, with its functions inlined.",
            )
        open_calls.extend(sorted(missing))


def _sum(nodes: Sequence[onnx.NodeProto], sizes: dict[Key, _Size]) -> _Size:
    """Nodes and bytes of a list of nodes, with what they call in their place."""
    count = weight = 0
    for node in _nodes(nodes):
        size = sizes.get(_called(node))
        count += 1 if size is None else size.nodes
        weight += 0 if size is None else size.bytes
    weight += sum(node.ByteSize() for node in nodes)
    return _Size(min(count, _COUNTED), min(weight, _COUNTED))


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of the graphs inside them; protobuf bounds how deep those are."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else []
            for graph in (*inner, *attribute.graphs):
                yield from _nodes(graph.node)
