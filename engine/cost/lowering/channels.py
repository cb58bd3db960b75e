"""What picks, moves or sums channels becomes a convolution."""

from __future__ import annotations

from math import prod

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = [
    "channels_to_convolutions",
    "find_picks",
    "find_shuffles",
    "merge_picks",
    "scale_and_shift",
]


def find_shuffles(graph: LoweringGraph, context: Context) -> None:
    """Reshape, Transpose and Reshape that only permute channels are one Gather."""
    for node in graph:
        if node.op != "Transpose" or node not in graph:
            continue
        before, after = graph.producer(node.inputs[0]), graph.only_reader(node.outputs[0])
        if (
            before is None
            or after is None
            or before.op != "Reshape"
            or after.op != "Reshape"
            or graph.only_reader(before.outputs[0]) is not node
        ):
            continue
        data, out = before.inputs[0], after.outputs[0]
        shape, inner = graph.shape(data), graph.shape(node.inputs[0])
        if (
            len(shape) == 4
            and graph.shape(out) == shape
            and len(inner) == 5
            and inner[3:] == shape[2:]
            and inner[0] == shape[0]
            and node.ints("perm") == (0, 2, 1, 3, 4)
        ):
            name = f"{out}-gather"
            made = Node("Gather", name, "Gather", [data], [out], {"axis": 1})
            made.sources = (*node.sources, *before.sources, *after.sources)
            index = graph.add_unknown(f"{name}_i1", (shape[1],), "int64")
            made.inputs.append(index)
            graph.insert(made, before=before)
            for each in (before, node, after):
                graph.remove(each)
            graph.rewrites["replace_inner_dim_shuffle"] += 1


def find_picks(graph: LoweringGraph, context: Context) -> None:
    """A MaxPool of one value that, between two Transposes, picks every n-th channel."""
    for node in graph:
        if node.op != "MaxPool" or set(node.ints("kernel_shape")) != {1} or len(node.outputs) > 1:
            continue
        before, after = graph.producer(node.inputs[0]), graph.only_reader(node.outputs[0])
        if (
            before is None
            or after is None
            or before.op != "Transpose"
            or after.op != "Transpose"
            or not before.ints("perm") == after.ints("perm") == (0, 3, 2, 1)
            or node.ints("strides", (1, 1))[0] != 1
            or any(node.ints("pads"))
        ):
            continue
        data, out = before.inputs[0], after.outputs[0]
        index = graph.add_unknown(f"{node.name}_i1", (graph.shape(out)[1],), "int64")
        made = Node("Gather", f"{node.name}_2gather", "Gather", [data, index], [out], {"axis": 1})
        made.sources = (*node.sources, *after.sources)
        graph.insert(made, before=node)
        for each in (node, after):
            graph.remove(each)
        if not graph.has_readers(before.outputs[0]) and not graph.is_output(before.outputs[0]):
            graph.remove(before)
        graph.rewrites["replace_step_pick_maxpool_to_gather"] += 1


def channels_to_convolutions(graph: LoweringGraph, context: Context) -> None:
    """Gather of channels, sum over channels, DepthToSpace."""
    for node in graph:
        shape = graph.shape(node.inputs[0]) if node.inputs else ()
        if len(shape) != 4 or graph.is_const(node.inputs[0]):
            continue
        out = graph.shape(node.outputs[0])
        if node.op == "Gather" and node.int("axis") == 1 and len(out) == 4:
            if graph.is_const(node.inputs[1]):
                _convolution(graph, node, (out[1], shape[1], 1, 1))
                node.attributes["picks"] = 1
        elif node.op == "ReduceSum" and out == (shape[0], 1, *shape[2:]) and shape[1] > 1:
            _convolution(graph, node, (1, shape[1], 1, 1))
        elif node.op == "DepthToSpace" and context.upsamples(node.int("blocksize", 1)):
            size = node.int("blocksize", 1)
            _convolution(graph, node, (shape[1], out[1], size, size))


def merge_picks(graph: LoweringGraph, context: Context) -> None:
    """A reordering of channels behind a Concat goes into the dense convolution that reads it."""
    for node in graph:
        if not node.attributes.get("picks"):
            continue
        maker = graph.producer(node.inputs[0])
        if maker is None or maker.op != "Concat":
            continue
        reader = graph.only_reader(node.outputs[0])
        if (
            reader is not None
            and reader.op == "Conv"
            and reader.inputs[0] == node.outputs[0]
            and not reader.attributes.get("depthwise")
            and reader.int("group", 1) == 1
            and graph.shape(node.inputs[1])[0] == graph.shape(node.inputs[1])[1]
        ):
            weight = graph.tensors[reader.inputs[1]]
            channels = graph.shape(node.inputs[0])[1]
            shape = (weight.shape[0], channels, *weight.shape[2:])
            graph.add_tensor(weight.name, shape, weight.dtype, weight.values)
            reader.sources = (*reader.sources, *node.sources)
            graph.bypass(node)
            graph.rewrites["fuse_align_conv_forward"] += 1


def scale_and_shift(graph: LoweringGraph, context: Context) -> None:
    """Mul and Add by a constant for each channel are one BatchNormalization: ``_2bn``."""
    for node in graph:
        follower = graph.only_reader(node.outputs[0]) if node.op == "Mul" else None
        if follower is None or follower.op != "Add":
            continue
        pair = (node, follower)
        if not all(_by_channel(graph, each) for each in pair) and not all(
            _by_number(graph, each) for each in pair
        ):
            continue
        channels = graph.shape(node.outputs[0])[1]
        data = graph.features(node)[0]
        graph.absorb(node, follower)
        node.op = node.kind = "BatchNormalization"
        node.name = graph.fresh(f"{node.name}_2bn")
        numbers = [
            graph.add_unknown(f"{node.name}_i{at}", (channels,), "float32") for at in range(1, 5)
        ]
        graph.rewire(node, inputs=[data, *numbers])
        graph.rewrites["replace_mul_add_by_bn"] += 1


def _by_number(graph: LoweringGraph, node: Node) -> bool:
    """Whether the constant is one number for all channels."""
    if len(node.inputs) != 2 or len(graph.features(node)) != 1:
        return False
    data = graph.features(node)[0]
    number = next(each for each in node.inputs if each != data)
    shape = graph.shape(data)
    return len(shape) == 4 and node.inputs[0] == data and graph.shape(number) in ((), (1,))


def _by_channel(graph: LoweringGraph, node: Node) -> bool:
    if len(node.inputs) != 2 or len(graph.features(node)) != 1:
        return False
    data = graph.features(node)[0]
    number = next(each for each in node.inputs if each != data)
    shape, dims = graph.shape(data), graph.shape(number)
    if len(shape) == 4 and prod(dims) == 1:
        return True
    return len(shape) == 4 and dims[-3:] == (shape[1], 1, 1) and len(dims) in (3, 4)


def _convolution(graph: LoweringGraph, node: Node, weight: tuple[int, ...]) -> None:
    deconv = node.op == "DepthToSpace"
    label = node.name
    node.name = graph.fresh(f"{label}_2{'deconv' if deconv else 'conv'}")
    numbers = f"{label if node.op == 'Gather' else node.name}_i1"
    filters = graph.add_unknown(numbers, weight, "float32")
    node.op = node.kind = "ConvTranspose" if deconv else "Conv"
    node.attributes = {"kernel_shape": list(weight[2:])}
    if deconv:
        node.attributes["strides"] = list(weight[2:])
    graph.rewire(node, inputs=[node.inputs[0], filters])
    graph.rewrites["channels_to_conv"] += 1
