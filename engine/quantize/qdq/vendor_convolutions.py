"""Convolutions in a form that the vendor's toolkit 2 compiles in int8, and what becomes one for it.

Toolkit 2.3.2 cuts a convolution with a stride of 8 or more, or a kernel of more than 16 rows, into
several. In a file with parameters of its own the parts have none: it crashes, or asks for float16
(the patches of every ViT, the first layer of nets that hear, all frequencies of a spectrogram at
once). Here such a convolution reads every few values, or all rows, as channels. The same integers
are multiplied and summed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.execute.as_compiled import int8_params
from engine.graph.execute.means import LARGEST_WINDOW, is_between_int8, is_quantized_mean
from engine.graph.ir import QuantParams, constant_of
from engine.graph.ir.spec import input_at, maker_of, only_reader
from engine.graph.passes import Editor
from engine.graph.passes.base import shape

LARGEST_STRIDE = 7
"""The largest stride that the toolkit leaves whole."""

_MOST_ROWS = 16
_MOST_CHANNELS = 8191


@dataclass(frozen=True)
class Int8Convolution:
    """A quantized convolution of known shape.

    Attributes:
        source, shape: what it reads.
        given: what dequantizes that.
        weight: what dequantizes its weight.
        integers: of the weight: (out, in, sides of the kernel).
    """

    source: ir.Value
    shape: tuple[int, ...]
    given: ir.Node
    weight: ir.Node
    integers: np.ndarray


def with_large_stride(node: ir.Node) -> Int8Convolution | None:
    """A node that is a quantized convolution of a large stride that can have a small one."""
    strides = node.attributes.get_ints("strides", ())
    if len(set(strides)) != 1 or strides[0] <= LARGEST_STRIDE or shape(node.outputs[0]) is None:
        return None
    return _convolution(node)


def write_small_stride(edit: Editor, node: ir.Node, conv: Int8Convolution) -> None:
    """Have such a convolution read every few values as channels."""
    stride = node.attributes.get_ints("strides")[0]
    # how many neighbours become channels
    block = next(
        divisor
        for divisor in range(2, stride + 1)
        if stride % divisor == 0 and stride // divisor <= LARGEST_STRIDE
    )
    rank = len(conv.shape) - 2
    begins = tuple(node.attributes.get_ints("pads", ()))[:rank] or (0,) * rank
    kernel = tuple(math.ceil(side / block) for side in conv.integers.shape[2:])
    counts = (shape(node.outputs[0]) or ())[2:]
    # values to add behind the input; below 0 they are cut off
    ends = tuple(
        block * ((count - 1) * stride // block + side) - size - first
        for count, side, size, first in zip(counts, kernel, conv.shape[2:], begins, strict=True)
    )
    moves = _Moves(edit, node, conv)
    moves.fit(begins, ends)
    moves.blocks(block)
    integers = _blocks_of(conv.integers, block, kernel)
    read = _read_again(edit, node, conv.weight, integers, "blocks")
    attributes = {"kernel_shape": list(kernel), "strides": [stride // block] * rank}
    edit.replace_with(node, "Conv", [moves.value, read, *node.inputs[2:]], attributes)


def of_all_rows(node: ir.Node) -> Int8Convolution | None:
    """A node that is a quantized convolution whose large kernel has all rows of its input."""
    conv, pads = _convolution(node), node.attributes.get_ints("pads", (0, 0, 0, 0))
    if conv is None or len(conv.shape) != 4 or pads[0] or pads[2]:
        return None
    _, channels, rows, _ = conv.shape
    fits = rows > _MOST_ROWS and channels * rows <= _MOST_CHANNELS
    return conv if fits and conv.integers.shape[2] == rows else None


def write_rows_as_channels(edit: Editor, node: ir.Node, conv: Int8Convolution) -> None:
    """Have such a convolution read the rows as channels, in one row."""
    outs, channels, rows, columns = conv.integers.shape
    moves = _Moves(edit, node, conv)
    moves.rows()
    integers = conv.integers.reshape(outs, channels * rows, 1, columns)
    read = _read_again(edit, node, conv.weight, integers, "rows")
    pads = list(node.attributes.get_ints("pads", (0, 0, 0, 0)))
    attributes = {
        "kernel_shape": [1, columns],
        "strides": [1, list(node.attributes.get_ints("strides", (1, 1)))[1]],
        "pads": [0, pads[1], 0, pads[3]],
    }
    edit.replace_with(node, "Conv", [moves.value, read, *node.inputs[2:]], attributes)


def _convolution(node: ir.Node) -> Int8Convolution | None:
    """What a quantized convolution of one group, without gaps, whose pads are written, reads."""
    attributes = node.attributes
    if node.op_type != "Conv" or node.domain or attributes.get_int("group", 1) != 1:
        return None
    if any(dilation != 1 for dilation in attributes.get_ints("dilations", ())):
        return None
    if attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    source, sizes = node.inputs[0], shape(node.inputs[0])
    given, weight = (_quantizer(value) for value in node.inputs[:2])
    integers = None if weight is None else _integers(weight)
    if source is None or sizes is None or given is None or weight is None or integers is None:
        return None
    return Int8Convolution(source, sizes, given, weight, integers)


def _quantizer(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear that gives a value of int8."""
    node = maker_of(value, "DequantizeLinear")
    if node is None or len(node.inputs) < 3 or node.inputs[0] is None:
        return None
    return node if node.inputs[0].dtype == ir.DataType.INT8 else None


def _integers(weight: ir.Node) -> np.ndarray | None:
    """Those of a constant with scales of its first axis or of all, and without zero points."""
    integers, zero = constant_of(weight.inputs[0]), constant_of(weight.inputs[2])
    if integers is None or zero is None or weight.attributes.get_int("axis", 0) != 0:
        return None
    return None if np.any(zero.numpy()) else integers.numpy()


def dequantized(
    edit: Editor,
    before: ir.Node,
    name: str,
    inputs: Sequence[np.ndarray | ir.Value | None],
    like: ir.Value,
    axis: int | None = None,
) -> ir.Value:
    """What a new DequantizeLinear gives.

    Args:
        edit: of the graph.
        before: the node that reads it.
        name: what its own name and those of its constants begin with.
        inputs: integers, scale, zero point; arrays become constants.
        like: a value of its type.
        axis: of several scales.
    """
    roles = ("quantized", "scale", "zero_point")
    values = [
        edit.constant(value, f"{name}/{role}") if isinstance(value, np.ndarray) else value
        for role, value in zip(roles, inputs, strict=False)
    ]
    integers = inputs[0]
    return edit.insert(
        "DequantizeLinear",
        values,
        {} if axis is None else {"axis": axis},
        before=before,
        like=like,
        shape=integers.shape if isinstance(integers, np.ndarray) else None,
        name=f"{name}/DequantizeLinear",
    ).outputs[0]


def _read_again(
    edit: Editor, node: ir.Node, weight: ir.Node, integers: np.ndarray, role: str
) -> ir.Value:
    """The weight's integers in another order, dequantized as they were."""
    axis = 0 if "axis" in weight.attributes else None
    inputs = [integers, *weight.inputs[1:]]
    return dequantized(edit, node, f"{node.name}/{role}", inputs, weight.outputs[0], axis)


def _blocks_of(integers: np.ndarray, block: int, kernel: tuple[int, ...]) -> np.ndarray:
    """The weights by the channels that :meth:`_Moves.blocks` makes, with zeros where none were."""
    outs, channels, *sides = integers.shape
    more = [(0, block * size - side) for size, side in zip(kernel, sides, strict=True)]
    full = np.pad(integers, [(0, 0), (0, 0), *more])
    parts = [size for kernel_size in kernel for size in (kernel_size, block)]
    # SpaceToDepth puts rows, then columns, then channels; of one axis, channels come first
    order = (0, 3, 5, 1, 2, 4) if len(sides) == 2 else (0, 1, 3, 2)
    blocks = full.reshape(outs, channels, *parts).transpose(order)
    return np.ascontiguousarray(blocks.reshape(outs, -1, *kernel))


class _Moves:
    """Data movement before a node, each step between Q/DQ pairs of what is moved.

    Attributes:
        value: the result so far.
    """

    def __init__(self, edit: Editor, node: ir.Node, conv: Int8Convolution) -> None:
        self._edit, self._node = edit, node
        _, self._scale, self._zero = conv.given.inputs[:3]
        self._shape = list(conv.shape)
        self.value = conv.source

    def rows(self) -> None:
        """Make rows channels."""
        batch, channels, rows, columns = self._shape
        sizes = [batch, channels * rows, 1, columns]
        self._move("Reshape", [np.array(sizes, np.int64)], sizes)

    def fit(self, begins: tuple[int, ...], ends: tuple[int, ...]) -> None:
        """Cut values off at the ends of the spatial axes, and put zeros there."""
        rank = len(begins)
        cut = [min(end, 0) for end in ends]
        if any(cut):
            sizes = [size + extent for size, extent in zip(self._shape[2:], cut, strict=True)]
            axes = np.arange(2, 2 + rank, dtype=np.int64)
            bounds = [np.zeros(rank, np.int64), np.array(sizes, np.int64), axes]
            self._move("Slice", bounds, [*self._shape[:2], *sizes])
        more = [max(end, 0) for end in ends]
        if any(begins) or any(more):
            added = zip(self._shape[2:], begins, more, strict=True)
            sizes = [size + first + last for size, first, last in added]
            pads = np.array([0, 0, *begins, 0, 0, *more], np.int64)
            self._move("Pad", [pads], [*self._shape[:2], *sizes])

    def blocks(self, block: int) -> None:
        """Make neighbours channels: SpaceToDepth, or the same of one axis."""
        batch, channels, *sizes = self._shape
        small = [size // block for size in sizes]
        if len(sizes) == 2:
            sizes = [batch, channels * block**2, *small]
            self._move("SpaceToDepth", [], sizes, {"blocksize": block})
            return
        sizes = [batch, channels, small[0], block]
        self._move("Reshape", [np.array(sizes, np.int64)], sizes)
        sizes = [batch, channels, block, small[0]]
        self._move("Transpose", [], sizes, {"perm": [0, 1, 3, 2]})
        sizes = [batch, channels * block, small[0]]
        self._move("Reshape", [np.array(sizes, np.int64)], sizes)

    def _move(
        self,
        op: str,
        constants: list[np.ndarray],
        shape: list[int],
        attributes: dict[str, int | list[int]] | None = None,
    ) -> None:
        hint = f"{self._node.name}/{op}"
        operands = [self._edit.constant(array, f"{hint}/{op.lower()}") for array in constants]
        self._write(op, operands, self._scale, shape, hint, attributes)
        pair = [self._scale, self._zero]
        self._write("QuantizeLinear", pair, self._zero, shape, f"{hint}/QuantizeLinear")
        self._write("DequantizeLinear", pair, self._scale, shape, f"{hint}/DequantizeLinear")
        self._shape = shape

    def _write(
        self,
        op: str,
        reads: list[ir.Value | None] | list[ir.Value],
        like: ir.Value | None,
        shape: list[int],
        name: str,
        attributes: dict[str, int | list[int]] | None = None,
    ) -> None:
        node = self._edit.insert(
            op,
            [self.value, *reads],
            attributes,
            before=self._node,
            like=like,
            shape=shape,
            name=name,
        )
        self.value = node.outputs[0]


# Means, HardSigmoid and borders as depthwise convolutions, which are exact.

Known = tuple[ir.Value, tuple[int, ...]]
"""What a node reads, and its shape."""


def _known(node: ir.Node) -> Known | None:
    """Its first input, where that has a known shape."""
    value = node.inputs[0] if node.inputs else None
    sizes = shape(value)
    return None if value is None or sizes is None else (value, sizes)


def mean_input(node: ir.Node) -> Known | None:
    """What a mean of int8 over all rows and columns reads."""
    return _known(node) if is_quantized_mean(node) else None


def window_input(node: ir.Node) -> Known | None:
    """What a mean of int8 reads, over all rows and columns or over windows."""
    return mean_input(node) or pool_input(node)


def write_mean_as_reduction(edit: Editor, node: ir.Node, known: Known) -> None:
    """A mean over all rows and columns as ReduceMean."""
    source, sizes = known
    axes = edit.constant(np.arange(2, len(sizes), dtype=np.int64), f"{node.name}/axes")
    edit.replace_with(node, "ReduceMean", [source, axes], {"keepdims": 1})


def write_mean_as_convolution(edit: Editor, node: ir.Node, known: Known) -> None:
    """A mean as a depthwise convolution with equal weights, which is exact."""
    _, (_, channels, *kernel) = known
    windows = {}
    if node.op_type == "AveragePool":
        kernel = list(node.attributes.get_ints("kernel_shape"))
        given = [key for key in ("strides", "pads") if key in node.attributes]
        windows = {key: list(node.attributes.get_ints(key)) for key in given}
    integers = np.full((channels, 1, *kernel), 127, np.int8)
    scale = np.float32(1.0 / (127.0 * np.prod(kernel)))
    _write_depthwise(edit, node, known, kernel, {"weight": (integers, scale)}, **windows)


def _write_depthwise(
    edit: Editor,
    node: ir.Node,
    known: Known,
    kernel: list[int],
    stored: dict[str, tuple[np.ndarray, np.float32]],
    **windows: list[int],
) -> None:
    """Put a depthwise convolution in the place of a node; ``stored``: integers and their scale."""
    source, (_, channels, *_) = known
    constants = [
        dequantized(edit, node, f"{node.name}/{role}", [integers, np.array(scale), zero], source)
        for role, (integers, scale) in stored.items()
        for zero in (np.array(0, integers.dtype),)
    ]
    attributes: dict[str, int | list[int]] = {"group": channels, "kernel_shape": kernel, **windows}
    edit.replace_with(node, "Conv", [source, *constants], attributes)


def write_pad_as_convolution(edit: Editor, node: ir.Node, sides: list[int]) -> None:
    """Zeros around a map as the pads of a depthwise convolution by one, which is exact."""
    known = _known(node)
    if known is None:
        return
    _, (_, channels, *sizes) = known
    half, kernel = len(sides) // 2, [1] * len(sizes)
    weight = np.full((channels, 1, *kernel), 127, np.int8), np.float32(1 / 127)
    pads = [*sides[2:half], *sides[half + 2 :]]
    _write_depthwise(edit, node, known, kernel, {"weight": weight}, pads=pads)


def pad_of_pool(node: ir.Node) -> list[int] | None:
    """What a node puts around a map of int8 that has values below zero, for a MaxPool."""
    sides = _zeros_around(node)
    quantized = _only_reader_as_int8(node)
    if sides is None or quantized is None:
        return None
    reader, params = quantized
    read = [use.node for use in reader.outputs[0].uses()]
    pools = [use.node.op_type for pair in read for use in pair.outputs[0].uses()]
    below_zero = params.zero_point[0] > np.iinfo(np.int8).min
    return sides if below_zero and "MaxPool" in pools else None


def _only_reader_as_int8(node: ir.Node) -> tuple[ir.Node, QuantParams] | None:
    """The QuantizeLinear to int8 that alone reads a node, and its parameters."""
    reader = only_reader(node.outputs[0], "QuantizeLinear")
    params = int8_params(reader)
    return None if reader is None or params is None else (reader, params)


def _zeros_around(node: ir.Node) -> list[int] | None:
    """What a Pad adds to rows and columns, by axis: begins, then ends; None of every other one."""
    known = _known(node) if node.op_type == "Pad" and len(node.inputs) <= 3 else None
    if known is None or node.attributes.get_string("mode", "constant") != "constant":
        return None
    rank = len(known[1])
    sides, filling = (constant_of(input_at(node, at)) for at in (1, 2))
    if sides is None or rank < 3:
        return None
    if input_at(node, 2) is not None and (filling is None or filling.numpy().any()):
        return None
    pads = [int(side) for side in sides.numpy()]
    outer = [pads[at] for at in (0, 1, rank, rank + 1)]
    return pads if min(pads) >= 0 < max(pads) and not any(outer) else None


def pool_input(node: ir.Node) -> Known | None:
    """What an AveragePool of int8 reads whose every window counts as many values."""
    known = _known(node) if node.op_type == "AveragePool" else None
    if known is None:
        return None
    attributes = node.attributes
    padded = any(attributes.get_ints("pads", ())) and not attributes.get_int("count_include_pad", 0)
    plain = (
        is_between_int8(node)
        and max(attributes.get_ints("kernel_shape")) <= LARGEST_WINDOW
        and attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not attributes.get_int("ceil_mode", 0)
        and all(side == 1 for side in attributes.get_ints("dilations", ()))
        and not padded
    )
    return known if plain else None


def write_hard_sigmoid_as_convolution(
    edit: Editor, node: ir.Node, matched: tuple[Known, QuantParams]
) -> None:
    """A HardSigmoid as a depthwise convolution of one weight, which is exact.

    Between its two ends it is ``alpha * x + beta``; at the ends the int8 result saturates.
    """
    known, params = matched
    channels = known[1][1]
    weight_scale = np.float32(node.attributes.get_float("alpha", 0.2) / 127)
    bias_scale = np.float32(weight_scale * np.float32(params.scale[0]))
    offset = np.rint(node.attributes.get_float("beta", 0.5) / bias_scale)
    stored: dict[str, tuple[np.ndarray, np.float32]] = {
        "weight": (np.full((channels, 1, 1, 1), 127, np.int8), weight_scale),
        "bias": (np.full(channels, offset, np.int32), bias_scale),
    }
    _write_depthwise(edit, node, known, [1, 1], stored)


def hard_sigmoid_input(node: ir.Node) -> tuple[Known, QuantParams] | None:
    """What a HardSigmoid of int8 reads whose own result saturates at 0 and at most at 1, and that
    does not gate its own input: that is HardSwish, which the toolkit computes exactly.
    """
    known = _known(node) if node.op_type == "HardSigmoid" else None
    if known is None or len(known[1]) != 4:
        return None
    params = int8_params(maker_of(known[0], "DequantizeLinear"))
    quantized = _only_reader_as_int8(node)
    if params is None or quantized is None:
        return None
    reader, out = quantized
    if out.zero_point[0] != -128 or 255 * out.scale[0] > 1 + 1e-5:
        return None
    gated = {use.node for use in known[0].uses()} & {
        after.node for pair in reader.outputs[0].uses() for after in pair.node.outputs[0].uses()
    }
    return None if any(node.op_type == "Mul" for node in gated) else (known, params)
