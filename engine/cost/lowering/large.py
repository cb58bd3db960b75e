"""Kernels over more than 16 rows, and strides over more than 7, in parts."""

from __future__ import annotations

import numpy as np

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["shorten_strides", "split_kernels", "spread_transposed"]

_LONGEST_KERNEL = 16
_LONGEST_STRIDE = 7
_MOST_PARTS = 64
"""Parts of one kernel; one of more than 1,024 rows is no network's."""


def split_kernels(graph: LoweringGraph, context: Context) -> None:
    """A kernel of more than 16 columns or rows: Slices, a convolution of each, sums of them."""
    for node in graph:
        if node.op == "Conv" and len(node.inputs) > 1:
            kernel = graph.shape(node.inputs[1])[2:]
            if len(kernel) == 2 and max(kernel) <= _LONGEST_KERNEL * _MOST_PARTS:
                _split(graph, node)


def shorten_strides(graph: LoweringGraph, context: Context) -> None:
    """A stride of more than 7: a smaller one, then a depthwise 1 x 1 that picks, or two."""
    for node in graph:
        step: Node | None = node
        while step is not None:
            step = _shorten(graph, step)


def spread_transposed(graph: LoweringGraph, context: Context) -> None:
    """A transposed convolution of another stride: zeros between the pixels, and a convolution."""
    for node in graph:
        strides = node.ints("strides", (1, 1))
        if node.op != "ConvTranspose" or len(strides) != 2 or node.int("group", 1) > 1:
            continue
        if all(context.upsamples(each) for each in strides) or len(node.inputs) < 2:
            continue
        data, weight = node.inputs[0], graph.tensors[node.inputs[1]]
        batch, channels, *_ = graph.shape(data)
        out = graph.shape(node.outputs[0])
        kernel = weight.shape[2:]
        size = [out[2 + at] + kernel[at] - 1 for at in range(2)]
        name = graph.unique(f"{data}_pad")
        wide = graph.add_tensor(name, (batch, channels, *size), graph.tensors[data].dtype)
        graph.put("exConvTransposePad", name, [data], [wide], before=node)
        shape = (weight.shape[1], weight.shape[0], *kernel)
        turned = graph.add_tensor(f"{weight.name}_turned", shape, weight.dtype, weight.values)
        graph.become(
            node,
            "Conv",
            graph.fresh(f"{node.name}#1"),
            inputs=[wide, turned, *node.inputs[2:]],
            attributes={"kernel_shape": list(kernel), "strides": [1, 1]},
        )
        graph.rewrites["convert_deconv_to_conv"] += 1


def _shorten(graph: LoweringGraph, node: Node) -> Node | None:
    """What picks of a node with a smaller stride; None where its stride stays."""
    strides = node.ints("strides", (1, 1))
    if node.op != "Conv" or len(strides) != 2 or max(strides) <= _LONGEST_STRIDE:
        return None
    picks = tuple(_pick(each) for each in strides)
    if not all(picks):
        return None
    steps = tuple(each // pick for each, pick in zip(strides, picks, strict=True))
    batch, channels, *_ = graph.shape(node.outputs[0])
    size = _out_size(graph, node, steps)
    out, name = node.outputs[0], node.name
    dtype = graph.tensors[out].dtype
    middle = graph.add_tensor(f"{name}_split", (batch, channels, *size), dtype)
    node.name = f"{name}_split"
    node.attributes["strides"] = list(steps)
    graph.rewire(node, outputs=[middle])
    weight = graph.add_unknown(f"{name}_select_i1", (1, channels, 1, 1), "float32")
    made = graph.put(
        "Conv",
        f"{name}_select",
        [middle, weight],
        [out],
        {"strides": list(picks), "group": channels, "depthwise": 1},
        after=node,
    )
    graph.rewrites["convert_large_stride_conv_to_two_conv"] += 1
    return made


def _pick(stride: int) -> int:
    """The power of two that leaves a stride of 7 at most; 0 where there is none."""
    pick = 1
    while stride // pick > _LONGEST_STRIDE:
        pick *= 2
    return pick if stride % pick == 0 else 0


def _pads(node: Node) -> tuple[int, int, int, int]:
    pads = node.ints("pads", (0, 0, 0, 0))
    return (pads[0], pads[1], pads[2], pads[3]) if len(pads) == 4 else (0, 0, 0, 0)


def _out_size(graph: LoweringGraph, node: Node, steps: tuple[int, ...]) -> list[int]:
    size, pads = graph.shape(node.inputs[0])[2:], _pads(node)
    kernel = graph.shape(node.inputs[1])[2:]
    gaps = node.ints("dilations", (1, 1))
    return [
        (size[at] + pads[at] + pads[at + 2] - (kernel[at] - 1) * gaps[at] - 1) // steps[at] + 1
        for at in range(2)
    ]


def _split(graph: LoweringGraph, node: Node) -> None:
    kernel = graph.shape(node.inputs[1])[2:]
    axis = 1 if kernel[1] > _LONGEST_KERNEL else 0
    if kernel[axis] <= _LONGEST_KERNEL or max(node.ints("dilations", (1, 1))) > 1:
        return
    data = _padded(graph, node, axis)
    out = graph.shape(node.outputs[0])
    dtype = graph.tensors[data].dtype
    weight = graph.tensors[node.inputs[1]]
    results: list[str] = []
    parts: list[Node] = []
    before = node
    for at, start in enumerate(range(0, kernel[axis], _LONGEST_KERNEL)):
        length = min(_LONGEST_KERNEL, kernel[axis] - start)
        label = graph.fresh(f"{_stem(graph, data)}_slice")
        shape = list(graph.shape(data))
        shape[2 + axis] += length - kernel[axis]
        numbers = (start, start + shape[2 + axis], 2 + axis, 1)
        ends = [_number(graph, f"{label}_i{at}", each) for at, each in enumerate(numbers, 1)]
        wrote = graph.add_tensor(label, tuple(shape), dtype)
        cut = Node("Slice", label, "Slice", [data, *ends], [wrote], sources=node.sources)
        cut.attributes = {"cut_axis": 2 + axis, "cut_from": start}
        before = graph.insert(cut, before=before)  # the compiler cuts the last part first
        dims = list(weight.shape)
        dims[2 + axis] = length
        filters = graph.add_tensor(f"{label}_conv_i1", tuple(dims), weight.dtype, weight.values)
        results.append(graph.add_tensor(f"{label}_conv_o", out, dtype))
        pads = [each if side % 2 != axis else 0 for side, each in enumerate(_pads(node))]
        bias = node.inputs[2:] if not start else []
        attributes = {**node.attributes, "pads": list(pads), "part": at + 1}
        attributes["biased"] = bool(bias)
        inputs = [wrote, filters, *bias]
        made = Node("Conv", f"{label}_conv", "Conv", inputs, results[-1:], attributes)
        made.sources = node.sources
        parts.append(graph.insert(made, before=node))
    _add_up(graph, node, parts, results)
    graph.rewrites["seperate_large_kernel_conv"] += 1
    for each in parts:
        _split(graph, each)


def _add_up(graph: LoweringGraph, node: Node, parts: list[Node], results: list[str]) -> None:
    """The sums of the parts, one by one, in place of the convolution."""
    name, total = parts[0].name, results[0]
    result = node.outputs[0]
    for part, each in zip(parts[1:], results[1:], strict=True):
        name = f"{name}_add"
        last = part is parts[-1]
        dtype = graph.tensors[total].dtype
        shape = graph.shape(result)
        made = result if last else graph.add_tensor(f"{name}_o", shape, dtype)
        joined = Node("Add", name, "Add", [total, each], [made], sources=node.sources)
        if last:
            graph.remove(node)
            graph.insert(joined, after=part)
        else:
            graph.insert(joined, before=node)
        total = made


def _number(graph: LoweringGraph, name: str, value: int) -> str:
    return graph.add_tensor(name, (1,), "int64", lambda: np.array([value], np.int64))


def _padded(graph: LoweringGraph, node: Node, axis: int) -> str:
    pads, data = _pads(node), node.inputs[0]
    if not pads[axis] and not pads[axis + 2]:
        return data
    stem = _stem(graph, data)
    label = graph.fresh(f"{stem}_pad")
    if stem != data and graph.shape(data)[:3] == (1, 1, 1):
        return _padded_row(graph, node, label, stem)
    shape = list(graph.shape(data))
    shape[2 + axis] += pads[axis] + pads[axis + 2]
    wrote = graph.add_tensor(label, tuple(shape), graph.tensors[data].dtype)
    numbers = graph.add_unknown(f"{label}_i1", (8,), "int64")
    graph.put("Pad", label, [data, numbers], [wrote], before=node)
    return wrote


def _padded_row(graph: LoweringGraph, node: Node, label: str, stem: str) -> str:
    """One row of numbers: the compiler pads it as channels, and turns it for the parts."""
    length = graph.shape(stem)[2]
    _, before, _, behind = _pads(node)
    more = before + behind
    dtype = graph.tensors[stem].dtype
    column = (1, length, 1, 1)
    data = graph.reshape(stem, column, f"{stem}_rs", graph.unique(f"{stem}_rs"), before=node)
    wrote = graph.add_tensor(label, (1, length + more, 1, 1), dtype)
    sides = (0, before, 0, 0, 0, behind, 0, 0)
    numbers = graph.add_tensor(f"{label}_i1", (8,), "int64", lambda: np.array(sides, np.int64))
    graph.put("Pad", label, [data, numbers], [wrote], before=node)
    kernel = graph.shape(node.inputs[1])[3]
    last = (kernel - 1) // _LONGEST_KERNEL
    name = f"{label}_slice#{last}_rs" if last else f"{label}_slice_rs"
    old = graph.producer(node.inputs[0])
    if old is not None and graph.only_reader(node.inputs[0]) is node:
        graph.remove(old)
    return graph.transpose(wrote, (0, 2, 3, 1), name, before=node)


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
