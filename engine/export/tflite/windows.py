"""Layers that slide a window, with channels last: sizes and paddings, and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from engine.export.tflite.emitter import LAST, Emitter, refused
from engine.export.tflite.layer import Layer
from engine.export.tflite.writer import Option, Quant
from engine.frontends.tflite.schema import SAME, VALID, same_pads

_INT8_MAX = 127


@dataclass(frozen=True)
class Window:
    """A window over a picture; a row is a picture of one row.

    Attributes:
        kernel, strides, dilations: of height and width.
        pads: top, left, bottom, right.
        output: height and width that come out.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]
    output: tuple[int, int]

    @property
    def reach(self) -> list[int]:
        """Elements that it spans along each axis."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def ends(self) -> list[int]:
        """Elements from the first of the padding to the last that any window reads."""
        return [
            (out - 1) * stride + reach
            for out, stride, reach in zip(self.output, self.strides, self.reach, strict=True)
        ]

    def is_same(self, sizes: Sequence[int]) -> bool:
        """Whether the pads are those of SAME, over a picture of some height and width."""
        axes = zip(sizes, self.output, self.strides, self.reach, strict=True)
        return all(
            out == ceil(size / stride) and same_pads(size, out, stride, reach) == self.pads[at::2]
            for at, (size, out, stride, reach) in enumerate(axes)
        )

    def strided(self, padding: int) -> dict[str, Option]:
        """Options that every operator with a window has."""
        return {"padding": padding, "stride_h": self.strides[0], "stride_w": self.strides[1]}

    def dilated(self, padding: int) -> dict[str, Option]:
        """Options of a convolution."""
        height, width = self.dilations
        return {**self.strided(padding), "dilation_h": height, "dilation_w": width}


def sizes_of(values: Sequence[int] | None, count: int, default: int = 1) -> list[int]:
    """An attribute of sizes, or its default."""
    return [default] * count if values is None else [int(v) for v in values]


def window_of(layer: Layer, emitter: Emitter, shape: Sequence[int]) -> tuple[int, Window]:
    """The input with four dimensions, and the window with a kernel of some shape."""
    dims = len(shape)
    if dims not in (1, 2):
        raise refused(layer.node, "TFLite has it with two dimensions")
    strides = sizes_of(layer.attribute("strides"), dims)
    dilations = sizes_of(layer.attribute("dilations"), dims)
    pads = _pads(layer, shape, strides, dilations)
    source = layer.read(emitter, LAST)
    if dims == 1:
        batch, size, channels = emitter.shape(source)
        name = f"{emitter.name(source)}/row"
        source = emitter.reshape(source, (batch, 1, size, channels), name)
        pads = [0, pads[0], 0, pads[1]]
    row = (1,) * (2 - dims)
    return (
        source,
        Window(
            (*row, *map(int, shape)),  # type: ignore[arg-type]
            (*row, *strides),  # type: ignore[arg-type]
            (*row, *dilations),  # type: ignore[arg-type]
            tuple(pads),  # type: ignore[arg-type]
            (*row, *layer.target.shape[2:]),  # type: ignore[arg-type]
        ),
    )


def _pads(
    layer: Layer, shape: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """The pads before and behind, of ``auto_pad`` too (ONNX, Conv and pools)."""
    rule = layer.attribute("auto_pad", "NOTSET")
    if rule == "NOTSET":
        return sizes_of(layer.attribute("pads"), 2 * len(shape), 0)
    pairs = [(0, 0) for _ in shape]
    if rule != "VALID":
        sizes, output = layer.data.shape[2:], layer.target.shape[2:]
        pairs = [
            same_pads(size, out, stride, (kernel - 1) * dilation + 1)
            for size, out, kernel, stride, dilation in zip(
                sizes, output, shape, strides, dilations, strict=True
            )
        ]
    if rule == "SAME_LOWER":
        pairs = [(behind, before) for before, behind in pairs]
    return [*(before for before, _ in pairs), *(behind for _, behind in pairs)]


def four_dimensions(layer: Layer, emitter: Emitter, quant: Quant | None = None) -> int:
    """The output with four dimensions."""
    if len(layer.target.shape) == 4:
        return emitter.output(layer.target, LAST, quant)
    batch, channels, size = layer.target.shape
    kept = quant or layer.target.quant if layer.target.quant else None
    name = f"{layer.target.value.name}/row"
    shape = (batch, 1, size, channels)
    return emitter.tensor(name, shape, "int8" if kept else "float32", kept)


def finish(layer: Layer, emitter: Emitter, output: int) -> None:
    """Say that the output is there, with as many dimensions as it has."""
    if len(layer.target.shape) == 3:
        batch, channels, size = layer.target.shape
        name = (layer.target.value.name or "tensor").removesuffix("/quantized")
        output = emitter.reshape(output, (batch, size, channels), name)
    emitter.settle(layer.target, LAST, output)


def padded(
    emitter: Emitter, source: int, window: Window, *, lowest: bool = False, same: bool = True
) -> tuple[int, int]:
    """The input with its padding, and the padding that is left to the operator.

    Args:
        lowest: pad with the lowest value, as a maximum needs it; else with zero.
        same: whether SAME may be used.
    """
    batch, *sizes, channels = emitter.shape(source)
    if same and window.is_same(sizes):
        return source, SAME
    pairs = [
        [before, max(end - size - before, 0)]
        for before, end, size in zip(window.pads[:2], window.ends, sizes, strict=True)
    ]
    if not any(map(any, pairs)):
        return source, VALID
    shape = (batch, *(size + sum(pair) for size, pair in zip(sizes, pairs, strict=True)), channels)
    quant = emitter.quant(source)
    inputs = [source, emitter.ints("pads", [[0, 0], *pairs, [0, 0]])]
    if lowest:
        value = np.array([-128], np.int8) if quant else np.array([-np.inf], np.float32)
        inputs.append(emitter.constant("lowest", value, quant))
    name = f"{emitter.name(source)}/padded"
    return emitter.move("PADV2" if lowest else "PAD", inputs, shape, name), VALID


def input_scale(layer: Layer) -> float:
    """The scale of the input; 1 where it is float."""
    quant = layer.data.quant
    return quant.scale[0] if quant is not None else 1.0


# ------------------------------------------------------------------------------------------ pools


def pool(layer: Layer, emitter: Emitter) -> None:
    """MaxPool and AveragePool.

    An average to other parameters, or over padding that counts, is a depthwise convolution with
    weights of 127, which are exact: AVERAGE_POOL_2D keeps its input's parameters.
    """
    if len(layer.outputs) > 1:
        raise refused(layer.node, "TFLite gives no indices")
    maximum = layer.node.op_type == "MaxPool"
    kernel = sizes_of(layer.attribute("kernel_shape"), len(layer.data.shape) - 2)
    source, window = window_of(layer, emitter, kernel)
    if window.dilations != (1, 1):
        raise refused(layer.node, "TFLite has no dilation here")
    pads, sizes = window.pads, emitter.shape(source)[1:3]
    counts_pads = bool(layer.attribute("count_include_pad", 0))
    # with ceil_mode the last window may stand beyond the padded input
    beyond = any(
        end > size + before + behind
        for end, size, before, behind in zip(window.ends, sizes, pads[:2], pads[2:], strict=True)
    )
    counted = maximum or (not beyond and (not any(pads) or counts_pads))
    moved = layer.target.quant != emitter.quant(source)
    stored = layer.quantized and emitter.quant(source) is not None
    if not maximum and stored and counted and (moved or any(pads)):
        _average(layer, emitter, source, window)
        return
    uneven = not window.is_same(sizes) and not counted  # TFLite leaves padding out for SAME only
    between = layer.quantized and (
        uneven or (not maximum and layer.target.quant != layer.data.quant)
    )
    if between:  # rounded once, not at the pool and at the conversion behind it
        source = emitter.dequantized(source)
    same = maximum or not counted
    source, padding = padded(emitter, source, window, lowest=maximum, same=same)
    output = four_dimensions(layer, emitter, emitter.quant(source))
    name, shape = emitter.name(output), emitter.shape(output)
    pooled = emitter.tensor(f"{name}/float", shape, "float32") if between or uneven else output
    filters = {"filter_h": window.kernel[0], "filter_w": window.kernel[1]}
    kind = "MAX_POOL_2D" if maximum else "AVERAGE_POOL_2D"
    emitter.emit(kind, [source], [pooled], **window.strided(padding), **filters)
    if uneven:
        share = _inside(layer.data.shape[2:], window, counted=counts_pads)
        inputs = [pooled, emitter.constant(f"{layer.node.name}/inside", share)]
        pooled = emitter.tensor(f"{name}/mean", shape, "float32") if between else output
        emitter.emit("MUL", inputs, [pooled])
    if between:
        emitter.emit("QUANTIZE", [pooled], [output])
    finish(layer, emitter, output)


def _inside(sizes: Sequence[int], window: Window, *, counted: bool) -> np.ndarray:
    """What a mean over whole windows is multiplied by to be one of what counts (1, H, W, 1).

    What a window covers beyond the padding never counts.
    """
    counts = []
    rows = [1, *sizes] if len(sizes) == 1 else list(sizes)
    for axis in (0, 1):
        first = np.arange(window.output[axis]) * window.strides[axis] - window.pads[axis]
        before, behind = window.pads[axis::2] if counted else (0, 0)
        last = np.minimum(first + window.kernel[axis], rows[axis] + behind)
        counts.append(window.kernel[axis] / (last - np.maximum(first, -before)))
    return np.outer(*counts).astype(np.float32)[None, :, :, None]


def global_pool(layer: Layer, emitter: Emitter) -> None:
    """GlobalAveragePool as MEAN, GlobalMaxPool as REDUCE_MAX, over all axes of the picture."""
    source = layer.read(emitter, LAST)
    average = layer.node.op_type == "GlobalAveragePool"
    quant = None if average else emitter.quant(source)
    inputs = [source, emitter.ints("axes", list(range(1, len(layer.data.shape) - 1)))]
    kind = "MEAN" if average else "REDUCE_MAX"
    emitter.write(layer.target, LAST, kind, inputs, quant, keep_dims=True)


def _average(layer: Layer, emitter: Emitter, source: int, window: Window) -> None:
    """An average as a depthwise convolution with equal weights."""
    source, padding = padded(emitter, source, window, same=False)
    channels = emitter.shape(source)[3]
    scale = 1.0 / (_INT8_MAX * window.kernel[0] * window.kernel[1])
    stored = np.full((1, *window.kernel, channels), _INT8_MAX, np.int8)
    weight = emitter.constant("average", stored, Quant((scale,), (0,)))
    quant = Quant((scale * input_scale(layer),), (0,))
    bias = emitter.constant("average/bias", np.zeros(channels, np.int32), quant)
    output = four_dimensions(layer, emitter)
    options = {**window.dilated(padding), "depth_multiplier": 1}
    emitter.emit("DEPTHWISE_CONV_2D", [source, weight, bias], [output], **options)
    finish(layer, emitter, output)
