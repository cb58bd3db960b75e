"""Channels that add nothing are removed (the vendor's ``model_pruning`` [RKNN-T2 2.3.0, 2.2]).

A channel goes where in every tensor of its lane it is zero whatever comes in, or unread: all
weights that would read it are zero. Sums lose terms that are zero, so results stay equal (up to the
order in which a kernel adds). Weights that are zero between other weights stay: leaving those out
is the chip's business (``sparse_infer``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from engine.graph.passes.base import Pass, constant_input, shape
from engine.graph.passes.channelwise import ChannelwiseOp, WeightedOp, channelwise_op, weighted_op
from engine.graph.passes.editor import Editor


@dataclass
class _Lane:
    """Tensors whose channels belong together, and whoever writes and reads them."""

    values: list[ir.Value] = field(default_factory=list)
    open: str = ""  # why its channels must stay


class ZeroChannels(Pass):
    """Channels whose weights are zero."""

    name = "zero-channels"
    level = 1
    summary = "Channels that are always zero, or that only weights of zero read, are removed."
    keeps_bits = False

    def apply(self, edit: Editor) -> None:
        """One look at all lanes, then the removals."""
        nodes = edit.nodes()
        weighted: dict[ir.Node, WeightedOp] = {}
        channelwise: dict[ir.Node, ChannelwiseOp] = {}
        for node in nodes:
            if (form := weighted_op(node)) is not None:
                weighted[node] = form
            elif (channel_op := channelwise_op(node)) is not None:
                channelwise[node] = channel_op
        blocks = _blocks(nodes, channelwise)
        lanes = _lanes(nodes, weighted, channelwise, blocks)
        zero = _zero(nodes, weighted, channelwise)
        dead = _dead(nodes, weighted, channelwise, zero, blocks)
        for lane in lanes:
            if lane.open:
                continue
            gone = np.logical_and.reduce([zero[v] | dead[v] for v in lane.values])
            if gone.all():
                gone[0] = False  # a tensor without channels is none
            if gone.any():
                self._remove(lane, ~gone, weighted, channelwise, blocks, edit)

    def _remove(
        self,
        lane: _Lane,
        keep: np.ndarray,
        weighted: dict[ir.Node, WeightedOp],
        channelwise: dict[ir.Node, ChannelwiseOp],
        blocks: dict[ir.Value, int],
        edit: Editor,
    ) -> None:
        for value in lane.values:
            writer = value.producer()
            if writer in weighted:
                form = weighted[writer]
                _cut(writer, form.weight, form.out, keep, edit)
                if (bias := constant_input(writer, form.bias)) is not None and bias.size > 1:
                    edit.set_constant(writer, form.bias, bias.reshape(-1)[keep])
            elif writer is not None:
                _cut_carrier(writer, channelwise[writer], keep, blocks[value], edit)
            for use in value.uses():
                if use.node in weighted:
                    wide = np.repeat(keep, blocks[value])
                    _cut(use.node, weighted[use.node].weight, weighted[use.node].into, wide, edit)
            dims = list(shape(value) or ())
            dims[1] = int(keep.sum()) * blocks[value]
            value.shape = ir.Shape(dims)
        self.counts[_REMOVED] = self.counts.get(_REMOVED, 0) + int((~keep).sum())


_REMOVED = "channel removed"


def _cut(node: ir.Node, index: int, axis: int, keep: np.ndarray, edit: Editor) -> None:
    numbers = constant_input(node, index)
    if numbers is not None:
        edit.set_constant(node, index, np.compress(keep, numbers, axis))


def _cut_carrier(
    node: ir.Node, channel_op: ChannelwiseOp, keep: np.ndarray, block: int, edit: Editor
) -> None:
    for index, axis in channel_op.constants:
        _cut(node, index, axis, keep, edit)
    if channel_op.grouped:
        node.attributes["group"] = ir.AttrInt64("group", int(keep.sum()))
    if node.op_type == "Reshape":
        dims = shape(node.outputs[0]) or ()
        target = np.array([dims[0], int(keep.sum()) * block], dtype=np.int64)
        edit.set_constant(node, 1, target)


def _blocks(nodes: list[ir.Node], channelwise: dict[ir.Node, ChannelwiseOp]) -> dict[ir.Value, int]:
    """Elements of axis 1 that make up one channel of a value."""
    blocks: dict[ir.Value, int] = {}
    for node in nodes:
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                blocks.setdefault(value, 1)
        if node in channelwise:
            source = node.inputs[channelwise[node].lanes[0]]
            if source is not None:
                blocks[node.outputs[0]] = blocks[source] * channelwise[node].block
    return blocks


def _lanes(
    nodes: list[ir.Node],
    weighted: dict[ir.Node, WeightedOp],
    channelwise: dict[ir.Node, ChannelwiseOp],
    blocks: dict[ir.Value, int],
) -> list[_Lane]:
    """Values joined by carriers; open where something else writes or reads one of them."""
    lane_of: dict[ir.Value, _Lane] = {}
    for node in nodes:
        if node in weighted:
            lane_of.setdefault(node.outputs[0], _Lane([node.outputs[0]]))
        if node not in channelwise:
            continue
        lane = lane_of.setdefault(node.outputs[0], _Lane([node.outputs[0]]))
        for index in channelwise[node].lanes:
            value = node.inputs[index]
            if value is None:
                continue
            other = lane_of.setdefault(value, _Lane([value]))
            if other is not lane:
                small, lane = sorted((lane, other), key=lambda one: len(one.values))
                lane.values += small.values
                lane_of.update(dict.fromkeys(small.values, lane))
    lanes = list({id(lane): lane for lane in lane_of.values()}.values())
    for lane in lanes:
        lane.open = next(
            (why for v in lane.values if (why := _open(v, weighted, channelwise, blocks))), ""
        )
    return lanes


def _open(
    value: ir.Value,
    weighted: dict[ir.Node, WeightedOp],
    channelwise: dict[ir.Node, ChannelwiseOp],
    blocks: dict[ir.Value, int],
) -> str:
    writer = value.producer()
    if writer is None or value.is_graph_output():
        return "it is an end of the graph"
    if writer not in weighted and writer not in channelwise:
        return f"{writer.op_type} writes it"
    if shape(value) is None:
        return "its shape is not known"
    for use in value.uses():
        reads = use.node in weighted and use.idx == 0
        carries = use.node in channelwise and use.idx in channelwise[use.node].lanes
        carries &= blocks[value] == 1  # a block of elements is only read as a whole
        if not reads and not carries:
            return f"{use.node.op_type} reads it"
    return ""


def _zero(
    nodes: list[ir.Node],
    weighted: dict[ir.Node, WeightedOp],
    channelwise: dict[ir.Node, ChannelwiseOp],
) -> dict[ir.Value, np.ndarray]:
    """Channels of every lane's values that are zero whatever comes in."""
    zero: dict[ir.Value, np.ndarray] = {}
    for node in nodes:
        out = node.outputs[0] if node.outputs else None
        if out is None:
            continue
        if node in weighted:
            form = weighted[node]
            weight = constant_input(node, form.weight)
            bias = constant_input(node, form.bias)
            if weight is None:
                continue
            others = tuple(axis for axis in range(weight.ndim) if axis != form.out)
            empty = ~np.any(weight != 0, axis=others)
            zero[out] = empty if bias is None else empty & (bias.reshape(-1) == 0)
        elif node in channelwise:
            channel_op = channelwise[node]
            none = np.zeros_like(channel_op.keeps_zero)
            sources = [value for index in channel_op.lanes if (value := node.inputs[index])]
            parts = [zero.get(value, none) for value in sources]
            if any(part.size != none.size for part in parts):  # behind a Reshape to blocks
                parts = [none]
            join = np.logical_or if node.op_type == "Mul" else np.logical_and
            zero[out] = channel_op.silent | (channel_op.keeps_zero & join.reduce(parts))
    return zero


def _dead(
    nodes: list[ir.Node],
    weighted: dict[ir.Node, WeightedOp],
    channelwise: dict[ir.Node, ChannelwiseOp],
    zero: dict[ir.Value, np.ndarray],
    blocks: dict[ir.Value, int],
) -> dict[ir.Value, np.ndarray]:
    """Channels of every lane's values that nothing reads with a weight other than zero."""
    dead: dict[ir.Value, np.ndarray] = {}
    for node in reversed(nodes):
        for value in node.outputs:
            if value not in zero:
                continue
            masks = [
                _unread(value, use.node, weighted, channelwise, zero, dead, blocks)
                for use in value.uses()
            ]
            known = np.logical_and.reduce(masks) if masks else np.zeros_like(zero[value])
            dead[value] = known & (not value.is_graph_output())
    return dead


def _unread(
    value: ir.Value,
    reader: ir.Node,
    weighted: dict[ir.Node, WeightedOp],
    channelwise: dict[ir.Node, ChannelwiseOp],
    zero: dict[ir.Value, np.ndarray],
    dead: dict[ir.Value, np.ndarray],
    blocks: dict[ir.Value, int],
) -> np.ndarray:
    """Channels of a value that one reader ignores."""
    channels = zero[value].size
    if reader in weighted:
        form = weighted[reader]
        weight = constant_input(reader, form.weight)
        if weight is None or reader.inputs[0] is not value:
            return np.zeros(channels, dtype=bool)
        others = tuple(axis for axis in range(weight.ndim) if axis != form.into)
        empty = ~np.any(weight != 0, axis=others)
        if empty.size != channels * blocks[value]:
            return np.zeros(channels, dtype=bool)
        whole: np.ndarray = empty.reshape(channels, -1).all(axis=1)
        return whole
    channel_op = channelwise.get(reader)
    if channel_op is None or channel_op.silent.size != channels:
        return np.zeros(channels, dtype=bool)
    ignored: np.ndarray = channel_op.silent | dead.get(
        reader.outputs[0], np.zeros_like(channel_op.silent)
    )
    if reader.op_type == "Mul":
        for index in channel_op.lanes:
            other = reader.inputs[index]
            if other is not None and other is not value and other in zero:
                ignored = ignored | zero[other]
    return ignored
