"""Dilated convolutions: rows that are picked beforehand, and padding of more than 15 pixels."""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context, on
from engine.cost.lowering.tiles import tile_sizes

__all__ = ["pad_widely", "pick_rows"]

_MOST_TILES = 4
"""Tiles of channels that a dilated convolution may become; with more its rows are picked."""

_WIDEST_PAD = 15
"""Pixels that a convolution pads itself."""


@on("Conv")
def pick_rows(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Dilated filters that are too long: Pad, Gather of the rows, a convolution without gaps.

    The Gather gives each row of the result the rows of its filter, one below the other; the gaps
    between columns stay.
    """
    gaps = node.ints("dilations", (1, 1))
    spread = len(gaps) == 2 and min(gaps) > 1
    if spread and len(tile_sizes(graph, node, context)) > _MOST_TILES:
        _pick(graph, node)


@on("Conv")
def pad_widely(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Padding of more than 15 pixels is a layer of its own."""
    pads = node.ints("pads")
    size = graph.shape(node.inputs[0])[2:]
    if len(pads) == 4 and len(size) == 2 and max(pads) > _WIDEST_PAD:
        whole = (size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3])
        graph.rewire(node, inputs=[_padded(graph, node, whole), *node.inputs[1:]])
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
    name = graph.fresh(f"{data}_gather")
    picked = graph.add_tensor(name, (batch, channels, rows, width), graph.tensors[data].dtype)
    order = graph.add_unknown(f"{name}_i1", (rows,), "int64")
    graph.put("Gather", name, [data, order], [picked], {"axis": 2}, before=node)
    graph.rewire(node, inputs=[picked, *node.inputs[1:]])
    node.attributes["strides"] = [kernel, node.ints("strides", (1, 1))[1]]
    node.attributes["dilations"] = [1, node.ints("dilations")[1]]
    node.attributes["pads"] = [0, pads[1], 0, pads[3]]
    graph.rewrites["convert_large_dilation_conv_to_normal_conv"] += 1


def _padded(graph: LoweringGraph, node: Node, size: tuple[int, int]) -> str:
    data = node.inputs[0]
    name = graph.fresh(f"{data}_pad")
    shape = (*graph.shape(data)[:2], *size)
    padded = graph.add_tensor(name, shape, graph.tensors[data].dtype)
    numbers = graph.add_unknown(f"{name}_i1", (8,), "int64")
    graph.put("Pad", name, [data, numbers], [padded], before=node)
    return padded
