"""MXNet's symbol files: a JSON list of nodes, of versions 0.x to 1.9.

Operators' attributes stand under ``param`` (0.x), ``attr`` (0.9 to 1.1) or ``attrs``, all of them
as text. Before 0.9 auxiliary states (the running mean of a BatchNorm) are not listed as inputs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.base.errors import SourceModelError
from engine.base.plain import JsonObject
from engine.base.text import sanitize

__all__ = ["Node", "Symbol", "read_symbol"]

MAX_BYTES = 64 << 20
MAX_NODES = 20_000
_MAX_INPUTS = 4096


@dataclass(frozen=True)
class Node:
    """One node: operator (``null`` for a variable), name, (node, output) of inputs, attributes."""

    op: str
    name: str
    inputs: tuple[tuple[int, int], ...]
    attributes: dict[str, str]


@dataclass(frozen=True)
class Symbol:
    """The nodes in order, the (node, output) that are the outputs, and the version in words."""

    nodes: tuple[Node, ...]
    heads: tuple[tuple[int, int], ...]
    version: str


def read_symbol(data: bytes, name: str) -> Symbol:
    """Read the bytes of a symbol file.

    Raises:
        SourceModelError: no JSON, no symbol, or nodes that refer to what is not there.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(name, f"it is not JSON ({sanitize(str(error), 120)})") from error
    nodes = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(nodes, list) or not nodes:
        raise _damaged(name, "it has no list of nodes")
    if len(nodes) > MAX_NODES:
        raise _damaged(name, f"it has {len(nodes)} nodes; {MAX_NODES} are read")
    read = tuple(_node(item, index, name) for index, item in enumerate(nodes))
    heads = content.get("heads")
    ends = _references(heads, len(read), name, "the outputs") if heads else ((len(read) - 1, 0),)
    return Symbol(read, tuple(dict.fromkeys(ends)), _version(content))


def _damaged(name: str, what: str) -> SourceModelError:
    return SourceModelError(
        f"{name} is not a symbol of MXNet: {what}.",
        cause="The file was cut short, changed, or is of another program.",
        remedy="Export the network again: net.export(...) or sym.save(...).",
    )


def _node(item: Any, index: int, name: str) -> Node:
    if not isinstance(item, dict) or not all(
        isinstance(item.get(key), str) for key in ("op", "name")
    ):
        raise _damaged(name, f"node {index} has no operator or no name")
    attributes: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):
        found = item.get(key)
        if isinstance(found, dict):
            attributes |= {str(k): str(v)[:100_000] for k, v in found.items()}
    where = f"node {index} ({sanitize(item['name'], 80)})"
    return Node(
        item["op"],
        item["name"][:1000] or f"node{index}",
        _references(item.get("inputs") or [], index, name, where),
        attributes,
    )


def _references(items: Any, below: int, name: str, where: str) -> tuple[tuple[int, int], ...]:
    found = []
    for item in items if isinstance(items, list) else [None]:
        pair: list[Any] = item if isinstance(item, list) else [item, 0]
        numbers = pair[:2]
        if len(numbers) != 2 or not all(type(n) is int for n in numbers):
            raise _damaged(name, f"{where} has inputs that are no numbers of nodes")
        if not (0 <= numbers[0] < below and 0 <= numbers[1] < 1000):
            raise _damaged(name, f"{where} reads output {numbers[1]} of node {numbers[0]}")
        found.append((numbers[0], numbers[1]))
    if len(found) > _MAX_INPUTS:
        raise _damaged(name, f"{where} has {len(found)} inputs")
    return tuple(found)


def _version(content: JsonObject) -> str:
    """``1.9.1`` from the number 10901 that later versions write; empty in older files."""
    attributes = content.get("attrs")
    entry = attributes.get("mxnet_version") if isinstance(attributes, dict) else None
    number = entry[-1] if isinstance(entry, list) and entry else None
    if type(number) is not int or not 0 < number < 1_000_000:
        return ""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
