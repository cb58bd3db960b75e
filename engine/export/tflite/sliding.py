"""What layers that slide a window share: sizes, paddings, one dimension as a picture of a row."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from engine.export.tflite.emitter import LAST, Emitter, refused
from engine.export.tflite.layer import Layer
from engine.export.tflite.writer import Quant

__all__ = [
    "SAME",
    "VALID",
    "as_float",
    "finish",
    "four_dimensions",
    "input_scale",
    "is_same",
    "output_size",
    "padded",
    "sizes_of",
    "text_of",
    "window_of",
]

SAME, VALID = 0, 1
"""Paddings of the schema."""


def sizes_of(values: Sequence[int] | None, count: int, default: int = 1) -> list[int]:
    """An attribute of sizes, or its default."""
    return [default] * count if values is None else [int(v) for v in values]


def as_float(layer: Layer, emitter: Emitter) -> int:
    """The input as float32, with channels last."""
    return emitter.as_float(layer.data, LAST)


def window_of(
    layer: Layer, emitter: Emitter, shape: Sequence[int]
) -> tuple[int, list[int], list[int], list[int], list[int]]:
    """The input with four dimensions, and kernel, strides, dilations and pads of two."""
    dims = len(shape)
    strides = sizes_of(layer.attribute("strides"), dims)
    dilations = sizes_of(layer.attribute("dilations"), dims)
    pads = _pads(layer, shape, strides, dilations)
    source = emitter.read(layer.data, LAST) if layer.quantized else as_float(layer, emitter)
    kernel = [int(size) for size in shape]
    if dims == 1:  # a picture of one row
        batch, size, channels = emitter.writer.shape(source)
        name = f"{emitter.writer.name(source)}/row"
        source = emitter.reshape(source, (batch, 1, size, channels), name)
        kernel, strides, dilations = [1, *kernel], [1, *strides], [1, *dilations]
        pads = [0, pads[0], 0, pads[1]]
    elif dims != 2:
        raise refused(layer.node, "TFLite has it with two dimensions")
    return source, kernel, strides, dilations, pads


def _pads(
    layer: Layer, shape: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """The pads before and behind, of ``auto_pad`` too (ONNX, Conv and pools)."""
    rule = text_of(layer.attribute("auto_pad", "NOTSET"))
    if rule == "NOTSET":
        return sizes_of(layer.attribute("pads"), 2 * len(shape), 0)
    pairs = [(0, 0) for _ in shape]
    if rule != "VALID":
        sizes, output = layer.data.shape[2:], layer.target.shape[2:]
        pairs = [
            _same_pads(*each) for each in zip(sizes, output, shape, strides, dilations, strict=True)
        ]
    if rule == "SAME_LOWER":
        pairs = [(behind, before) for before, behind in pairs]
    return [*(before for before, _ in pairs), *(behind for _, behind in pairs)]


def output_size(layer: Layer) -> tuple[int, int]:
    """Height and width of the output."""
    shape = layer.target.shape
    return (1, shape[2]) if len(shape) == 3 else (shape[2], shape[3])


def four_dimensions(layer: Layer, emitter: Emitter, quant: Quant | None = None) -> int:
    """The output with four dimensions."""
    if len(layer.target.shape) == 4:
        return emitter.output(layer.target, LAST, quant)
    batch, channels, size = layer.target.shape
    kept = quant or layer.target.quant if layer.target.quant else None
    name = f"{layer.target.value.name}/row"
    shape = (batch, 1, size, channels)
    return emitter.writer.tensor(name, shape, "int8" if kept else "float32", kept)


def finish(layer: Layer, emitter: Emitter, made: int) -> None:
    """Say that the output is there, with as many dimensions as it has."""
    if len(layer.target.shape) == 3:
        batch, channels, size = layer.target.shape
        name = (layer.target.value.name or "tensor").removesuffix("/quantized")
        made = emitter.reshape(made, (batch, size, channels), name)
    emitter.settle(layer.target, LAST, made)


def _same_pads(size: int, out: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """What SAME pads before and behind (TensorFlow)."""
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def is_same(
    sizes: Sequence[int],
    output: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> bool:
    """Whether the pads are those of SAME."""
    for axis in (0, 1):
        if output[axis] != ceil(sizes[axis] / strides[axis]):
            return False
        found = _same_pads(sizes[axis], output[axis], kernel[axis], strides[axis], dilations[axis])
        if found != (pads[axis], pads[axis + 2]):
            return False
    return True


def padded(
    emitter: Emitter,
    layer: Layer,
    source: int,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    output: Sequence[int],
    *,
    lowest: bool = False,
    same: bool = True,
) -> tuple[int, int]:
    """The input with its padding, and the padding that is left to the operator.

    Args:
        lowest: pad with the lowest value, as a maximum needs it; else with zero.
        same: whether SAME may be used.
    """
    sizes = emitter.writer.shape(source)[1:3]
    if same and is_same(sizes, output, kernel, strides, dilations, pads):
        return source, SAME
    behind = []
    for axis in (0, 1):
        reach = (output[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        behind.append(max(reach - sizes[axis] - pads[axis], 0))
    amounts = [[0, 0], [pads[0], behind[0]], [pads[1], behind[1]], [0, 0]]
    if not any(map(any, amounts)):
        return source, VALID
    batch, height, width, channels = emitter.writer.shape(source)
    shape = (batch, height + sum(amounts[1]), width + sum(amounts[2]), channels)
    quant = emitter.writer.quant(source)
    name = f"{emitter.writer.name(source)}/padded"
    made = emitter.writer.tensor(name, shape, "int8" if quant else "float32", quant)
    inputs = [source, emitter.ints("pads", amounts)]
    if lowest:
        value = np.array([-128], np.int8) if quant else np.array([-np.inf], np.float32)
        inputs.append(emitter.constant("lowest", value, quant))
        emitter.emit("PADV2", inputs, [made], "PadV2Options")
    else:
        emitter.emit("PAD", inputs, [made], "PadOptions")
    return made, VALID


def text_of(value: str | bytes) -> str:
    """A text of an attribute."""
    return value.decode() if isinstance(value, bytes) else value


def input_scale(layer: Layer) -> float:
    """The scale of the input; 1 where it is float."""
    quant = layer.data.quant
    return quant.scale[0] if quant is not None else 1.0
