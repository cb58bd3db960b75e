"""What leaves no layer: nodes that do nothing, and what only scales and shifts channels.

The latter goes into the weights of a neighbour.
"""

from __future__ import annotations

from math import prod

from engine.cost.lowered import Node
from engine.cost.lowering.fuse import has_int4
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on

_LARGEST_MAP = 5
"""Rows and columns of a map that a fully connected layer reads as it is."""

_WEIGHTED = ("Conv", "ConvTranspose")


@on("Div")
def divide_by_multiplying(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Division by a constant is a multiplication: ``_2mul``."""
    if len(node.inputs) == 2 and graph.is_const(node.inputs[1]):
        graph.become(node, "Mul", graph.fresh(f"{node.name}_2mul"))


@on(*_WEIGHTED)
def add_biases(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A convolution whose weights are integers always has a bias."""
    integers = context.dtype == "int8" or (context.int4 and has_int4(node))
    if len(node.inputs) == 2 and integers:
        _add_bias(graph, node, f"{node.inputs[1]}_bias_0")
        node.attributes["late_bias"] = node.name not in node.sources


@on(*_WEIGHTED)
def merge_constants(graph: LoweringGraph, node: Node, context: Context) -> None:
    """BatchNormalization, and constants that are added or multiplied, behind a convolution."""
    while not node.fused and len(node.inputs) > 1:
        follower = graph.only_reader(node.outputs[0])
        if follower is None or not _is_affine(graph, follower, node.outputs[0]):
            break
        graph.absorb(node, follower)
        if len(node.inputs) < 3 and follower.op != "Mul":
            _add_bias(graph, node, f"{node.name}_bias")


def _add_bias(graph: LoweringGraph, node: Node, name: str) -> None:
    bias = graph.add_unknown(name, (graph.shape(node.outputs[0])[1],), "float32")
    graph.rewire(node, inputs=[*node.inputs, bias])


@on("BatchNormalization", "Mul")
def merge_scales_forward(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A constant factor goes into the convolution that alone reads its result.

    A BatchNormalization, which shifts, too, only where no zeros are padded behind it.
    """
    normal = node.op == "BatchNormalization"
    data, reader = graph.feature(node), graph.reader(node.outputs[0], "Conv")
    if not data or reader is None or not _is_affine(graph, node, data):
        return
    if reader.inputs[0] != node.outputs[0] or not graph.is_const(reader.inputs[1]):
        return
    if normal and any(reader.ints("pads")):
        return
    if normal and len(reader.inputs) < 3:
        _add_bias(graph, reader, f"{reader.name}_bias")
    reader.sources = (*reader.sources, *node.sources)
    graph.remove(node)
    graph.replace_reads(node.outputs[0], data)


@on("Reshape")
def merge_flattening(graph: LoweringGraph, node: Node, context: Context) -> None:
    """A map of up to 5 x 5 that is made a vector for a 1 x 1 convolution: a kernel of its size."""
    shape, out = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    reader = graph.reader(node.outputs[0], "Conv")
    small = len(shape) == 4 and shape[2:] != (1, 1) and max(shape[2:]) <= _LARGEST_MAP
    if not small or reader is None or out != (shape[0], prod(shape[1:]), 1, 1):
        return
    if graph.shape(reader.inputs[1])[1:] != out[1:]:
        return
    weight = reader.inputs[1]
    filters = graph.reshaped(weight, (*graph.shape(weight)[:1], *shape[1:]), f"{weight}_map")
    graph.remove(node)
    reader.sources = (*reader.sources, *node.sources)
    reader.attributes["kernel_shape"] = list(shape[2:])
    graph.rewire(reader, inputs=[node.inputs[0], filters, *reader.inputs[2:]])


@on("Add")
def merge_branches(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``conv(x) + x``: the sum goes into the middle of the filters."""
    if len(node.inputs) != 2:
        return
    for branch, data in (node.inputs, node.inputs[::-1]):
        maker = graph.maker(branch, "Conv", alone=True)
        if (
            maker is not None
            and maker.inputs[0] == data
            and graph.only_reader(branch) is node
            and graph.shape(branch) == graph.shape(data)
            and (maker.int("group", 1) == 1 or maker.attributes.get("depthwise"))
            and _keeps_middle(graph, maker)
        ):
            graph.absorb(maker, node)
            graph.move_behind(maker, data)
            break


@on("BatchNormalization")
def shift_rows(graph: LoweringGraph, node: Node, context: Context) -> None:
    """BatchNormalization of rows behind a matrix: the weight is scaled, the rest is a sum."""
    if len(graph.shape(node.inputs[0])) != 2:
        return
    maker = graph.producer(node.inputs[0])
    while maker is not None and maker.op in ("Flatten", "Reshape", "Add"):
        maker = graph.producer(graph.feature(maker))
    if maker is None or maker.op != "MatMul" or not graph.is_const(maker.inputs[1]):
        return
    channels = graph.shape(node.inputs[0])[1]
    shift = graph.add_unknown(f"{node.name}_shift", (channels,), "float32")
    graph.become(node, "Add", attributes={})
    graph.rewire(node, inputs=[node.inputs[0], shift], outputs=node.outputs[:1])


def _keeps_middle(graph: LoweringGraph, node: Node) -> bool:
    kernel = graph.shape(node.inputs[1])[2:]
    pads = node.ints("pads", (0,) * (2 * len(kernel)))
    steps = node.ints("dilations", (1,) * len(kernel))
    half = tuple(size // 2 * step for size, step in zip(kernel, steps, strict=False))
    return all(extent % 2 for extent in kernel) and pads == half + half


def _is_affine(graph: LoweringGraph, node: Node, data: str) -> bool:
    """Whether a node only scales or shifts the channels of ``data`` by constants."""
    if node.op == "BatchNormalization":
        return node.inputs[0] == data
    if node.op not in ("Add", "Mul", "Sub") or len(node.inputs) != 2:
        return False
    other = node.inputs[1] if node.inputs[0] == data else node.inputs[0]
    if not graph.is_const(other) or (node.op == "Sub" and node.inputs[0] != data):
        return False
    shape, dims = graph.shape(data), graph.shape(other)
    if graph.shape(node.outputs[0]) != shape:
        return False
    dims = (1,) * (len(shape) - len(dims)) + dims
    return prod(dims) == 1 or (len(dims) > 1 and prod(dims) == dims[1] == shape[1])


# Nodes that do nothing on the chip are taken out.

_IDLE = frozenset({"DequantizeLinear", "Dropout", "Identity", "QuantizeLinear"})

_SMALL = 4096
"""Elements of a constant that is read."""

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})


def drop_idle(graph: LoweringGraph, context: Context) -> None:
    """Identity, Dropout, casts between floats, and movements that move nothing."""
    for node in graph:
        if _is_idle(node, graph):
            graph.bypass(node)


@on("Concat", "Relu")
def drop_repeated(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Relu of Relu, and Concat of a Concat that nobody else reads, are one node."""
    for tensor in list(node.inputs):
        maker = graph.maker(tensor, node.op)
        alone = graph.only_reader(tensor) is node
        if (
            maker is None
            or not alone
            or maker.attributes.get("axis") != node.attributes.get("axis")
        ):
            continue
        graph.remove(maker)
        at = node.inputs.index(tensor)
        graph.rewire(node, inputs=[*node.inputs[:at], *maker.inputs, *node.inputs[at + 1 :]])
        node.name = maker.name if node.op == "Relu" else node.name
        node.sources = (*maker.sources, *node.sources)


def drop_dead(graph: LoweringGraph, context: Context) -> None:
    """Nodes that nobody reads."""
    for node in reversed(graph.nodes):
        if all(not tensor or graph.unread(tensor) for tensor in node.outputs):
            graph.remove(node)


def _is_idle(node: Node, graph: LoweringGraph) -> bool:
    if not node.inputs or not node.outputs:
        return False
    old, new = graph.tensors.get(node.inputs[0]), graph.tensors.get(node.outputs[0])
    if old is None or new is None:
        return False
    if node.op in _IDLE:
        return True
    if node.op == "Cast":
        return old.dtype == new.dtype or {old.dtype, new.dtype} <= _FLOATS
    if node.op == "Transpose":
        perm = node.ints("perm")
        return perm == tuple(range(len(perm))) and bool(perm)
    if node.op in ("Expand", "Pad", "Reshape", "Resize", "Slice", "Squeeze", "Tile", "Unsqueeze"):
        return old.shape == new.shape and not _turns(node, graph)
    if node.op == "MaxPool":
        steps = (*node.ints("kernel_shape"), *node.ints("strides", (1,)))
        return set(steps) == {1} and len(node.outputs) == 1 and old.shape == new.shape
    if node.op == "BatchNormalization" and len(node.inputs) == 5:
        pairs = zip(node.inputs[1:], (1, 0, 0, 1), strict=True)
        return all(_all_are(graph, tensor, number) for tensor, number in pairs)
    if node.op in ("Concat", "Max", "Mean", "Min", "Sum"):
        return len(node.inputs) == 1
    if node.op in ("Add", "Div", "Mul", "Sub") and len(node.inputs) == 2:
        neutral = 0 if node.op in ("Add", "Sub") else 1
        # a bias stays one, whatever its numbers
        bias = len(dims := graph.shape(node.inputs[1])) == 1 < prod(dims)
        same = old.shape == new.shape and not old.const and not bias
        return same and _all_are(graph, node.inputs[1], neutral)
    return False


def _all_are(graph: LoweringGraph, tensor: str, number: int) -> bool:
    """Whether a small constant holds one number only; a filled one stands for unknown weights."""
    entry = graph.tensors.get(tensor)
    if entry is None or not entry.const or entry.filled or prod(entry.shape) > _SMALL:
        return False
    array = graph.array(tensor)
    return array is not None and bool((array == number).all())


def _turns(node: Node, graph: LoweringGraph) -> bool:
    """Whether a Slice or Pad of the same shape moves values all the same."""
    if node.op == "Slice" and len(node.inputs) > 4:
        steps = graph.array(node.inputs[4])
        return steps is None or bool((steps < 0).any())
    if node.op == "Pad":
        pads = graph.array(node.inputs[1]) if len(node.inputs) > 1 else None
        return pads is None or bool(pads.any())
    return False
