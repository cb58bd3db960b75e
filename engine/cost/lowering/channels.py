"""What picks, moves or sums channels becomes a convolution."""

from __future__ import annotations

from math import prod

from engine.base.plain import JsonValue
from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on


@on("Transpose")
def find_shuffles(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Reshape, Transpose and Reshape that only permute channels are one Gather."""
    before = graph.maker(node.inputs[0], "Reshape", alone=True)
    after = graph.reader(node.outputs[0], "Reshape")
    if before is None or after is None or node.ints("perm") != (0, 2, 1, 3, 4):
        return
    data, out = before.inputs[0], after.outputs[0]
    shape, inner = graph.shape(data), graph.shape(node.inputs[0])
    ends = (inner[0], *inner[3:])
    if len(shape) == 4 and graph.shape(out) == shape and ends == (shape[0], *shape[2:]):
        _gather(graph, (f"{out}-gather",) * 2, data, out, [node, before, after], before)


@on("MaxPool")
def find_picks(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A MaxPool of one value that, between two Transposes, picks every n-th channel."""
    before = graph.maker(node.inputs[0], "Transpose")
    after = graph.reader(node.outputs[0], "Transpose")
    if (
        before is not None
        and after is not None
        and set(node.ints("kernel_shape")) == {1}
        and len(node.outputs) == 1
        and before.ints("perm") == after.ints("perm") == (0, 3, 2, 1)
        and node.ints("strides", (1, 1))[0] == 1
        and not any(node.ints("pads"))
    ):
        data, out = before.inputs[0], after.outputs[0]
        _gather(graph, (f"{node.name}_2gather", node.name), data, out, [node, after], node)
        if graph.unread(before.outputs[0]):
            graph.remove(before)


def _gather(
    graph: LoweringGraph,
    names: tuple[str, str],
    data: str,
    out: str,
    group: list[Node],
    before: Node,
) -> None:
    """A Gather of channels in place of nodes that move them; ``names``: of it and its indexes."""
    name, numbers = names
    index = graph.add_unknown(f"{numbers}_i1", (graph.shape(out)[1],), "int64")
    sources = tuple(source for node in group for source in node.sources)
    graph.put("Gather", name, [data, index], [out], {"axis": 1}, before=before, sources=sources)
    for member in group:
        graph.remove(member)


@on("DepthToSpace", "Gather", "ReduceSum")
def channels_to_convolutions(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Gather of channels, sum over channels, DepthToSpace."""
    shape, out = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    if len(shape) != 4 or graph.is_const(node.inputs[0]):
        return
    if node.op == "Gather":
        if node.int("axis") == 1 and len(out) == 4 and graph.is_const(node.inputs[1]):
            _convolution(graph, node, (out[1], shape[1], 1, 1))
            node.attributes["picks"] = 1
    elif node.op == "ReduceSum":
        if out == (shape[0], 1, *shape[2:]) and shape[1] > 1:
            _convolution(graph, node, (1, shape[1], 1, 1))
    elif context.upsamples(size := node.int("blocksize", 1)):
        _convolution(graph, node, (shape[1], out[1], size, size))


@on("Conv")
def merge_picks(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A reordering of channels behind a Concat goes into the dense convolution that reads it."""
    maker = graph.maker(node.inputs[0], "Concat")
    reader = graph.reader(node.outputs[0], "Conv")
    if not node.attributes.get("picks") or maker is None or reader is None:
        return
    if (
        reader.inputs[0] == node.outputs[0]
        and not reader.attributes.get("depthwise")
        and reader.int("group", 1) == 1
        and graph.shape(node.inputs[1])[0] == graph.shape(node.inputs[1])[1]
    ):
        weight = reader.inputs[1]
        outputs, _, *kernel = graph.shape(weight)
        shape = (outputs, graph.shape(node.inputs[0])[1], *kernel)
        graph.reshaped(weight, shape, weight)
        reader.sources = (*reader.sources, *node.sources)
        graph.bypass(node)


@on("Mul")
def scale_and_shift(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Mul and Add by a constant for each channel are one BatchNormalization: ``_2bn``."""
    follower = graph.reader(node.outputs[0], "Add")
    if follower is None:
        return
    pair = (node, follower)
    if any(all(test(graph, tensor) for tensor in pair) for test in (_by_channel, _by_number)):
        channels = graph.shape(node.outputs[0])[1]
        data, _ = graph.operands(node)
        graph.absorb(node, follower)
        graph.become(node, "BatchNormalization", graph.fresh(f"{node.name}_2bn"))
        names = (f"{node.name}_i{at}" for at in range(1, 5))
        numbers = [graph.add_unknown(tensor, (channels,), "float32") for tensor in names]
        graph.rewire(node, inputs=[data, *numbers])


def _by_number(graph: LoweringGraph, node: Node) -> bool:
    """Whether the constant is one number for all channels."""
    data, number = graph.operands(node)
    plain = data != "" and node.inputs[0] == data and len(graph.shape(data)) == 4
    return plain and graph.shape(number) in ((), (1,))


def _by_channel(graph: LoweringGraph, node: Node) -> bool:
    data, number = graph.operands(node)
    shape, dims = graph.shape(data), graph.shape(number)
    if len(shape) != 4:
        return False
    return prod(dims) == 1 or (dims[-3:] == (shape[1], 1, 1) and len(dims) in (3, 4))


def _convolution(graph: LoweringGraph, node: Node, weight: tuple[int, ...]) -> None:
    kernel: dict[str, JsonValue] = {"kernel_shape": list(weight[2:])}
    op, suffix, numbers = "Conv", "2conv", node.name if node.op == "Gather" else ""
    if node.op == "DepthToSpace":
        op, suffix = "ConvTranspose", "2deconv"
        kernel["strides"] = list(weight[2:])
    graph.become(node, op, graph.fresh(f"{node.name}_{suffix}"), attributes=kernel)
    filters = graph.add_unknown(f"{numbers or node.name}_i1", weight, "float32")
    graph.rewire(node, inputs=[node.inputs[0], filters])
