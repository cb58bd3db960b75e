"""Channelwise operators: each output channel depends on one input channel alone.

A *lane* is axis 1 of a tensor counted in channels; behind a Reshape to two dimensions a channel is
a block of neighbouring elements. Nodes of three kinds touch lanes: *writers* make one out of
weights (Conv, Gemm), *readers* sum one up with weights, *channelwise* ones work on each channel
alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.passes.base import array, constant_input, input_at, operators, shape

_KEEPS_ZERO = operators(
    "Relu LeakyRelu Tanh Elu Selu Celu HardSwish Gelu Mish Abs Neg Sqrt Softsign Erf Sign Floor "
    "Ceil Round Identity Dropout MaxPool AveragePool GlobalAveragePool GlobalMaxPool"
)
_CHANGES_ZERO = operators("Sigmoid HardSigmoid Exp Softplus")
_JOINS = operators("Add Sub Mul Max Min Sum")


@dataclass(frozen=True)
class WeightedOp:
    """A node that sums up channels with constant weights and writes new ones.

    Attributes:
        weight: index of the weight among the inputs.
        into, out: axes of the weight along its input's and its output's channels.
        bias: index of the bias; its last axis (of Conv its only one) follows the output's channels.
    """

    weight: int
    into: int
    out: int
    bias: int


def weighted_op(node: ir.Node) -> WeightedOp | None:
    """How a node holds its weights; None for others and for weights that are no constant."""
    if node.op_type in ("Conv", "ConvTranspose"):
        if node.attributes.get_int("group", 1) != 1:
            return None
        axes = (1, 0) if node.op_type == "Conv" else (0, 1)
        weighted = WeightedOp(1, *axes, 2)
    elif node.op_type == "Gemm":
        if node.attributes.get_int("transA", 0):
            return None
        axes = (1, 0) if node.attributes.get_int("transB", 0) else (0, 1)
        weighted = WeightedOp(1, *axes, 2)
    elif node.op_type == "MatMul":
        if len(shape(node.inputs[0]) or ()) != 2:
            return None
        weighted = WeightedOp(1, 0, 1, 2)
    else:
        return None
    weight = constant_input(node, weighted.weight)
    if weight is None or weight.ndim < 2:
        return None
    bias = input_at(node, weighted.bias)
    numbers = array(bias)
    if bias is not None and (
        numbers is None or numbers.size not in (1, weight.shape[weighted.out])
    ):
        return None
    return weighted


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
