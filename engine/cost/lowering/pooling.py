"""Pools that the NPU cannot take as they are: in steps, as convolutions, in smaller pools."""

from __future__ import annotations

from engine.base.plain import JsonValue
from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on

_LARGEST = 7
"""Rows or columns that a pool of the NPU looks at."""

_TILE = 4
"""Rows or columns of each of the small pools that a larger one of stride 1 becomes."""

_MOST_STEPS = 64
"""Steps of a pool: each makes the map at least seven times smaller, or looks at three more rows."""


@on("AveragePool", "ReduceMean")
def rewrite_average_pools(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A pool of the whole map is a global one; one over more than 7 rows a depthwise Conv."""
    size = graph.shape(node.inputs[0])[2:]
    if node.op == "ReduceMean":
        if len(size) == 2 and _axes(graph, node) == [2, 3]:
            name = graph.fresh(f"{node.inputs[0]}_gavg")
            graph.become(node, "GlobalAveragePool", name, inputs=node.inputs[:1])
        return
    kernel, strides, pads = _geometry(node)
    padded, own = any(pads), _has_average(context)
    if len(kernel) != 2 or node.int("ceil_mode") or (padded and not node.int("count_include_pad")):
        return
    if padded and max(kernel) <= _LARGEST and own:
        return
    if not padded and kernel == size:
        graph.become(node, "GlobalAveragePool", graph.fresh(f"{node.name}_2gavg"))
    elif max(kernel) > _LARGEST or not own:
        _mean_filter(graph, node, graph.fresh(f"{node.name}_2dw"), kernel, strides)


@on("GlobalAveragePool", "GlobalMaxPool")
def rewrite_global_pools(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Global pools in steps of at most 7 rows and columns."""
    shape = graph.shape(node.inputs[0])
    if len(shape) == 4 and shape[2:] != (1, 1):
        _in_steps(graph, node)


@on("MaxPool")
def rewrite_max_pools(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A pool of the whole map is a global one; over more than 7 rows it becomes smaller ones."""
    if len(node.outputs) > 1 and node.outputs[1]:
        return
    kernel, strides, pads = _geometry(node)
    if len(kernel) != 2 or any(dilation != 1 for dilation in node.ints("dilations", (1, 1))):
        return
    whole = kernel == graph.shape(node.inputs[0])[2:] and not any(pads)
    if whole and max(kernel) > _LARGEST:
        graph.become(node, "GlobalMaxPool", graph.fresh(f"{node.name}_2gmp"))
    elif kernel == (1, 1) and max(strides) > 1:
        _mean_filter(graph, node, graph.fresh(f"{node.outputs[0]}_mp_conv"), kernel, strides)
    elif (
        strides == (1, 1)
        and any(pads)
        and graph.shape(node.inputs[0]) == graph.shape(node.outputs[0])
        and all(
            edge >= size > 1
            for edge, size in zip(kernel, graph.shape(node.inputs[0])[2:], strict=False)
        )
    ):
        _one_value(graph, node)
    elif kernel[0] == kernel[1] > _LARGEST and strides == (1, 1) and kernel[0] <= _MOST_STEPS:
        _smaller_pools(graph, node, kernel[0], pads)


def _has_average(context: Context) -> bool:
    """Whether the NPU has average pools in this dtype at all."""
    if context.dtype == "int8":
        return context.family != "rv1106b"
    return context.family in ("rk3566", "rk3588")


def _axes(graph: LoweringGraph, node: Node) -> list[int]:
    """As they stand in a Reduce."""
    axes = graph.whole(node.inputs[1]) if len(node.inputs) > 1 else None
    return list(node.ints("axes")) if axes is None else axes


def _geometry(node: Node) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernel = node.ints("kernel_shape")
    strides = node.ints("strides", (1,) * len(kernel))
    return kernel, strides, node.ints("pads", (0,) * (2 * len(kernel)))


def _mean_filter(
    graph: LoweringGraph,
    node: Node,
    name: str,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
) -> None:
    """The node becomes a depthwise convolution."""
    channels = graph.shape(node.inputs[0])[1]
    graph.become(
        node,
        "Conv",
        name,
        inputs=[node.inputs[0], *filters(graph, name, channels, kernel)],
        attributes={
            "kernel_shape": list(kernel),
            "strides": list(strides),
            "pads": list(node.ints("pads", (0, 0, 0, 0))),
            "group": channels,
            "depthwise": 1,
        },
    )


def filters(
    graph: LoweringGraph, name: str, channels: int, kernel: tuple[int, ...]
) -> tuple[str, ...]:
    """Weight of a depthwise convolution that the compiler makes itself."""
    shape = (1, channels, *kernel)
    return (graph.add_unknown(f"{name}_i1", shape, "float32"),)


def _in_steps(graph: LoweringGraph, node: Node) -> None:
    mean = node.op == "GlobalAveragePool"
    suffix = "_2conv" if mean else "_tile"
    batch, channels, *size = graph.shape(node.inputs[0])
    data = node.inputs[0]
    result = graph.tensors[node.outputs[0]]
    if len(result.shape) != 4:
        graph.add_tensor(result.name, (batch, channels, 1, 1), result.dtype)
    for step in range(_MOST_STEPS):
        kernel = tuple(min(_LARGEST, side) for side in size)
        size = [-(-side // step_) for side, step_ in zip(size, kernel, strict=True)]
        last = size == [1, 1]
        name = graph.fresh(f"{node.name}{suffix}{step}")
        inputs = [data]
        attributes: dict[str, JsonValue] = {"kernel_shape": list(kernel), "strides": list(kernel)}
        if mean:  # with a bias in every dtype
            inputs += filters(graph, name, channels, kernel)
            inputs.append(graph.add_unknown(f"{name}_i2", (channels,), "float32"))
            attributes |= {"group": channels, "depthwise": 1}
        op, out = "Conv" if mean else "MaxPool", node.outputs[0] if last else ""
        shape = (batch, channels, *size)
        data = graph.write(
            op, name, inputs, shape, out, attributes, behind=data, sources=node.sources
        )
        if last:
            break
    graph.remove(node)


def _one_value(graph: LoweringGraph, node: Node) -> None:
    """A window that is larger than the map: the compiler takes one value for all of it."""
    out = node.outputs[0]
    shape = graph.shape(out)
    pooled = graph.add_tensor(f"{out}_mp", (*shape[:2], 1, 1), graph.tensors[out].dtype)
    node.name = graph.fresh(node.name)
    node.attributes |= {"kernel_shape": list(shape[2:]), "pads": [0, 0, 0, 0]}
    graph.rewire(node, outputs=[pooled])
    if max(shape[2:]) > _LARGEST:
        graph.become(node, "GlobalMaxPool", graph.fresh(f"{node.name}_2gmp"))
    name = f"{out}_mp_tile#1"
    sizes = graph.add_unknown(f"{name}_i1", (4,), "int64")
    graph.put("Expand", name, [pooled, sizes], [out], after=node)


def _smaller_pools(graph: LoweringGraph, node: Node, kernel: int, pads: tuple[int, ...]) -> None:
    out = node.outputs[0]
    steps: list[tuple[str, int, tuple[int, ...]]] = []

    def split(name: str, mark: str, kernel: int, pads: tuple[int, ...]) -> None:
        if kernel <= _TILE:
            steps.append((name, kernel, pads))
            return
        first = (kernel + 2) // 2
        before = tuple(-(-padding // 2) for padding in pads)
        after = tuple(padding - done for padding, done in zip(pads, before, strict=True))
        split(f"{name}_{mark}", "1", first, before)
        split(name, "1", kernel + 1 - first, after)

    split(out, "0", kernel, pads)
    data = node.inputs[0]
    batch, channels, height, width = graph.shape(data)
    for name, size, pad in steps:
        height += pad[0] + pad[2] - size + 1
        width += pad[1] + pad[3] - size + 1
        window: dict[str, JsonValue] = {"kernel_shape": [size] * 2, "strides": [1, 1]}
        window["pads"] = list(pad)
        shape = (batch, channels, height, width)
        sources = node.sources
        data = graph.write("MaxPool", name, [data], shape, "", window, behind=data, sources=sources)
    graph.remove(node)
