"""Convolutions of large strides and kernels in a form that the vendor's toolkit 2 compiles in int8.

Toolkit 2.3.2 cuts a convolution with a stride of 8 or more, or a kernel of more than 16 rows, into
several. In a file with parameters of its own the parts have none: it crashes, or asks for float16
(the patches of every ViT, the first layer of nets that hear, all frequencies of a spectrogram at
once). Here such a convolution reads every few values, or all rows, as channels. The same integers
are multiplied and summed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import constant_of
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
    if not _is_single(node):
        return None
    source, sizes = node.inputs[0], shape(node.inputs[0])
    given, weight = (_quantizer(value) for value in node.inputs[:2])
    integers = None if weight is None else _integers(weight)
    if source is None or sizes is None or given is None or weight is None or integers is None:
        return None
    return Int8Convolution(source, sizes, given, weight, integers)


def _is_single(node: ir.Node) -> bool:
    """Whether a node is a convolution of one group, without gaps, whose pads are written."""
    attributes = node.attributes
    return (
        node.op_type == "Conv"
        and not node.domain
        and attributes.get_int("group", 1) == 1
        and all(dilation == 1 for dilation in attributes.get_ints("dilations", ()))
        and attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    )


def _quantizer(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear that gives a value of int8."""
    node = None if value is None else value.producer()
    if node is None or node.op_type != "DequantizeLinear" or len(node.inputs) < 3:
        return None
    stored = node.inputs[0]
    return node if stored is not None and stored.dtype == ir.DataType.INT8 else None


def _integers(weight: ir.Node) -> np.ndarray | None:
    """Those of a constant with scales of its first axis or of all, and without zero points."""
    integers, zero = constant_of(weight.inputs[0]), constant_of(weight.inputs[2])
    if integers is None or zero is None or weight.attributes.get_int("axis", 0) != 0:
        return None
    return None if np.any(zero.numpy()) else integers.numpy()


def _read_again(
    edit: Editor, node: ir.Node, weight: ir.Node, integers: np.ndarray, role: str
) -> ir.Value:
    """The weight's integers in another order, dequantized as they were."""
    return edit.insert(
        "DequantizeLinear",
        [edit.constant(integers, f"{node.name}/{role}/quantized"), *weight.inputs[1:]],
        {"axis": 0} if "axis" in weight.attributes else {},
        before=node,
        like=weight.outputs[0],
        shape=integers.shape,
        name=f"{node.name}/{role}/DequantizeLinear",
    ).outputs[0]


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
