"""Convolutions in parts: filters too large for the on-chip buffer are cut, and groups written out.

The cuts are over the input channels.
"""

from __future__ import annotations

from math import prod

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on

_LONGEST = {"rk3588": 11264, "rk3566": 14336}
"""Weights of one filter (kernel x input channels) that one convolution has; else 7168."""

_MOST_TILES = 4096
"""Tiles of one convolution; one with more is no network's."""

_BANK = 32768
"""Bytes of one bank of the buffer of rk3576."""

_SPREAD_BYTES = {"rk3588": 614400, "rk3576": 614400}
"""Bytes of the rows under a dilated filter and of the filters: from 600,768 to 636,384."""

_MOST_CHANNELS = 8192
"""Input channels that rk3566 takes."""


def tile_filters(graph: LoweringGraph, context: Context) -> None:
    """A convolution with long filters: Split, one for each tile of channels, Add."""
    splits: dict[tuple[str, tuple[int, ...]], Node] = {}
    for node in graph:
        sizes = tile_sizes(graph, node, context)
        if len(sizes) > 1:
            _cut(graph, node, sizes, splits)


def tile_sizes(graph: LoweringGraph, node: Node, context: Context) -> list[int]:
    """Channels of each tile; none where a convolution stays whole."""
    channels, kernel = _dense(graph, node) or (0, 0)
    limit = _LONGEST.get(context.family, 7168)
    if not limit < channels * kernel <= limit * _MOST_TILES or kernel > limit:
        return []
    step, most = 8 if context.npu.atom_bytes == 8 else 16, limit // kernel
    if max(node.ints("dilations", (1, 1))) > 1 and most < step:
        return []  # not one group of channels would fit
    most = max(most // step * step, 1)
    count = -(-channels // most)
    if channels % count == 0 and channels // count % step == 0:
        return [channels // count] * count
    return [most] * (count - 1) + [channels - most * (count - 1)]


@on("Conv", "ConvTranspose")
def halve_filters(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A convolution whose filters fill the buffer: two in float16 over half the channels each."""
    shape = _dense(graph, node)
    if shape is None:
        return
    channels, _ = shape
    most = _most_spread(graph, node, context)
    if not most or channels <= most:
        most = _half(channels, context) if _fills(graph, node, channels, context) else channels
    count = -(-channels // most)
    if count > 1:
        _halve(graph, node, [most] * (count - 1) + [channels - most * (count - 1)])


def _dense(graph: LoweringGraph, node: Node) -> tuple[int, int] | None:
    """Input channels and the size of the kernel, its gaps counted, of a dense convolution."""
    if node.op not in ("Conv", "ConvTranspose") or node.int("group", 1) != 1 or node.fused:
        return None
    weight = graph.shape(node.inputs[1]) if len(node.inputs) > 1 else ()
    if len(weight) != 4 or not graph.is_const(node.inputs[1]):
        return None
    gaps = node.ints("dilations", (1, 1))
    kernel = prod((size - 1) * gap + 1 for size, gap in zip(weight[2:], gaps, strict=False))
    return weight[1 if node.op == "Conv" else 0], kernel


def _fills(graph: LoweringGraph, node: Node, channels: int, context: Context) -> bool:
    plain = prod(graph.shape(node.inputs[1])[2:4])
    if context.family == "rk3566":
        return channels > _MOST_CHANNELS
    if context.family == "rk3576":
        return _fills_banks(graph.shape(node.outputs[0])[1], channels, plain, context)
    if context.family == "rk2118":
        # what its table shows: no single limit explains all rows
        weights = -(-channels // 4) * 4 * plain
        return weights > (3840 if plain == 1 else 3584) and weights != 4096
    return False


def _fills_banks(outputs: int, channels: int, kernel: int, context: Context) -> bool:
    """Whether the filters that rk3576 works on at once are larger than four banks and a share.

    Asked for 1 to 64 groups of outputs: a single group has six banks, two have five each, and
    from four on it is four and a half. With seven groups and more some of between four and four
    and a half are halved, too; which is not known.
    """
    at_once = context.npu.macs_out[context.dtype]
    step = context.npu.atom(context.dtype)
    size = 1 if context.dtype == "int8" else 2
    filters = -(-channels // step) * step * kernel * min(outputs, at_once) * size
    groups = -(-outputs // at_once)
    return filters > 4 * _BANK + max(2 * _BANK // groups, _BANK // 2)


def _half(channels: int, context: Context) -> int:
    """Channels of the first of two halves: rk3576 takes whole groups where they are even."""
    if context.family == "rk3576" and -(-channels // 32) % 2 == 0:
        return -(-channels // 32) * 16
    step = context.npu.atom("float16")
    return -(-((channels + 1) // 2) // step) * step


def _cut(
    graph: LoweringGraph,
    node: Node,
    sizes: list[int],
    splits: dict[tuple[str, tuple[int, ...]], Node],
) -> None:
    data, out, name = node.inputs[0], node.outputs[0], node.name
    batch, _, *size = graph.shape(data)
    dtype, shape = graph.tensors[data].dtype, graph.shape(out)
    split = splits.get((data, tuple(sizes)))
    label = graph.fresh(f"{data}_split")
    if split is None:
        parts = [
            graph.add_tensor(f"{label}_o{at}", (batch, part, *size), dtype)
            for at, part in enumerate(sizes)
        ]
        sections = graph.add_unknown(f"{label}_i1", (len(sizes),), "int64")
        split = graph.put(
            "Split", label, [data, sections], parts, {"axis": 1}, behind=data, sources=node.sources
        )
        splits[data, tuple(sizes)] = split
    else:
        split.name = label
    results = [graph.add_tensor(f"{out}_tile{at}_conv", shape, dtype) for at in range(len(sizes))]
    for at, part in reversed(list(enumerate(split.outputs))):
        _part_of(graph, node, f"{name}_tile{at}", part, results[at], sizes[at], bias=at == 0)
    total, *others = results
    mark = "convtranspose_add" if node.op == "ConvTranspose" else "conv_add"
    for at, other in enumerate(others, 1):
        label = f"{out}_tile{0 if at == 1 else at}_{mark}"
        added = out if other is others[-1] else graph.add_tensor(label, shape, dtype)
        graph.put("Add", label, [total, other], [added], before=node)
        total = added
    graph.remove(node)


def _part_of(
    graph: LoweringGraph,
    node: Node,
    name: str,
    data: str,
    result: str,
    channels: int,
    *,
    bias: bool,
    dtype: str = "",
) -> None:
    """A convolution like ``node`` over some of its channels."""
    first, second, *kernel = graph.shape(node.inputs[1])
    shape = (first, channels, *kernel) if node.op == "Conv" else (channels, second, *kernel)
    inputs = [data, graph.reshaped(node.inputs[1], shape, f"{name}_i1")]
    if bias:
        inputs += node.inputs[2:]
    graph.put(
        node.op,
        name,
        inputs,
        [result],
        dict(node.attributes),
        kind=node.kind,
        before=node if dtype else None,
        behind="" if dtype else data,
        sources=node.sources,
        dtype=dtype or node.dtype,
    )


def _most_spread(graph: LoweringGraph, node: Node, context: Context) -> int:
    """Channels whose rows and filters fit the buffer together where gaps spread the rows.

    0 where the layer fits as it is, or its rows are not spread.
    """
    gap = node.ints("dilations", (1, 1))[0]
    if gap < 2 or context.family not in _SPREAD_BYTES:
        return 0
    outputs, channels, *kernel = graph.shape(node.inputs[1])
    rows = (kernel[0] - 1) * gap + 1
    per_channel = rows * graph.shape(node.inputs[0])[3] + prod(kernel) * outputs
    limit = _SPREAD_BYTES[context.family]
    if per_channel * channels * (1 if context.dtype == "int8" else 2) <= limit:
        return 0
    return max(limit // (2 * per_channel) // 8 * 8, 8)


def _halve(graph: LoweringGraph, node: Node, sizes: list[int]) -> None:
    data, out, name = node.inputs[0], node.outputs[0], node.name
    batch, _, *size = graph.shape(data)
    dtype, shape, half = graph.tensors[data].dtype, graph.shape(out), "float16"
    parts = [
        graph.add_tensor(f"{name}_split_{at}", (batch, part, *size), dtype)
        for at, part in enumerate(sizes)
    ]
    graph.put("Split", name, [data], parts, {"axis": 1}, before=node, dtype=half)
    results = [graph.add_tensor(f"{name}_branch{at}_o", shape, dtype) for at in range(len(sizes))]
    for at, part in enumerate(parts):
        own, channels = f"{name}_branch{at}", sizes[at]
        _part_of(graph, node, own, part, results[at], channels, bias=at == 0, dtype=half)
    sources = node.sources
    graph.remove(node)
    total, *others = results
    for at, other in enumerate(others, 1):
        label = name if at == 1 else f"{name}_add{at}"
        added = out if other is others[-1] else graph.add_tensor(f"{label}_o", shape, dtype)
        after = graph.producer(results[-1] if at == 1 else total)
        graph.put("Add", label, [total, other], [added], after=after, sources=sources, dtype=half)
        total = added


# Convolutions in groups: depthwise, dense with zeros between the groups, or one for each group.

_MOST_PARTS = 1 << 16
"""Groups of one convolution that are written out; a graph with more is no network."""


def rewrite_groups(graph: LoweringGraph, context: Context) -> None:
    """Depthwise weights are told as (1, C, kh, kw); other groups become dense convolutions.

    Where the input channels of a group fill whole groups of the native layout, there is a
    convolution for each between a Split and a Concat; else one with zero weights between. A
    weight that several convolutions share stays one constant.
    """
    tensors = dict(graph.tensors)
    read_otherwise = {
        tensor for node in graph if not _is_depthwise(node, graph) for tensor in node.inputs
    }
    for node in graph:
        if node.op not in ("Conv", "ConvTranspose") or len(node.inputs) < 2:
            continue
        group = node.int("group", 1)
        weight = tensors[node.inputs[1]]
        if group < 2 or len(weight.shape) != 4:
            continue
        if node.op == "ConvTranspose":
            if weight.shape[:2] == (group, 1):
                node.attributes["depthwise"] = 1
            continue
        cout, part, *kernel = weight.shape
        if (cout, part) == (group, 1):
            node.attributes["depthwise"] = 1
            name = f"{weight.name}_depthwise" if weight.name in read_otherwise else weight.name
            dims = (1, cout, *kernel)
            depthwise_weight = graph.add_tensor(name, dims, weight.dtype, weight.values)
            graph.rewire(node, inputs=[node.inputs[0], depthwise_weight, *node.inputs[2:]])
        elif part % context.whole_channels or group > _MOST_PARTS:
            name = graph.fresh(node.name)
            dims = (cout, part * group, *kernel)
            dense = graph.add_tensor(f"{name}_i1", dims, weight.dtype, weight.values)
            graph.rewire(node, inputs=[node.inputs[0], dense, *node.inputs[2:]])
            node.name = name
            node.attributes["group"] = 1
            graph.move_behind(node, node.inputs[0])


@on("Conv", "ConvTranspose")
def write_groups(graph: LoweringGraph, node: Node, context: Context) -> None:
    """The groups that are left: Split, a convolution for each group, Concat."""
    group = node.int("group", 1)
    if 1 < group <= _MOST_PARTS and not node.attributes.get("depthwise"):
        _write_out(graph, node, group)


def _is_depthwise(node: Node, graph: LoweringGraph) -> bool:
    """Whether it is a convolution of two dimensions that has a filter for each channel."""
    if node.op != "Conv" or len(node.inputs) < 2:
        return False
    shape, group = graph.shape(node.inputs[1]), node.int("group", 1)
    return len(shape) == 4 and group > 1 and shape[:2] == (group, 1)


def _write_out(graph: LoweringGraph, node: Node, group: int) -> None:
    data, result = node.inputs[0], node.outputs[0]
    batch, channels, *size = graph.shape(data)
    _, cout, *out_size = graph.shape(result)
    part, out = (batch, channels // group, *size), (batch, cout // group, *out_size)
    parts = [graph.like(data, part, f"{data}_branch{at}") for at in range(group)]
    dtype = graph.tensors[data].dtype
    results = [graph.add_tensor(f"{result}_branch{at}", out, dtype) for at in range(group)]
    graph.put("Split", node.name, [data], parts, {"axis": 1}, before=node)
    weight, *biases = node.inputs[1:3]
    first, *rest = graph.shape(weight)
    shape = (first // group, *rest)
    for at in range(group):
        filters = f"{weight}_branch{at}"  # one of all nodes that read the weight
        if graph.shape(filters) not in ((), shape):
            filters = graph.unique(filters)
        inputs = [parts[at], graph.reshaped(weight, shape, filters)]
        inputs += [graph.reshaped(bias, (cout // group,), f"{bias}_branch{at}") for bias in biases]
        name, attributes = f"{node.name}_group_{at}", {**node.attributes, "group": 1}
        graph.put(node.op, name, inputs, [results[at]], attributes, kind=node.kind, before=node)
    sources = node.sources
    graph.remove(node)
    last = graph.producer(results[-1])
    graph.put("Concat", node.name, results, node.outputs, {"axis": 1}, after=last, sources=sources)
