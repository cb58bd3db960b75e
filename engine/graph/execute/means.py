"""Means over large windows as an NPU computes them: in stages, each rounded to 8 bits.

A compiler makes a depthwise convolution of a mean, and the kernels of those end at 8 rows and
columns. A larger one in a file with parameters of its own is split by the
vendor's toolkit 2.3.2 into pieces without any, which compute in float16, or stop the compilation
for chips that have none (seen for RV1106).
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.spec import add_constant, constant_of, maker_of, new_node, new_value

LARGEST_WINDOW = 8
"""Rows and columns of the largest kernel of a depthwise convolution."""

_LARGEST_STRIDE = 7

# The scale of blocks against that of what they are means of. With equal scales every other sum of
# two integers is a tie, which float arithmetic may round to either side; so none is one.
_NO_TIES = 257 / 256


def quantized_means(graph: Graph) -> list[ir.Node]:
    """The GlobalAveragePool nodes of known size from an int8 tensor to another."""
    return [node for node in graph.nodes if is_quantized_mean(node)]


def means_in_stages(graph: Graph) -> Graph:
    """A copy whose means of int8 tensors are over 8 rows and columns at most.

    Before a mean over more stand means of blocks, with Q/DQ pairs of their own; names of tensors
    stay. A graph without such means comes back as it is.
    """
    names = [node.name or "" for node in quantized_means(graph) if max(_sizes(node)) > 8]
    if not names:
        return graph
    copy = graph.copy()
    unique_names = UniqueNames(set(copy.values) | {node.name or "" for node in copy.nodes})
    for name in names:
        node = copy.node(name)
        while max(_sizes(node)) > LARGEST_WINDOW:
            _add_stage(copy.model.graph, node, unique_names)
    return Graph(copy.model)


def is_quantized_mean(node: ir.Node) -> bool:
    """Whether a node is a GlobalAveragePool of known size from an int8 tensor to another."""
    source = node.inputs[0] if node.op_type == "GlobalAveragePool" else None
    if source is None or source.shape is None or source.shape.is_dynamic() or len(source.shape) < 3:
        return False
    return is_between_int8(node)


def is_between_int8(node: ir.Node) -> bool:
    """Whether a node reads a dequantized int8 tensor, and its result is quantized and no more."""
    before = maker_of(node.inputs[0], "DequantizeLinear")
    stored = None if before is None else before.inputs[0]
    readers = [use.node.op_type for use in node.outputs[0].uses()]
    whole = stored is not None and stored.dtype == ir.DataType.INT8
    return whole and readers == ["QuantizeLinear"]


def _sizes(node: ir.Node) -> list[int]:
    """Rows and columns that a mean is over."""
    source = node.inputs[0]
    if source is None or source.shape is None:
        return [0]
    return [int(size) for size in source.shape.numpy()[2:]]


def _block(size: int) -> int:
    """Rows of one block, so that as few blocks as possible are left, whole ones where they fit."""
    least = math.ceil(size / LARGEST_WINDOW)
    if least > _LARGEST_STRIDE:
        return _LARGEST_STRIDE
    whole = (side for side in range(least, _LARGEST_STRIDE + 1) if size % side == 0)
    return next(whole, least)


def _add_stage(graph: ir.Graph, node: ir.Node, names: UniqueNames) -> None:
    """Put means of blocks before a mean: a depthwise convolution and its Q/DQ pair.

    What is missing from the last block is zero; the blocks are larger by as much.
    """
    source = node.inputs[0]
    before = maker_of(source)
    if source is None or source.shape is None or before is None:
        return
    sizes, channels = _sizes(node), int(source.shape.numpy()[1])
    blocks = [_block(size) for size in sizes]
    counts = [math.ceil(size / block) for size, block in zip(sizes, blocks, strict=True)]
    missing = [n * k - size for n, k, size in zip(counts, blocks, sizes, strict=True)]
    name = names.claim(f"{node.name}/blocks")
    shape = [int(source.shape.numpy()[0]), channels, *counts]
    scale, zero = constant_of(before.inputs[1]), constant_of(before.inputs[2])
    if scale is None or zero is None:
        return
    grown = np.prod([n * k / size for n, k, size in zip(counts, blocks, sizes, strict=True)])

    def constant(hint: str, array: np.ndarray) -> ir.Value:
        return add_constant(graph, names.claim(f"{name}/{hint}"), array)

    def tensor(hint: str, dtype: ir.DataType, dims: list[int]) -> ir.Value:
        return new_value(names.claim(f"{name}/{hint}") if hint else name, dtype, ir.Shape(dims))

    def added(
        op: str, inputs: list[ir.Value], out: ir.Value, **attributes: int | list[int]
    ) -> None:
        stage = new_node(op, inputs, out, names.claim(f"{name}/{op}"), attributes)
        graph.insert_before(node, stage)

    kernel = [channels, 1, *blocks]
    weight = tensor("weight", ir.DataType.FLOAT, kernel)
    stored = [
        constant("weight/quantized", np.full(kernel, 127, np.int8)),
        constant("weight/scale", np.array(grown / (127.0 * np.prod(blocks)), np.float32)),
        constant("weight/zero_point", np.array(0, np.int8)),
    ]
    params = [
        constant("scale", np.asarray(scale.numpy() * grown * _NO_TIES, np.float32)),
        constant("zero_point", zero.numpy()),
    ]
    values = tensor("float", ir.DataType.FLOAT, shape)
    integers = tensor("quantized", ir.DataType.INT8, shape)
    result = tensor("", ir.DataType.FLOAT, shape)
    added("DequantizeLinear", stored, weight)
    pads = [0] * len(blocks) + missing
    added(
        "Conv",
        [source, weight],
        values,
        group=channels,
        kernel_shape=blocks,
        strides=blocks,
        pads=pads,
    )
    added("QuantizeLinear", [values, *params], integers)
    added("DequantizeLinear", [integers, *params], result)
    node.replace_input_with(0, result)
