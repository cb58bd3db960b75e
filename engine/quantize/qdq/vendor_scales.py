"""Weights whose scales are farther apart than a chip takes, as the vendor's compiler rounds them.

One layer's scales per channel may differ by a factor of 1024 on the RK3566 and RK3568, and of 16384
on the other chips of generation 2 (seen with toolkit 2.3.2, by compiling convolutions whose scales
are powers of two apart). Where a channel's scale is smaller, the compiler takes the smallest that
is allowed, so that the channel keeps fewer steps. It says nothing of it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, constant_of, params_of
from engine.graph.passes import Editor

__all__ = ["SCALE_SPAN", "narrow_scales", "span_of", "wide_layers"]

SCALE_SPAN = 1 << 14
"""How far the scales of one layer may be apart, on most chips."""

_SMALL_SPAN = 1 << 10
_SMALL = frozenset({"rk3566", "rk3568"})


def span_of(chip: str) -> int:
    """How far the scales of one layer's weights may be apart on a chip of generation 2."""
    return _SMALL_SPAN if chip in _SMALL else SCALE_SPAN


def wide_layers(graph: Graph, span: int) -> dict[str, int]:
    """Layers whose scales are farther apart -> how many of their channels get a coarser one."""
    found = {}
    for node in graph.nodes:
        floor = _floor(node, span)
        if floor is not None:
            found[node.name or ""] = int(np.sum(_scales(node) < floor))
    return found


def narrow_scales(graph: Graph, span: int) -> Graph:
    """A copy whose scales are no farther apart; the graph itself where none are."""
    names = list(wide_layers(graph, span))
    if not names:
        return graph
    copy = graph.copy()
    edit = Editor(copy.model)
    for name in names:
        node = copy.node(name)
        floor = _floor(node, span)
        if floor is None:
            continue
        before = _scales(node)
        scales = np.maximum(before, floor)
        inputs = list(node.inputs)
        for index in range(1, min(len(inputs), 3)):  # the weight, and the bias in its steps
            inputs[index] = _coarse(edit, node, index, scales / before)
        edit.set_inputs(node, inputs)
    return Graph(copy.model)


def _coarse(edit: Editor, node: ir.Node, index: int, factors: np.ndarray) -> ir.Value | None:
    """A constant of a node, rounded anew to scales that are ``factors`` as large."""
    value = node.inputs[index]
    read = None if value is None else value.producer()
    given = None if read is None else params_of(read)
    stored = None if read is None else constant_of(read.inputs[0])
    if value is None or read is None or given is None or stored is None:
        return value
    if len(given.scale) != len(factors):
        return value
    old = np.array(given.scale, np.float32)
    scales = (old * factors).astype(np.float32)
    integers = stored.numpy()
    axis = given.axis or 0
    shape = [-1 if at == axis else 1 for at in range(integers.ndim)]
    ratio = (old.astype(np.float64) / scales).reshape(shape)
    zero = np.array(given.zero_point, np.int64).reshape(shape if len(given.zero_point) > 1 else -1)
    rounded = np.rint((integers.astype(np.int64) - zero) * ratio) + zero
    name = f"{node.name}/{'weight' if index == 1 else 'bias'}/coarse"
    made = edit.insert(
        "DequantizeLinear",
        [
            edit.constant(rounded.astype(integers.dtype), f"{name}/quantized"),
            edit.constant(scales, f"{name}/scale"),
            *read.inputs[2:],
        ],
        {"axis": axis},
        before=node,
        like=value,
        name=f"{name}/DequantizeLinear",
    )
    return made.outputs[0]


def _scales(node: ir.Node) -> np.ndarray:
    """The scales of its weight; none where it has no weight with one for each channel."""
    value = node.inputs[1] if len(node.inputs) > 1 else None
    read = None if value is None else value.producer()
    if node.op_type not in _WEIGHTED or read is None or read.op_type != "DequantizeLinear":
        return np.zeros(0, np.float32)
    given = params_of(read)
    if given is None or given.axis is None or constant_of(read.inputs[0]) is None:
        return np.zeros(0, np.float32)
    return np.array(given.scale, np.float32)


def _floor(node: ir.Node, span: int) -> np.float32 | None:
    """The smallest scale that the layer may have; None where all are at least that."""
    scales = _scales(node)
    if not scales.size:
        return None
    floor = np.float32(scales.max() / np.float32(span))
    return floor if scales.min() < floor else None


_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
