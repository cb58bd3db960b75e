"""Remedies that change an operator, each tried on the graph before it is offered.

A change is made on a copy of the graph, which is laid out and timed again. It is offered where the
NPU then has the operator and it takes less time than on the CPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from engine.base.plain import JsonValue
from engine.cost.limits.remedies import END_BEFORE, IN_FLOAT16, with_tried_remedies
from engine.cost.lowered import Lowered, Node
from engine.cost.lowering.graph import LoweringGraph
from engine.facts.npu import NpuDtype

Again = Callable[[LoweringGraph, Mapping[str, NpuDtype]], Lowered]
"""A graph, and dtypes of source nodes beside those of the model -> its layers."""

TimeOf = Callable[[Lowered], Sequence[float]]
"""Milliseconds of each layer."""

_POOL = 8
"""Rows and columns of a pool of the NPU."""


def with_tried_changes(
    lowered: Lowered, graph: LoweringGraph, again: Again, time_of: TimeOf
) -> Lowered:
    """The layers, with the remedies that were tried and help.

    Args:
        lowered: with reasons, of ``graph``; its remedies stay where nothing here applies.
        graph: as it was read; it is left as it is.
        again: lays it out for the same chip.
        time_of: the chip's.
    """
    changed = graph.copy()
    nodes = {name: node for node in changed.nodes for name in (node.name, *node.sources)}
    notes: dict[int, str] = {}
    dtypes: dict[str, NpuDtype] = {}
    for at, layer in enumerate(lowered.layers):
        if layer.target != "CPU" or not layer.sources:
            continue
        node = next((nodes[source] for source in layer.sources if source in nodes), None)
        if node is not None and node not in changed:
            node = None
        if layer.remedy == IN_FLOAT16:
            dtypes.update(dict.fromkeys(layer.sources, "float16"))
            notes[at] = IN_FLOAT16
            if node is not None:
                _keep_in_float16(changed, node)
        elif layer.kind in _CHANGES and node is not None and node.op == layer.kind:
            notes[at] = _CHANGES[layer.kind](changed, node)
    notes = {at: words for at, words in notes.items() if words}
    if not notes:
        return lowered
    helped = _helped(lowered, again(changed, dtypes), notes, time_of)
    layers = list(lowered.layers)
    for at, words in notes.items():
        if at in helped:
            layers[at] = replace(layers[at], remedy=words)
        elif layers[at].remedy == words:
            layers[at] = replace(layers[at], remedy=END_BEFORE)
    return with_tried_remedies(replace(lowered, layers=tuple(layers)))


def _helped(
    before: Lowered, after: Lowered, changed: Mapping[int, str], time_of: TimeOf
) -> set[int]:
    """Which of the changed layers are on the NPU then, and faster with all that came of them."""
    old, new = time_of(before), time_of(after)
    of_old, of_new = _by_source(before), _by_source(after)
    helped = set()
    for at in changed:
        sources = before.layers[at].sources
        places = {place for name in sources for place in of_new[name]}
        own = sum(old[place] for place in {place for name in sources for place in of_old[name]})
        placed = all(after.layers[place].target == "NPU" for place in places)
        if places and placed and sum(new[place] for place in places) < own:
            helped.add(at)
    return helped


def _by_source(lowered: Lowered) -> dict[str, list[int]]:
    """Source node -> the layers that come of it."""
    by_source: dict[str, list[int]] = defaultdict(list)
    for at, layer in enumerate(lowered.layers):
        for name in layer.sources:
            by_source[name].append(at)
    return by_source


def _keep_in_float16(graph: LoweringGraph, node: Node) -> None:
    """The LeakyRelu of slope 1 that such a layer has before it in the file for the toolkit."""
    last = graph.features(node)[-1]
    name = graph.fresh(f"{node.name}_float16")
    same = graph.add_tensor(name, graph.shape(last), graph.tensors[last].dtype)
    graph.put("LeakyRelu", name, [last], [same], {"alpha": 1.0}, before=node)
    at = len(node.inputs) - 1 - node.inputs[::-1].index(last)
    graph.rewire(node, inputs=[*node.inputs[:at], same, *node.inputs[at + 1 :]])


def _average_pool(graph: LoweringGraph, node: Node) -> str:
    if not any(node.ints("pads")) or node.int("count_include_pad"):
        return ""
    node.attributes["count_include_pad"] = 1
    return "Set count_include_pad=1; values at the border change, so train or check it again."


def _max_pool(graph: LoweringGraph, node: Node) -> str:
    """Two in a row that find the same maxima: of the window's factors, or that overlap."""
    kernel, strides = node.ints("kernel_shape"), node.ints("strides", (1, 1))
    pads = node.ints("pads", (0, 0, 0, 0))
    if len(kernel) != 2 or len(pads) != 4 or node.int("ceil_mode"):
        return ""
    if kernel == strides and not any(pads):
        first = tuple(max(n for n in range(1, _POOL + 1) if k % n == 0) for k in kernel)
        second = tuple(k // f for k, f in zip(kernel, first, strict=True))
        steps, last = first, second
    else:
        second = tuple(min(k, _POOL) for k in kernel)
        first = tuple(k - s + 1 for k, s in zip(kernel, second, strict=True))
        steps, last = (1, 1), strides
    if max(*first, *second) > _POOL or any(p >= first[at % 2] > 1 for at, p in enumerate(pads)):
        return ""
    if any(p and first[at % 2] == 1 for at, p in enumerate(pads)):
        return ""
    x = node.inputs[0]
    shape = graph.shape(x)
    if len(shape) != 4:
        return ""
    rows = tuple(
        (size + pads[at] + pads[at + 2] - first[at]) // steps[at] + 1
        for at, size in enumerate(shape[2:])
    )
    name = graph.fresh(f"{node.name}_first")
    pooled = graph.add_tensor(name, (*shape[:2], *rows), graph.tensors[x].dtype)
    window: dict[str, JsonValue] = {"kernel_shape": list(first), "strides": list(steps)}
    graph.put("MaxPool", name, [x], [pooled], {**window, "pads": list(pads)}, before=node)
    graph.rewire(node, inputs=[pooled])
    node.attributes |= {"kernel_shape": list(second), "strides": list(last), "pads": [0] * 4}
    windows = " and ".join("x".join(map(str, window_size)) for window_size in (first, second))
    return f"Use two pools in a row, of {windows}: they find the same maxima."


def _resize(graph: LoweringGraph, node: Node) -> str:
    before, after = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    if len(before) != 4 or len(after) != 4 or node.attributes.get("mode") != "linear":
        return ""
    whole = all(not o % s or not s % o for s, o in zip(before[2:], after[2:], strict=True))
    corners = node.attributes.get("coordinate_transformation_mode") == "align_corners"
    if corners and whole:
        node.attributes["coordinate_transformation_mode"] = "half_pixel"
        return "Use half_pixel and train with align_corners=False."
    node.attributes |= {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    return "Use mode nearest, and train or check it again."


def _pad(graph: LoweringGraph, node: Node) -> str:
    if node.attributes.get("mode", "constant") == "constant":
        return ""
    node.attributes["mode"] = "constant"
    return "Use mode constant, and train or check it again."


def _reduce_max(graph: LoweringGraph, node: Node) -> str:
    plane = len(graph.shape(node.inputs[0])) == 4 and sorted(graph.axes(node)) == [2, 3]
    if not plane or not node.int("keepdims", 1):
        return ""
    graph.become(node, "GlobalMaxPool", inputs=node.inputs[:1], attributes={})
    return "Use GlobalMaxPool: it is the same over height and width."


def _space_to_depth(graph: LoweringGraph, node: Node) -> str:
    block = node.int("blocksize", 1)
    channels = graph.shape(node.inputs[0])[1:2]
    if block < 2 or not channels:
        return ""
    shape = (channels[0] * block * block, channels[0], block, block)
    if prod(shape) > 1 << 24:
        return ""
    weight = graph.add_unknown(graph.fresh(f"{node.name}_pick"), shape, "float32")
    graph.become(
        node,
        "Conv",
        inputs=[node.inputs[0], weight],
        attributes={"kernel_shape": [block, block], "strides": [block, block], "pads": [0] * 4},
    )
    return (
        f"Use a convolution of {block}x{block} with stride {block} whose weights pick the pixels."
    )


_CHANGES: dict[str, Callable[[LoweringGraph, Node], str]] = {
    "AveragePool": _average_pool,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "ReduceMax": _reduce_max,
    "Resize": _resize,
    "SpaceToDepth": _space_to_depth,
}
"""Kind of a layer -> what makes the change, and says it; empty where there is none to make."""
