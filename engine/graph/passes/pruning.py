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

from engine.graph.ir.spec import input_at, numbers_of
from engine.graph.passes.base import Pass, array, constant_input, operators, shape
from engine.graph.passes.editor import Editor

# Channelwise operators: each output channel depends on one input channel alone.
#
# A *lane* is axis 1 of a tensor counted in channels; behind a Reshape to two dimensions a channel
# is a block of neighbouring elements. Nodes of three kinds touch lanes: *writers* make one out of
# weights (Conv, Gemm), *readers* sum one up with weights, *channelwise* ones work on each channel
# alone.

_KEEPS_ZERO = operators(
    "Relu LeakyRelu Tanh Elu Selu Celu HardSwish Gelu Mish Abs Neg Sqrt Softsign Erf Sign Floor "
    "Ceil Round Identity Dropout MaxPool AveragePool GlobalAveragePool GlobalMaxPool"
)
_CHANGES_ZERO = operators("Sigmoid HardSigmoid Exp Softplus")
_JOINS = operators("Add Sub Mul Max Min Sum")


@dataclass(frozen=True)
class WeightedOp:
    """A node that sums up channels with constant weights and writes new ones.

    Its weight is input 1, its bias input 2, whose last axis (of Conv its only one) follows the
    output's channels.

    Attributes:
        into, out: axes of the weight along its input's and its output's channels.
    """

    into: int
    out: int


def weighted_op(node: ir.Node) -> WeightedOp | None:
    """How a node holds its weights; None for others and for weights that are no constant."""
    attributes = node.attributes
    turned = node.op_type == "Conv" or attributes.get_int("transB", 0) != 0
    into, out = (1, 0) if turned else (0, 1)
    if node.op_type in ("Conv", "ConvTranspose"):
        plain = attributes.get_int("group", 1) == 1
    elif node.op_type == "Gemm":
        plain = attributes.get_int("transA", 0) == 0
    else:
        plain = node.op_type == "MatMul" and len(shape(node.inputs[0]) or ()) == 2
    weight = constant_input(node, 1) if plain else None
    if weight is None or weight.ndim < 2:
        return None
    bias, numbers = input_at(node, 2), constant_input(node, 2)
    if bias is not None and (numbers is None or numbers.size not in (1, weight.shape[out])):
        return None
    return WeightedOp(into, out)


@dataclass(frozen=True)
class ChannelwiseOp:
    """A node whose output's channel depends on the same channel of its inputs alone.

    Attributes:
        lanes: indices of the inputs that are lanes.
        constants: (index of a constant input, its axis that follows the channels).
        block: how many elements a channel has in the output for one in the input (Reshape).
        silent: channels of the output that are zero whatever comes in.
        keeps_zero: channels that stay zero where the input's channel is zero (where all are, of a
            node with several lanes; any one of them is enough for a product).
        grouped: whether the number of groups is the number of channels.
    """

    lanes: tuple[int, ...]
    keeps_zero: np.ndarray
    silent: np.ndarray
    constants: tuple[tuple[int, int], ...] = ()
    block: int = 1
    grouped: bool = False


def channelwise_op(node: ir.Node) -> ChannelwiseOp | None:
    """The node as a channelwise operator; None where it mixes channels."""
    dims, out = shape(node.inputs[0]) if node.inputs else None, shape(node.outputs[0])
    if dims is None or out is None or len(dims) < 2 or len(node.outputs) > 1:
        return None
    every, none = np.ones(dims[1], dtype=bool), np.zeros(dims[1], dtype=bool)
    op = node.op_type
    if op in _KEEPS_ZERO:
        return ChannelwiseOp((0,), every, none)
    if op in _CHANGES_ZERO:
        return ChannelwiseOp((0,), none, none)
    if op == "Clip":
        low, high = (constant_input(node, index) for index in (1, 2))
        kept = (low is None or not (low > 0).any()) and (high is None or not (high < 0).any())
        return ChannelwiseOp((0,), every if kept else none, none)
    if op == "Conv":
        return _depthwise(node, dims)
    if op == "Reshape":
        flat = len(out) == 2 and out == (dims[0], int(np.prod(dims[1:])))
        return ChannelwiseOp((0,), every, none, block=int(np.prod(dims[2:]))) if flat else None
    if op == "Resize":
        scales = constant_input(node, 2)
        fits = scales is not None and scales.size == len(dims) and scales[1] == 1
        return ChannelwiseOp((0,), every, none) if fits else None
    if op == "PRelu":
        return _with_constants(node, dims, every, none, (0,))
    if op in _JOINS:
        return _join(node, dims, out)
    return None


def _depthwise(node: ir.Node, dims: tuple[int, ...]) -> ChannelwiseOp | None:
    weight = constant_input(node, 1)
    channels = dims[1]
    if weight is None or node.attributes.get_int("group", 1) != channels:
        return None
    if weight.shape[:2] != (channels, 1):
        return None
    bias = constant_input(node, 2)
    if bias is None and input_at(node, 2) is not None:
        return None
    unbiased = np.ones(channels, dtype=bool) if bias is None else bias == 0
    empty = ~weight.reshape(channels, -1).any(axis=1)
    constants = ((1, 0),) if bias is None else ((1, 0), (2, 0))
    return ChannelwiseOp((0,), unbiased, unbiased & empty, constants, grouped=True)


def _with_constants(
    node: ir.Node,
    dims: tuple[int, ...],
    keeps: np.ndarray,
    silent: np.ndarray,
    lanes: tuple[int, ...],
) -> ChannelwiseOp | None:
    """A carrier whose other inputs are constants that broadcast to its lanes."""
    constants = []
    for index, value in enumerate(node.inputs):
        if index in lanes or value is None:
            continue
        numbers = array(value)
        if numbers is None or numbers.ndim > len(dims):
            return None
        axis = 1 - (len(dims) - numbers.ndim)
        if axis >= 0 and numbers.shape[axis] not in (1, dims[1]):
            return None
        if axis >= 0 and numbers.shape[axis] == dims[1] > 1:
            constants.append((index, axis))
    return ChannelwiseOp(lanes, keeps, silent, tuple(constants))


def _join(node: ir.Node, dims: tuple[int, ...], out: tuple[int, ...]) -> ChannelwiseOp | None:
    """Elementwise operators: of lanes with the same channels, and of constants."""
    lanes = tuple(i for i, value in enumerate(node.inputs) if array(value) is None)
    shapes = [shape(node.inputs[index]) for index in lanes]
    if any(s is None or len(s) != len(out) or s[1] != out[1] for s in shapes):
        return None
    keeps, silent = np.ones(out[1], dtype=bool), np.zeros(out[1], dtype=bool)
    for value in node.inputs:
        numbers = array(value)
        if numbers is None:
            continue
        if numbers.ndim > len(out):
            return None
        zero = np.broadcast_to(
            _zero_channels(numbers, len(out)), (out[1],) if numbers.size else (0,)
        )
        if node.op_type == "Mul":
            silent = silent | zero
        else:
            keeps = keeps & zero
    return _with_constants(node, out, keeps, silent, lanes)


def _zero_channels(numbers: np.ndarray, rank: int) -> np.ndarray:
    """Channels (or one for all) in which a constant is zero everywhere."""
    wide = numbers.reshape((1,) * (rank - numbers.ndim) + numbers.shape)
    others = tuple(axis for axis in range(rank) if axis != 1)
    zero: np.ndarray = ~np.any(wide != 0, axis=others)
    return zero


@dataclass
class _Lane:
    """Tensors whose channels belong together, and whoever writes and reads them."""

    values: list[ir.Value] = field(default_factory=list)
    open: str = ""  # why its channels must stay


_REMOVED = "channel removed"


class ZeroChannels(Pass):
    """Channels whose weights are zero."""

    name = "zero-channels"
    level = 1
    summary = "Channels that are always zero, or that only weights of zero read, are removed."
    keeps_bits = False

    def apply(self, edit: Editor) -> None:
        """One look at all lanes, then the removals."""
        channels = _Channels(edit)
        for lane in channels.lanes():
            if lane.open:
                continue
            gone = np.logical_and.reduce([channels.zero[v] | channels.dead[v] for v in lane.values])
            if gone.all():
                gone[0] = False  # a tensor without channels is none
            if gone.any():
                channels.remove(lane, ~gone)
                self.counts[_REMOVED] = self.counts.get(_REMOVED, 0) + int(gone.sum())


class _Channels:
    """The channels of a graph: which are always zero, which nothing reads, and their removal.

    Attributes:
        zero: of every lane's values the channels that are zero whatever comes in.
        dead: those that nothing reads with a weight other than zero.
    """

    def __init__(self, edit: Editor) -> None:
        self._edit = edit
        self._nodes = edit.nodes()
        self._weighted: dict[ir.Node, WeightedOp] = {}
        self._channelwise: dict[ir.Node, ChannelwiseOp] = {}
        for node in self._nodes:
            if (form := weighted_op(node)) is not None:
                self._weighted[node] = form
            elif (channel_op := channelwise_op(node)) is not None:
                self._channelwise[node] = channel_op
        self._blocks = self._sizes()
        self.zero: dict[ir.Value, np.ndarray] = {}
        for node in self._nodes:
            zero = self._zero(node)
            if zero is not None:
                self.zero[node.outputs[0]] = zero
        self.dead: dict[ir.Value, np.ndarray] = {}
        for node in reversed(self._nodes):
            for value in node.outputs:
                if value in self.zero:
                    masks = [self._unread(value, use.node) for use in value.uses()]
                    unread = bool(masks) and not value.is_graph_output()
                    self.dead[value] = np.all(masks, axis=0) if unread else self._none(value)

    def _none(self, value: ir.Value) -> np.ndarray:
        return np.zeros_like(self.zero[value])

    def _sizes(self) -> dict[ir.Value, int]:
        """Elements of axis 1 that make up one channel of a value."""
        blocks: dict[ir.Value, int] = {}
        for node in self._nodes:
            for value in (*node.inputs, *node.outputs):
                if value is not None:
                    blocks.setdefault(value, 1)
            if node in self._channelwise:
                source = node.inputs[self._channelwise[node].lanes[0]]
                if source is not None:
                    blocks[node.outputs[0]] = blocks[source] * self._channelwise[node].block
        return blocks

    def _zero(self, node: ir.Node) -> np.ndarray | None:
        """Channels of a node's result that are zero whatever comes in; None outside of lanes."""
        if node in self._weighted:
            form = self._weighted[node]
            bias = constant_input(node, 2)
            empty = _empty(node, 1, form.out)
            return empty if bias is None else empty & (bias.reshape(-1) == 0)
        channel_op = self._channelwise.get(node)
        if channel_op is None:
            return None
        none = np.zeros_like(channel_op.keeps_zero)
        sources = [value for index in channel_op.lanes if (value := node.inputs[index])]
        parts = [self.zero.get(value, none) for value in sources]
        if any(part.size != none.size for part in parts):  # behind a Reshape to blocks
            parts = [none]
        join = np.logical_or if node.op_type == "Mul" else np.logical_and
        return np.asarray(channel_op.silent | (channel_op.keeps_zero & join.reduce(parts)))

    def _unread(self, value: ir.Value, reader: ir.Node) -> np.ndarray:
        """Channels of a value that one reader ignores."""
        channels = self.zero[value].size
        if reader in self._weighted:
            form = self._weighted[reader]
            empty = _empty(reader, 1, form.into)
            if reader.inputs[0] is not value or empty.size != channels * self._blocks[value]:
                return self._none(value)
            return np.asarray(empty.reshape(channels, -1).all(axis=1))
        channel_op = self._channelwise.get(reader)
        if channel_op is None or channel_op.silent.size != channels:
            return self._none(value)
        ignored: np.ndarray = channel_op.silent | self.dead.get(
            reader.outputs[0], np.zeros_like(channel_op.silent)
        )
        if reader.op_type == "Mul":
            for index in channel_op.lanes:
                other = reader.inputs[index]
                if other is not None and other is not value and other in self.zero:
                    ignored = ignored | self.zero[other]
        return ignored

    def lanes(self) -> list[_Lane]:
        """Values joined by carriers; open where something else writes or reads one of them."""
        lane_of: dict[ir.Value, _Lane] = {}
        for node in self._nodes:
            if node in self._weighted:
                lane_of.setdefault(node.outputs[0], _Lane([node.outputs[0]]))
            if node not in self._channelwise:
                continue
            lane = lane_of.setdefault(node.outputs[0], _Lane([node.outputs[0]]))
            for index in self._channelwise[node].lanes:
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
            lane.open = next((why for value in lane.values if (why := self._open(value))), "")
        return lanes

    def _open(self, value: ir.Value) -> str:
        """Why the channels of a value must stay; empty where they need not."""
        writer = value.producer()
        if writer is None or value.is_graph_output():
            return "it is an end of the graph"
        if writer not in self._weighted and writer not in self._channelwise:
            return f"{writer.op_type} writes it"
        if shape(value) is None:
            return "its shape is not known"
        for use in value.uses():
            reads = use.node in self._weighted and use.idx == 0
            carries = use.node in self._channelwise and use.idx in self._channelwise[use.node].lanes
            carries &= self._blocks[value] == 1  # a block of elements is only read as a whole
            if not reads and not carries:
                return f"{use.node.op_type} reads it"
        return ""

    def remove(self, lane: _Lane, keep: np.ndarray) -> None:
        """Keep these channels of a lane alone."""
        for value in lane.values:
            block = self._blocks[value]
            writer = value.producer()
            if writer in self._weighted:
                form = self._weighted[writer]
                self._cut(writer, 1, form.out, keep)
                if (bias := constant_input(writer, 2)) is not None and bias.size > 1:
                    self._edit.set_constant(writer, 2, bias.reshape(-1)[keep])
            elif writer is not None:
                self._cut_carrier(writer, keep, block)
            for use in value.uses():
                if use.node in self._weighted:
                    form = self._weighted[use.node]
                    self._cut(use.node, 1, form.into, np.repeat(keep, block))
            dims = list(shape(value) or ())
            dims[1] = int(keep.sum()) * block
            value.shape = ir.Shape(dims)

    def _cut(self, node: ir.Node, index: int, axis: int, keep: np.ndarray) -> None:
        numbers = constant_input(node, index)
        if numbers is not None:
            self._edit.set_constant(node, index, np.compress(keep, numbers, axis))

    def _cut_carrier(self, node: ir.Node, keep: np.ndarray, block: int) -> None:
        for index, axis in self._channelwise[node].constants:
            self._cut(node, index, axis, keep)
        if self._channelwise[node].grouped:
            node.attributes["group"] = ir.AttrInt64("group", int(keep.sum()))
        if node.op_type == "Reshape":
            dims = shape(node.outputs[0]) or ()
            target = np.array([dims[0], int(keep.sum()) * block], dtype=np.int64)
            self._edit.set_constant(node, 1, target)


def _empty(node: ir.Node, index: int, axis: int) -> np.ndarray:
    """Where a weight holds nothing but zeros along all axes but one."""
    weight = numbers_of(node.inputs[index])
    others = tuple(other for other in range(weight.ndim) if other != axis)
    empty: np.ndarray = ~np.any(weight != 0, axis=others)
    return empty
