"""Slices, splits and paddings."""

from __future__ import annotations

from engine.base.plain import JsonValue
from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on

_DOUBLES = frozenset({"MaxPool", "Slice", "Transpose"})
"""Operators of which the compiler keeps one where several do the same."""

_PADDED = frozenset({"AveragePool", "Conv", "MaxPool"})
"""Operators that have pads of their own; the compiler takes a MaxPool's zeros for nothing, too."""


def _around(graph: LoweringGraph, node: Node) -> list[int]:
    """What a Pad of constants puts around a map of four dimensions, all in front first."""
    plain = node.attributes.get("mode", "constant") == "constant" and len(node.inputs) > 1
    around = graph.whole(node.inputs[1]) if plain else None
    return around if around is not None and len(around) == 8 and min(around) >= 0 else []


@on("Pad")
def merge_pads(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Zeros around a map that only a convolution or pool reads are its own."""
    reader = graph.reader(node.outputs[0], *_PADDED)
    value = graph.array(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    around = _around(graph, node)
    if reader is None or not around or (value is not None and value.any()):
        return
    if any(around[at] for at in (0, 1, 4, 5)):
        return
    pads = reader.ints("pads", (0, 0, 0, 0))
    added = (around[2], around[3], around[6], around[7])
    reader.attributes["pads"] = [old + new for old, new in zip(pads, added, strict=True)]
    if reader.op == "AveragePool":
        reader.attributes["count_include_pad"] = 1
    reader.sources = (*reader.sources, *node.sources)
    graph.bypass(node)


@on("Conv")
def merge_cuts(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A Slice at the edges of a convolution's map takes them from the pads: causal Conv1d."""
    if node.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return
    reader = graph.only_reader(node.outputs[0])
    starts = _starts(graph, reader) if reader is not None else None
    if reader is None or starts is None:
        return
    shape, out = graph.shape(node.outputs[0]), graph.shape(reader.outputs[0])
    sides = len(shape) - 2
    strides = node.ints("strides", (1,) * sides)
    pads = list(node.ints("pads", (0,) * 2 * sides))
    for axis, start in starts.items():
        if axis > 1:
            step = strides[axis - 2]
            pads[axis - 2] -= start * step
            pads[axis - 2 + sides] -= (shape[axis] - start - out[axis]) * step
    if min(starts) < 2 or min(pads) < 0:
        return
    node.attributes["pads"] = list(pads)
    graph.absorb(node, reader)


@on("Pad")
def merge_channel_pads(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Channels of zeros: in the weights of the 1 x 1 convolution that reads them, or ``_2conv``.

    A Pad that puts channels in front is a 1 x 1 convolution itself.
    """
    around = _around(graph, node)
    if not around or graph.is_const(node.inputs[0]):
        return
    if any(around[at] for at in (0, 2, 3, 4, 6, 7)):
        return
    channels = graph.shape(node.inputs[0])[1]
    reader = graph.reader(node.outputs[0], "Conv")
    if around[1]:
        name = graph.fresh(f"{node.name}_2conv")
        shape = (graph.shape(node.outputs[0])[1], channels, 1, 1)
        inputs = [node.inputs[0], graph.add_unknown(f"{name}_i1", shape, "float32")]
        graph.become(node, "Conv", name, inputs=inputs, attributes={})
    elif (
        reader is not None
        and reader.int("group", 1) == 1
        and graph.shape(reader.inputs[1])[2:] == (1, 1)
    ):
        weight = reader.inputs[1]
        less = graph.reshaped(weight, (*graph.shape(weight)[:1], channels, 1, 1), f"{weight}_less")
        graph.remove(node)
        graph.rewire(reader, inputs=[node.inputs[0], less, *reader.inputs[2:]])
        reader.sources = (*reader.sources, *node.sources)


def drop_doubles(graph: LoweringGraph, context: Context) -> None:
    """Of several nodes that do the same to the same tensor one stays."""
    seen: dict[tuple[object, ...], Node] = {}
    joined: set[str] = set()
    for node in graph:
        if node.op not in _DOUBLES or graph.is_output(node.outputs[0]) or len(node.outputs) > 1:
            continue
        numbers = tuple(
            graph.shape(tensor) + _small(graph, tensor) if graph.is_const(tensor) else (tensor,)
            for tensor in node.inputs
        )
        attributes = tuple(sorted((key, str(value)) for key, value in node.attributes.items()))
        key = (node.op, numbers, attributes)
        kept = seen.setdefault(key, node)
        if kept is node:
            continue
        # behind a pair that was joined already, the compiler keeps the later one
        gone = node
        if node.inputs[0] in joined:
            kept, gone = node, kept
            seen[key] = kept
        joined.add(kept.outputs[0])
        graph.remove(gone)
        graph.replace_reads(gone.outputs[0], kept.outputs[0])
        kept.sources = (*kept.sources, *gone.sources)


def join_slices(graph: LoweringGraph, context: Context) -> None:
    """Slices that cut a tensor up without rest are one Split, named after the first: ``_2sp``."""
    cuts: dict[tuple[str, int], list[tuple[int, int, Node]]] = {}
    for node in graph:
        cut = _cut(graph, node)
        if cut is not None:
            axis, start, end = cut
            cuts.setdefault((node.inputs[0], axis), []).append((start, end, node))
    for (data, axis), pieces in cuts.items():
        length = graph.shape(data)[axis]
        by_start = {start: (end, node) for start, end, node in reversed(pieces)}
        ordered, at = [], 0
        while at < length and at in by_start:
            at, node = by_start[at]
            ordered.append(node)
        if at != length or len(ordered) < 2:
            continue
        # of parts of a kernel, which the compiler puts in front of each other, the last is first
        own = ordered[0].attributes.get("cut_axis") is None
        first = ordered[0]
        name = graph.fresh(f"{ordered[0 if own else -1].name}_2sp")
        sizes = graph.add_unknown(f"{name}_i1", (len(ordered),), "int64")
        outs = [node.outputs[0] for node in ordered]
        sources = tuple(source for node in ordered for source in node.sources)
        graph.put("Split", name, [data, sizes], outs, {"axis": axis}, before=first, sources=sources)
        for node in ordered:
            graph.remove(node)


@on("Concat")
def find_rolls(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Parts that are put together in another order are one Gather, ``_2gather`` of the Concat."""
    split = graph.maker(node.inputs[0], "Split")
    if split is None or len(split.outputs) < 2 or node.inputs == split.outputs:
        return
    rank = len(graph.shape(split.inputs[0]))
    if rank != 4 or sorted(node.inputs) != sorted(split.outputs):
        return
    axis = node.int("axis") % rank
    if axis != split.int("axis") % rank:
        return
    if all(graph.only_reader(output) is node for output in split.outputs):
        name = graph.fresh(f"{node.name}_2gather")
        _roll(graph, name, split.inputs[0], axis, node, (*split.sources, *node.sources))
        graph.remove(node)
        graph.remove(split)


def _roll(
    graph: LoweringGraph, name: str, data: str, axis: int, last: Node, sources: tuple[str, ...]
) -> None:
    """A Gather that writes what the last of some nodes wrote."""
    length = graph.shape(last.outputs[0])[axis]
    inputs = [data, graph.add_unknown(f"{name}_i1", (length,), "int64")]
    attributes: dict[str, JsonValue] = {"axis": axis, "rolled": 1}
    graph.put("Gather", name, inputs, list(last.outputs), attributes, before=last, sources=sources)


@on("Reshape")
def join_rolls(graph: LoweringGraph, view: Node, context: Context) -> None:
    """Rows and columns that are rolled and then joined are joined and rolled at once, ``#1``."""
    second = graph.maker(view.inputs[0], alone=True)
    first = graph.maker(second.inputs[0], alone=True) if second is not None else None
    if first is None or second is None or not (first.int("rolled") and second.int("rolled")):
        return
    x, out = first.inputs[0], graph.shape(view.outputs[0])
    one, rows, columns, channels = graph.shape(x)
    if (first.int("axis"), second.int("axis"), out) != (1, 2, (one, rows * columns, channels)):
        return
    data = graph.reshape(x, out, graph.fresh(f"{x}_rs"), before=first)
    _roll(graph, f"{first.name}#1", data, 1, view, (*first.sources, *second.sources))
    for node in (view, second, first):
        graph.remove(node)


def _small(graph: LoweringGraph, tensor: str) -> tuple[int, ...]:
    if sum(graph.shape(tensor)) > 16:
        return (id(graph.tensors[tensor].values),)
    return tuple(graph.whole(tensor) or ())


def _cut(graph: LoweringGraph, node: Node) -> tuple[int, int, int] | None:
    """Axis, start and end of a Slice along one axis with step 1."""
    if node.op != "Slice" or graph.is_const(node.inputs[0]):
        return None
    out = graph.shape(node.outputs[0])
    if "cut_axis" in node.attributes:
        axis, start = node.int("cut_axis"), node.int("cut_from")
        return axis, start, start + out[axis]
    starts = _starts(graph, node)
    if starts is None or len(starts) != 1:
        return None
    ((axis, start),) = starts.items()
    return axis, start, start + out[axis]


def _starts(graph: LoweringGraph, node: Node) -> dict[int, int] | None:
    """Where a Slice with steps of 1 starts on each axis that it cuts; None of everything else."""
    if node.op != "Slice" or "cut_axis" in node.attributes or len(node.inputs) < 3:
        return None
    shape, out = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    if len(shape) != len(out):
        return None
    starts, _, axes, steps = [*map(graph.whole, node.inputs[1:]), None, None][:4]
    if starts is None or (steps is not None and any(step != 1 for step in steps)):
        return None
    named = list(range(len(starts))) if axes is None else [axis % len(shape) for axis in axes]
    by_axis = {}
    for axis in (at for at in range(len(shape)) if shape[at] != out[at]):
        if axis not in named:
            return None
        start = starts[named.index(axis)]
        by_axis[axis] = max(0, start + shape[axis]) if start < 0 else start
    return by_axis or None
