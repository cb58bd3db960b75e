"""Normalization of each channel, or of each group of them, over the pixels of a map.

The compiler has one norm, over the channels of a pixel: a map is turned so that its pixels are
channels. Source: what rknn-toolkit2 2.3.2 prints of InstanceNormalization and of GroupNorm as
PyTorch exports it, with 8 to 64 channels and 1 to 32 groups, on every family.
"""

from __future__ import annotations

import math

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.movement import MOVEMENTS
from engine.cost.lowering.rules import Context, on


@on("InstanceNormalization")
def spell_instance_norms(graph: LoweringGraph, node: Node, context: Context) -> None:
    """InstanceNormalization -> exNorm; Mul and Add where channels differ in scale or bias."""
    if len(node.inputs) < 3:
        return
    shape = graph.shape(node.inputs[0])
    if len(shape) not in (3, 4):
        return
    plain = _all_equal(graph, node.inputs[1]) and _all_equal(graph, node.inputs[2])
    maker = graph.maker(node.inputs[0], "Reshape")
    if plain and len(shape) == 3 and maker is not None:
        whole = graph.shape(maker.inputs[0])
        if len(whole) == 4 and whole[0] == 1 == shape[0] and whole[1] % shape[1] == 0:
            _groups(graph, node, maker, context)
            return
    _channels(graph, node, plain=plain)


def _groups(graph: LoweringGraph, node: Node, maker: Node, context: Context) -> None:
    """Each group a batch of its own: as a map where its channels fill whole native groups."""
    x, result = maker.inputs[0], node.outputs[0]
    groups = graph.shape(node.inputs[0])[1]
    _, channels, *size = graph.shape(x)
    part = channels // groups
    name = f"{node.name}#1"
    if groups == 1:
        wide, data = (1, channels, *size), x
    elif part % context.whole_channels == 0:
        wide = (groups, part, *size)
        data = graph.reshape(x, wide, before=node)
        name = f"{data}_norm"
    else:
        wide = (groups, part * math.prod(size), 1, 1)
        data = graph.reshape(node.inputs[0], wide, before=node)
    numbers = _numbers(graph, node)
    normed = graph.unique(name)
    graph.write("exNorm", name, [data, *numbers], wide, normed, before=node)
    graph.reshape(normed, graph.shape(result), f"{name}_rs", result, before=node)
    graph.remove(node)
    if graph.unread(maker.outputs[0]):
        graph.remove(maker)


def _channels(graph: LoweringGraph, node: Node, *, plain: bool) -> None:
    """Pixels become channels, (N, pixels, 1, C), and come back behind the norm."""
    x, result = node.inputs[0], node.outputs[0]
    shape = graph.shape(x)
    there = (0, 2, 3, 1) if len(shape) == 4 else (0, 2, 1)
    back = (0, 3, 1, 2) if len(shape) == 4 else (0, 2, 1)
    turned = graph.transpose(x, there, before=node)
    wide = (shape[0], math.prod(shape[2:]), 1, shape[1])
    data = graph.reshape(turned, wide, before=node)
    numbers = _numbers(graph, node) if plain else []
    name = f"{node.name}#1" if plain and not numbers else f"{data}_norm"
    inputs = [data, *numbers]
    output = graph.write(
        "exNorm", name, inputs, wide, graph.unique(name), {"pixels": 1}, before=node
    )
    for op, operand in zip(("Mul", "Add"), node.inputs[1:] if not plain else (), strict=False):
        columns = graph.reshaped(operand, (1, 1, 1, shape[1]), graph.unique(f"{operand}_4d"))
        name = f"{name}_{op.lower()}"
        output = graph.write(op, name, [output, columns], wide, graph.unique(name), before=node)
    label = f"{node.name}#1_rs"
    map_of = tuple(shape[axis] for axis in there)
    end = graph.reshape(output, map_of, graph.unique(label), before=node)
    graph.transpose(end, back, f"{label}_tp", result, before=node)
    graph.remove(node)


@on("exNorm")
def turn_whole_maps(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Around a norm over pixels: a map is turned as (H, W, 1, C) where that keeps groups whole.

    The groups are of channels before and of columns behind; other maps become rows first.
    """
    if not node.attributes.get("pixels"):
        return
    pair = _pair(graph, graph.producer(node.inputs[0]), forward=False)
    if pair is not None:
        _turn(graph, pair, context, forward=True)
    last = node
    while (reader := graph.only_reader(last.outputs[0])) is not None:
        pair = _pair(graph, reader, forward=True)
        if pair is not None:
            _turn(graph, pair, context, forward=False)
            break
        if len(graph.features(reader)) != 1 or reader.op in MOVEMENTS:
            break
        last = reader


def _pair(graph: LoweringGraph, one: Node | None, *, forward: bool) -> tuple[Node, Node] | None:
    """A Reshape and a Transpose behind each other, in the order in which they run."""
    if one is None or one.op not in MOVEMENTS:
        return None
    if forward:
        other = graph.reader(one.outputs[0], *MOVEMENTS)
    else:
        other = graph.maker(one.inputs[0], *MOVEMENTS, alone=True)
    if other is None or one.op == other.op:
        return None
    return (one, other) if forward else (other, one)


def _turn(
    graph: LoweringGraph, pair: tuple[Node, Node], context: Context, *, forward: bool
) -> None:
    start, end = pair[0].inputs[0], pair[1].outputs[0]
    whole, rows = graph.shape(start), graph.shape(end)
    if not forward:
        whole, rows = rows, whole
    batch, channels, height, width = whole if len(whole) == 4 else (0, 0, 0, 0)
    if batch != 1 or rows != (1, height * width, 1, channels):
        return
    if context.family == "rk3566":
        for node in pair:
            node.target = "CPU"
            node.remedy = "Use BatchNormalization: its statistics are constants."
            node.reason = f"{node.op} of a map for a norm over its pixels."
    step = context.whole_channels
    if channels % step or width % step:
        return
    turn, reshape = sorted(pair, key=lambda move: move.op != "Transpose")
    middle = (height, width, 1, channels)
    first, second = (turn, reshape) if forward else (reshape, turn)
    between = graph.like(start, middle, f"{start}_hw")
    turn.attributes["perm"] = [2, 3, 0, 1]
    for node in pair:
        graph.remove(node)
    anchor = graph.readers(end)
    graph.add_numbers(reshape.inputs[1], *(rows if forward else middle))
    first.inputs[0], first.outputs = start, [between]
    second.inputs[0], second.outputs = between, [end]
    graph.insert(first, before=anchor[0] if anchor else None)
    graph.insert(second, after=first)


def _numbers(graph: LoweringGraph, node: Node) -> list[str]:
    """Scale and bias that are one number for all channels, where they do anything."""
    arrays = [graph.array(tensor) for tensor in node.inputs[1:3]]
    idle = all(
        array is not None and bool((array == number).all())
        for array, number in zip(arrays, (1, 0), strict=True)
    )
    if idle:
        return []
    return [
        graph.add_unknown(f"{node.name}_c{at}", (1, 1, 1, 1), dtype)
        for at, dtype in enumerate(("float16", "float32"))
    ]


def _all_equal(graph: LoweringGraph, tensor: str) -> bool:
    """Whether a constant holds one number only; a filled one stands for unknown weights."""
    entry = graph.tensors.get(tensor)
    array = graph.array(tensor) if entry is not None and not entry.filled else None
    return array is not None and bool((array == array.flat[0]).all())
