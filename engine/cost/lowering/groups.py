"""Convolutions in groups: depthwise, dense with zeros between the groups, or one for each group."""

from __future__ import annotations

from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.node import Node
from engine.cost.lowering.rules import Context

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


def write_groups(graph: LoweringGraph, context: Context) -> None:
    """The groups that are left: Split, a convolution for each group, Concat."""
    for node in graph:
        group = node.int("group", 1)
        if (
            node.op in ("Conv", "ConvTranspose")
            and 1 < group <= _MOST_PARTS
            and not node.attributes.get("depthwise")
        ):
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
