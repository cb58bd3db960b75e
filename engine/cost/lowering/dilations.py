"""Dilated convolutions: rows that are picked beforehand, and padding of more than 15 pixels."""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context
from engine.cost.lowering.tiles import tile_sizes

__all__ = ["pad_widely", "pick_rows"]

_MOST_TILES = 4
"""Tiles of channels that a dilated convolution may become; with more its rows are picked."""

_WIDEST_PAD = 15
"""Pixels that a convolution pads itself."""


def pick_rows(graph: LoweringGraph, context: Context) -> None:
    """Dilated filters that are too long: Pad, Gather of the rows, a convolution without gaps.

    The Gather gives each row of the result the rows of its filter, one below the other; the gaps
    between columns stay.
    """
    for node in graph:
        gaps = node.ints("dilations", (1, 1))
        if node.op != "Conv" or len(gaps) != 2 or min(gaps) < 2:
            continue
        if len(tile_sizes(graph, node, context)) > _MOST_TILES:
            _pick(graph, node)


def pad_widely(graph: LoweringGraph, context: Context) -> None:
    """Padding of more than 15 pixels is a layer of its own."""
    for node in graph:
        pads = node.ints("pads")
        size = graph.shape(node.inputs[0])[2:] if node.inputs else ()
        if node.op != "Conv" or len(pads) != 4 or len(size) != 2 or max(pads) <= _WIDEST_PAD:
            continue
        whole = (size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3])
        wrote = _padded(graph, node, whole)
        graph.rewire(node, inputs=[wrote, *node.inputs[1:]])
        node.attributes["pads"] = [0, 0, 0, 0]
        graph.rewrites["convert_conv_to_pad_conv"] += 1


def _pick(graph: LoweringGraph, node: Node) -> None:
    pads = node.ints("pads", (0, 0, 0, 0))
    batch, channels, height, width = graph.shape(node.inputs[0])
    kernel = graph.shape(node.inputs[1])[2]
    rows = kernel * graph.shape(node.outputs[0])[2]
    data = node.inputs[0]
    if pads[0] or pads[2]:
        data = _padded(graph, node, (height + 1, width))  # a row of zeros to pick from
    label = graph.fresh(f"{data}_gather")
    dtype = graph.tensors[data].dtype
    picked = graph.add_tensor(label, (batch, channels, rows, width), dtype)
    order = graph.add_unknown(f"{label}_i1", (rows,), "int64")
    made = Node("Gather", label, "Gather", [data, order], [picked], {"axis": 2})
    made.sources = node.sources
    graph.insert(made, before=node)
    graph.rewire(node, inputs=[picked, *node.inputs[1:]])
    node.attributes["strides"] = [kernel, node.ints("strides", (1, 1))[1]]
    node.attributes["dilations"] = [1, node.ints("dilations")[1]]
    node.attributes["pads"] = [0, pads[1], 0, pads[3]]
    graph.rewrites["convert_large_dilation_conv_to_normal_conv"] += 1


def _padded(graph: LoweringGraph, node: Node, size: tuple[int, int]) -> str:
    data = node.inputs[0]
    label = graph.fresh(f"{data}_pad")
    shape = (*graph.shape(data)[:2], *size)
    wrote = graph.add_tensor(label, shape, graph.tensors[data].dtype)
    numbers = graph.add_unknown(f"{label}_i1", (8,), "int64")
    made = Node("Pad", label, "Pad", [data, numbers], [wrote], sources=node.sources)
    graph.insert(made, before=node)
    return wrote
