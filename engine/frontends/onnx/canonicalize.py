"""Brings every source graph to one canonical form; what has none is refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import onnx
import onnx.inliner

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.base.text import human_bytes, sanitize
from engine.frontends.onnx.contrib import is_written_out
from engine.frontends.onnx.control import is_structural
from engine.frontends.onnx.opset import too_new
from engine.frontends.onnx.tensors import inner_graphs, walk
from engine.graph.ir.custom import CustomOperators
from engine.graph.ir.naming import OPSET, STANDARD_DOMAINS, UniqueNames
from engine.graph.ir.rewriting import refill
from engine.graph.ir.shapes import all_nodes

_SHOWN = 5


def canonicalize(proto: onnx.ModelProto) -> None:
    """Inline functions, name nodes, drop texts, take initializers out of the inputs.

    In place. Doc strings and metadata go because exporters write paths of the machine that trained
    the model there, and a container must be the same wherever it is built.

    Raises:
        SourceModelError: functions that cannot be inlined, or would become too large.
    """
    if proto.functions:
        check_functions(proto)
        _inline(proto)
    graph = proto.graph
    for field in ("doc_string", "domain", "metadata_props", "training_info"):
        proto.ClearField(field)
    del graph.metadata_props[:], graph.quantization_annotation[:]
    for entry in proto.opset_import:
        if entry.domain in STANDARD_DOMAINS:
            entry.domain = ""
    for part in walk(graph):
        for node in part.node:
            node.ClearField("doc_string")
            node.ClearField("metadata_props")
            if node.domain in STANDARD_DOMAINS:
                node.domain = ""
    for item in (graph, *graph.initializer, *graph.input, *graph.output):
        item.ClearField("doc_string")
    _name_nodes(graph)
    constants = {tensor.name for tensor in graph.initializer}
    refill(graph.input, [value for value in graph.input if value.name not in constants])


def _name_nodes(graph: onnx.GraphProto) -> None:
    """Name nodes here already, so that the quick view and the loaded graph call them alike."""
    names = UniqueNames({node.name for node in graph.node if node.name})
    seen: set[str] = set()
    for node in graph.node:
        if not node.name or node.name in seen:
            node.name = names.claim(node.name or node.op_type)
        seen.add(node.name)


def _inline(proto: onnx.ModelProto) -> None:
    try:
        inlined = onnx.inliner.inline_local_functions(proto, convert_version=True)
    except Exception as error:  # the C++ inliner raises bare RuntimeErrors and more
        names = ", ".join(sanitize(function.name, 60) for function in proto.functions[:_SHOWN])
        raise SourceModelError(
            f"The model's functions ({names}) could not be inlined: {sanitize(str(error), 200)}",
            remedy="Export the model with its functions inlined.",
        ) from error
    proto.CopyFrom(inlined)


def unsupported(
    graph: onnx.GraphProto, opset: int, operators: CustomOperators | None = None
) -> list[tuple[str, str, str]]:
    """Operators that cannot be taken: (operator with its domain, node, why), in graph order."""
    refusals: list[tuple[str, str, str]] = []
    schemas: dict[str, str] = {}
    for node in (node for part in walk(graph) for node in part.node):
        if node.domain not in STANDARD_DOMAINS:
            registered = operators is not None and node.op_type in operators
            if not registered and not is_written_out(node):
                refusals.append((f"{node.domain}:{node.op_type}", node.name, _CUSTOM))
            continue
        if is_structural(node):
            continue
        if inner_graphs(node):
            refusals.append((node.op_type, node.name, _CONTROL))
            continue
        why = schemas.get(node.op_type)
        if why is None:
            why = schemas[node.op_type] = _known(node.op_type, opset)
        if why:
            refusals.append((node.op_type, node.name, why))
    return refusals


_CUSTOM = "it is not an operator of ONNX's own, and no custom operator of its name is registered"
_CONTROL = "it holds a graph of its own, as no operator known here does"


# marked as deprecated, with a meaning that conversion to the pinned opset knows
_STILL_READ = frozenset({"GroupNormalization"})


def _known(op: str, opset: int) -> str:
    try:
        schema = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return f"ONNX has no such operator in opset {opset}"
    if schema.deprecated and op not in _STILL_READ:
        return f"ONNX has removed it in opset {schema.since_version}"
    return too_new(op, opset)


def refuse_unsupported(
    proto: onnx.ModelProto, opset: int, source: str, operators: CustomOperators | None = None
) -> None:
    """Raise for operators, tensors and inputs that a graph of ours cannot hold.

    Raises:
        UnsupportedOperatorError: names each operator, its first node and the reason.
        SourceModelError: inputs or outputs that are sequences or maps.
    """
    graph = proto.graph
    refusals = unsupported(graph, opset, operators)
    if refusals:
        newer = opset > OPSET and any(f"opset {OPSET}" in why for _, _, why in refusals)
        raise UnsupportedOperatorError(
            f"{source} has {_listed(refusals)}.",
            cause="The exporter wrote what is not a plain ONNX graph."
            if refusals[0][2] != _CUSTOM
            else "The model needs an operator that only its own framework or plug-in defines.",
            remedy=(f"Export it with opset {OPSET} or lower, replace" if newer else "Replace")
            + " it by ONNX's operators before exporting, register a custom operator, or cut it "
            "off: name the tensor before it in 'outputs', or the one after it in 'inputs'.",
        )
    for value in (*graph.input, *graph.output):
        kind = value.type.WhichOneof("value")
        if kind not in ("tensor_type", None):
            raise SourceModelError(
                f"{source}: {sanitize(value.name)!r} is a {kind.removesuffix('_type')}, no tensor.",
                remedy="Export the model with tensors for inputs and outputs.",
            )


def _listed(refusals: Iterable[tuple[str, str, str]]) -> str:
    first: dict[str, tuple[str, str, int]] = {}
    for op, node, why in refusals:
        count = first[op][2] if op in first else 0
        first[op] = (first[op][0] if op in first else node, why, count + 1)
    parts = []
    for op, (node, why, count) in list(first.items())[:_SHOWN]:
        times = f" ({count} times)" if count > 1 else ""
        where = f" at node {sanitize(node, 100)!r}" if node else ""
        parts.append(f"the unsupported operator {sanitize(op, 100)}{times}{where}: {why}")
    more = f"; and {len(first) - _SHOWN} more operators" if len(first) > _SHOWN else ""
    return "; ".join(parts) + more


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
    calls = {
        key: {call for node in all_nodes(f) if (call := _called(node)) in functions}
        for key, f in functions.items()
    }
    sizes: dict[Key, _Size] = {}
    try:
        for key in TopologicalSorter(calls).static_order():
            sizes[key] = _sum(functions[key], sizes)
    except CycleError as error:
        name = sanitize(min(error.args[1])[1], 100)
        raise SourceModelError(
            f"The model's function {name!r} calls itself, directly or through another one.",
            cause="ONNX allows no such functions: they would never end.",
            remedy="Export the model again, with its functions inlined.",
        ) from error
    whole = _sum(proto.graph, sizes)
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


def _sum(holder: onnx.GraphProto | onnx.FunctionProto, sizes: dict[Key, _Size]) -> _Size:
    """Nodes and bytes of a graph or function, with what they call in their place."""
    count = weight = 0
    for node in all_nodes(holder):
        size = sizes.get(_called(node))
        count += 1 if size is None else size.nodes
        weight += 0 if size is None else size.bytes
    weight += sum(node.ByteSize() for node in holder.node)
    return _Size(min(count, _COUNTED), min(weight, _COUNTED))
