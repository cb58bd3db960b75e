"""Where a graph can be cut into segments: after a layer, in the order of the layers.

A segment is a run of layers that an NPU works off before another model may have it
[RKNN-T1 1.3.2, 3.4]. Layers have uids: their places in the order of the graph, from 0, as the
``Uid`` column of ``eval_perf`` shows them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import onnx_ir as ir

from engine.base.errors import UsageError
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import Graph, constant_of, spec_of
from engine.graph.layers import LayerMap


@dataclass(frozen=True)
class Crossing:
    """What lies in memory between two segments.

    Attributes:
        tensors: names of those that a later segment reads, as they are stored.
        bytes: of them.
    """

    tensors: tuple[str, ...]
    bytes: int


def cut_points(uids: Iterable[object], layers: LayerMap) -> tuple[tuple[int, str], ...]:
    """The layers that segments end after: (uid, ``layer.id``), in order, each once.

    A layer may also be named by any of its names. The last layer ends the last segment anyway and
    is left out.

    Raises:
        UsageError: no layer has such a uid or name; says which there are.
    """
    points: dict[int, str] = {}
    last = len(layers.layers) - 1
    for cut in uids:
        uid = _uid(cut, layers)
        if uid != last:
            points[uid] = layers.layers[uid].id
    return tuple(sorted(points.items()))


def _uid(cut: object, layers: LayerMap) -> int:
    count = len(layers.layers)
    if isinstance(cut, str) and not cut.strip().lstrip("-").isdecimal():
        layer = layers.find(cut)
        if layer is None:
            raise UsageError(
                f"The model has no layer {sanitize(cut, 120)!r}.",
                remedy=did_you_mean(cut, layers.names)
                or "`rknntui segment MODEL` lists the layers and their uids.",
            )
        return layers.layers.index(layer)
    try:
        if isinstance(cut, bool | float):
            raise ValueError
        uid = int(cast("int | str", cut))
    except (TypeError, ValueError):
        uid = -1
    if not 0 <= uid < count:
        raise UsageError(
            f"The model has no layer with the uid {sanitize(str(cut), 60)}.",
            cause=f"Its {count} layers have the uids 0 to {count - 1}."
            if count
            else "It has no layers.",
            remedy="Take uids from the Uid column of eval_perf (generation 1, perf_debug=True), or "
            "from `rknntui segment MODEL`.",
        )
    return uid


@dataclass(frozen=True)
class Places:
    """Uids of the layers that values are ready after and nodes are done with; -1: before any.

    What is no layer, such as rounding, is done as soon as its inputs are there.
    """

    values: Mapping[str, int]
    nodes: Mapping[str, int]


def places_of(graph: Graph, layers: LayerMap) -> Places:
    """Where each value and node of a graph stands among its layers."""
    uids = {layer.id: uid for uid, layer in enumerate(layers.layers)}
    places: dict[str, int] = {}
    nodes: dict[str, int] = {}
    for node in graph.nodes:
        layer = layers.by_node.get(node.name or "")
        before = max((places.get(name, -1) for name in _read(node)), default=-1)
        place = before if layer is None else max(before, uids[layer.id])
        nodes[node.name or ""] = place
        for value in node.outputs:
            if value.name:
                places[value.name] = place
    return Places(places, nodes)


def segment_crossings(
    graph: Graph, layers: LayerMap, after: Sequence[int] | None = None
) -> tuple[Crossing, ...]:
    """What crosses behind each layer of ``after`` (uids, in order); None: behind every layer."""
    places = places_of(graph, layers).values
    cuts = list(range(len(layers.layers))) if after is None else list(after)
    stored = _stored(graph)
    spans: dict[str, tuple[int, int, int]] = {}
    for node in graph.nodes:
        reader = max((places.get(v.name or "", -1) for v in node.outputs), default=-1)
        for name in _read(node):
            value = stored.get(name, graph.values.get(name))
            if value is None or constant_of(value) is not None or value.is_graph_input():
                continue
            begun = places.get(value.name or "", -1)
            if 0 <= begun < reader:
                key = value.name or ""
                _, until, size = spans.get(key, (begun, -1, 0))
                spans[key] = begun, max(until, reader), size or _bytes(value)
    names: dict[int, list[str]] = {uid: [] for uid in cuts}
    sizes = dict.fromkeys(cuts, 0)
    # a tensor lives behind the layers from the one that writes it to the one before its last reader
    ordered = sorted(names)
    for name, (begun, until, size) in spans.items():
        for uid in _between(ordered, begun, until):
            names[uid].append(name)
            sizes[uid] += size
    return tuple(Crossing(tuple(names[uid]), sizes[uid]) for uid in cuts)


def _between(ordered: Sequence[int], begun: int, until: int) -> Sequence[int]:
    return ordered[bisect_left(ordered, begun) : bisect_left(ordered, until)]


def _stored(graph: Graph) -> dict[str, ir.Value]:
    """What is read dequantized -> the integers that it lies in memory as."""
    stored: dict[str, ir.Value] = {}
    for node in graph.nodes:
        source = node.inputs[0] if node.inputs else None
        if node.op_type == "DequantizeLinear" and source is not None:
            for value in node.outputs:
                if value.name:
                    stored[value.name] = source
    return stored


def _bytes(value: ir.Value) -> int:
    bits = int(value.dtype.bitwidth) if value.dtype is not None else 32
    return math.ceil((spec_of(value).size or 0) * bits / 8)


def _read(node: ir.Node) -> list[str]:
    """Names that a node reads, those of graphs inside it too."""
    names = [value.name for value in node.inputs if value is not None and value.name]
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            names += [name for inner in attribute.as_graph() for name in _read(inner)]
        elif attribute.type == ir.AttributeType.GRAPHS:
            names += [
                n
                for graph in attribute.as_graphs()
                for inner_node in graph
                for n in _read(inner_node)
            ]
    return names
