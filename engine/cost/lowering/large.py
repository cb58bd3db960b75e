"""Convolutions that are too large: kernels over 16 rows, strides over 7, pads over 15, gaps."""

from __future__ import annotations

from engine.base.plain import JsonValue
from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on
from engine.cost.lowering.tiles import tile_sizes

_LONGEST_KERNEL = 16
_LONGEST_STRIDE = 7
_MOST_PARTS = 64
"""Parts of one kernel; one of more than 1,024 rows is no network's."""


@on("Conv")
def split_kernels(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A kernel of more than 16 columns or rows: Slices, a convolution of each, sums of them."""
    kernel = graph.shape(node.inputs[1])[2:] if len(node.inputs) > 1 else ()
    if len(kernel) == 2 and max(kernel) <= _LONGEST_KERNEL * _MOST_PARTS:
        _split(graph, node)


def shorten_strides(graph: LoweringGraph, context: Context) -> None:
    """A stride of more than 7: a smaller one, then a depthwise 1 x 1 that picks, or two."""
    for node in graph:
        step: Node | None = node
        while step is not None:
            step = _shorten(graph, step)


@on("ConvTranspose")
def spread_transposed(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A transposed convolution of another stride: zeros between the pixels, and a convolution."""
    strides = node.ints("strides", (1, 1))
    if len(strides) != 2 or node.int("group", 1) > 1 or len(node.inputs) < 2:
        return
    if all(context.upsamples(stride) for stride in strides):
        return
    data, weight = node.inputs[:2]
    inputs, outputs, *kernel = graph.shape(weight)
    sides = zip(graph.shape(node.outputs[0])[2:], kernel, strict=True)
    size = (out + side - 1 for out, side in sides)
    name = graph.unique(f"{data}_pad")
    shape = (*graph.shape(data)[:2], *size)
    wide = graph.write("exConvTransposePad", name, [data], shape, before=node)
    turned = graph.reshaped(weight, (outputs, inputs, *kernel), f"{weight}_turned")
    graph.become(
        node,
        "Conv",
        graph.fresh(f"{node.name}#1"),
        inputs=[wide, turned, *node.inputs[2:]],
        attributes={"kernel_shape": list(kernel), "strides": [1, 1]},
    )


def _shorten(graph: LoweringGraph, node: Node) -> Node | None:
    """What picks of a node with a smaller stride; None where its stride stays."""
    strides = node.ints("strides", (1, 1))
    if node.op != "Conv" or len(strides) != 2 or max(strides) <= _LONGEST_STRIDE:
        return None
    picks = tuple(_pick(stride) for stride in strides)
    if not all(picks):
        return None
    steps = tuple(stride // pick for stride, pick in zip(strides, picks, strict=True))
    out, name = node.outputs[0], node.name
    batch, channels, *_ = graph.shape(out)
    size, pads = graph.shape(node.inputs[0])[2:], _pads(node)
    kernel, gaps = graph.shape(node.inputs[1])[2:], node.ints("dilations", (1, 1))
    sides = (
        (size[at] + pads[at] + pads[at + 2] - (kernel[at] - 1) * gaps[at] - 1) // steps[at] + 1
        for at in range(2)
    )
    dtype = graph.tensors[out].dtype
    middle = graph.add_tensor(f"{name}_split", (batch, channels, *sides), dtype)
    node.name = f"{name}_split"
    node.attributes["strides"] = list(steps)
    graph.rewire(node, outputs=[middle])
    weight = graph.add_unknown(f"{name}_select_i1", (1, channels, 1, 1), "float32")
    attributes: dict[str, JsonValue] = {"strides": list(picks), "group": channels, "depthwise": 1}
    return graph.put("Conv", f"{name}_select", [middle, weight], [out], attributes, after=node)


def _pick(stride: int) -> int:
    """The power of two that leaves a stride of 7 at most; 0 where there is none."""
    pick = 1
    while stride // pick > _LONGEST_STRIDE:
        pick *= 2
    return pick if stride % pick == 0 else 0


def _pads(node: Node) -> tuple[int, int, int, int]:
    pads = node.ints("pads", (0, 0, 0, 0))
    return (pads[0], pads[1], pads[2], pads[3]) if len(pads) == 4 else (0, 0, 0, 0)


def _split(graph: LoweringGraph, node: Node) -> None:
    kernel = graph.shape(node.inputs[1])[2:]
    axis = 1 if kernel[1] > _LONGEST_KERNEL else 0
    if kernel[axis] <= _LONGEST_KERNEL or max(node.ints("dilations", (1, 1))) > 1:
        return
    data = _padded(graph, node, axis)
    out = graph.shape(node.outputs[0])
    dtype = graph.tensors[data].dtype
    weight = node.inputs[1]
    parts: list[Node] = []
    before = node
    for at, start in enumerate(range(0, kernel[axis], _LONGEST_KERNEL)):
        length = min(_LONGEST_KERNEL, kernel[axis] - start)
        name = graph.fresh(f"{_stem(graph, data)}_slice")
        shape, dims = list(graph.shape(data)), list(graph.shape(weight))
        shape[2 + axis] += length - kernel[axis]
        dims[2 + axis] = length
        numbers = (start, start + shape[2 + axis], 2 + axis, 1)
        ends = [graph.add_numbers(f"{name}_i{at}", values) for at, values in enumerate(numbers, 1)]
        cut = graph.add_tensor(name, tuple(shape), dtype)
        place: dict[str, JsonValue] = {"cut_axis": 2 + axis, "cut_from": start}
        # the compiler cuts the last part first
        before = graph.put(
            "Slice", name, [data, *ends], [cut], place, before=before, sources=node.sources
        )
        filters = graph.reshaped(weight, tuple(dims), f"{name}_conv_i1")
        result = graph.add_tensor(f"{name}_conv_o", out, dtype)
        pads = [pad if side % 2 != axis else 0 for side, pad in enumerate(_pads(node))]
        bias = node.inputs[2:] if not start else []
        attributes = {**node.attributes, "pads": [*pads], "part": at + 1, "biased": bool(bias)}
        inputs = [cut, filters, *bias]
        parts.append(graph.put("Conv", f"{name}_conv", inputs, [result], attributes, before=node))
    _add_up(graph, node, parts)
    for part in parts:
        _split(graph, part)


def _add_up(graph: LoweringGraph, node: Node, parts: list[Node]) -> None:
    """The sums of the parts, one by one, in place of the convolution."""
    first, *others = parts
    name, (total,) = first.name, first.outputs
    result, sources = node.outputs[0], node.sources
    for part in others:
        name, inputs = f"{name}_add", [total, *part.outputs]
        if part is parts[-1]:
            graph.remove(node)
            graph.put("Add", name, inputs, [result], after=part, sources=sources)
        else:
            total = graph.add_tensor(f"{name}_o", graph.shape(result), graph.tensors[total].dtype)
            graph.put("Add", name, inputs, [total], before=node)


def _padded(graph: LoweringGraph, node: Node, axis: int) -> str:
    pads, data = _pads(node), node.inputs[0]
    if not pads[axis] and not pads[axis + 2]:
        return data
    stem = _stem(graph, data)
    label = graph.fresh(f"{stem}_pad")
    if stem != data and graph.shape(data)[:3] == (1, 1, 1):
        return _padded_row(graph, node, label, stem)
    size = list(graph.shape(data)[2:])
    size[axis] += pads[axis] + pads[axis + 2]
    return _widened(graph, node, label, *size)


def _padded_row(graph: LoweringGraph, node: Node, label: str, stem: str) -> str:
    """One row of numbers: the compiler pads it as channels, and turns it for the parts."""
    length = graph.shape(stem)[2]
    _, before, _, behind = _pads(node)
    column = (1, length, 1, 1)
    data = graph.reshape(stem, column, f"{stem}_rs", graph.unique(f"{stem}_rs"), before=node)
    shape = (1, length + before + behind, 1, 1)
    numbers = graph.add_numbers(f"{label}_i1", 0, before, 0, 0, 0, behind, 0, 0)
    padded = graph.write("Pad", label, [data, numbers], shape, before=node)
    last = (graph.shape(node.inputs[1])[3] - 1) // _LONGEST_KERNEL
    name = f"{label}_slice#{last}_rs" if last else f"{label}_slice_rs"
    old = graph.maker(node.inputs[0], alone=True)
    if old is not None:
        graph.remove(old)
    return graph.transpose(padded, (0, 2, 3, 1), name, before=node)


def _stem(graph: LoweringGraph, data: str) -> str:
    """The tensor that a kernel of three dimensions is cut over, before it gets a fourth."""
    maker = graph.producer(data)
    if maker is None:
        return data
    source = maker.inputs[0]
    row = maker.op == "Transpose" and maker.name.startswith(f"{source}_slice")  # a padded one
    if row or (maker.op == "Reshape" and len(graph.shape(source)) == 3):
        return source
    return data


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
        _pick_rows(graph, node)


@on("Conv")
def pad_widely(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Padding of more than 15 pixels is a layer of its own."""
    pads = node.ints("pads")
    size = graph.shape(node.inputs[0])[2:]
    if len(pads) == 4 and len(size) == 2 and max(pads) > _WIDEST_PAD:
        whole = (size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3])
        padded = _widened(graph, node, graph.fresh(f"{node.inputs[0]}_pad"), *whole)
        graph.rewire(node, inputs=[padded, *node.inputs[1:]])
        node.attributes["pads"] = [0, 0, 0, 0]


def _pick_rows(graph: LoweringGraph, node: Node) -> None:
    pads = node.ints("pads", (0, 0, 0, 0))
    batch, channels, height, width = graph.shape(node.inputs[0])
    kernel = graph.shape(node.inputs[1])[2]
    rows = kernel * graph.shape(node.outputs[0])[2]
    data = node.inputs[0]
    if pads[0] or pads[2]:
        label = graph.fresh(f"{data}_pad")
        data = _widened(graph, node, label, height + 1, width)  # a row of zeros to pick from
    name = graph.fresh(f"{data}_gather")
    inputs = [data, graph.add_unknown(f"{name}_i1", (rows,), "int64")]
    shape = (batch, channels, rows, width)
    picked = graph.write("Gather", name, inputs, shape, "", {"axis": 2}, before=node)
    graph.rewire(node, inputs=[picked, *node.inputs[1:]])
    node.attributes["strides"] = [kernel, node.ints("strides", (1, 1))[1]]
    node.attributes["dilations"] = [1, node.ints("dilations")[1]]
    node.attributes["pads"] = [0, pads[1], 0, pads[3]]


def _widened(graph: LoweringGraph, node: Node, name: str, height: int, width: int) -> str:
    """What a Pad writes that makes the map of a convolution so large."""
    data = node.inputs[0]
    shape = (*graph.shape(data)[:2], height, width)
    numbers = graph.add_unknown(f"{name}_i1", (8,), "int64")
    return graph.write("Pad", name, [data, numbers], shape, before=node)
