"""Bytes that a layer moves, as the vendor's compiler counts them: features and constants.

Features lie as NC1HWC2: channels of a pixel in groups of :meth:`NpuProfile.atom`. Source of the
paddings: the tables that rknn-toolkit2 2.3.2 prints; see docs/estimates.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.chips.npu import NpuDtype, NpuProfile
    from engine.cost.lowered import Lowered, LoweredLayer

__all__ = ["Places", "Traffic", "compute_dtype", "of_layer", "up"]

IMAGE_CHANNELS = 4
"""A graph input with at most so many channels is read as an image: pixels, not groups."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one inference: ``read`` is features and ``constants`` together."""

    read: int
    write: int
    constants: int


@dataclass(frozen=True, slots=True)
class Places:
    """Which tensors come from outside and which go outside, indexed once for a graph."""

    inputs: frozenset[str]
    outputs: frozenset[str]

    @classmethod
    def of(cls, lowered: Lowered) -> Places:
        """Of the tensors that InputOperator writes and OutputOperator reads."""
        return cls(frozenset(lowered.inputs), frozenset(lowered.outputs))


def compute_dtype(layer: LoweredLayer) -> NpuDtype:
    """The dtype that decides the widths of a layer: every other one counts as float16."""
    return "int8" if layer.dtype == "int8" else "float16"


def of_layer(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, places: Places) -> Traffic:
    """Bytes that a layer reads and writes; 0 of what is not known."""
    if layer.kind in ("Conv", "ConvTranspose") and layer.inputs and layer.consts and layer.outputs:
        return _convolution(layer, lowered, npu, places)
    dtype = compute_dtype(layer)
    read = sum(_feature(lowered.shape(name), npu, dtype) for name in layer.inputs)
    write = sum(_feature(lowered.shape(name), npu, dtype) for name in layer.outputs)
    return Traffic(read, write, 0)


def _convolution(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, places: Places) -> Traffic:
    dtype = compute_dtype(layer)
    size = _size(dtype)
    shape, out = lowered.shape(layer.inputs[0]), lowered.shape(layer.outputs[0])
    weight = lowered.shape(layer.consts[0])
    image = layer.inputs[0] in places.inputs and shape[1] <= IMAGE_CHANNELS
    read = prod(shape) * size if image else _feature(shape, npu, dtype)
    read += sum(_feature(lowered.shape(name), npu, dtype) for name in layer.inputs[1:])
    constants = _weight(layer, weight, out[1], npu, image=image)
    if len(layer.consts) > 1:
        constants += _bias(layer, out[1], npu)
    if "PRelu" in layer.op:
        constants += 2 * out[1]
    channels = up(out[1], npu.atom(dtype))
    if layer.outputs[0] in places.outputs:
        channels = up(out[1], _output_tile(layer, npu))
    write = out[0] * channels * prod(out[2:]) * size
    return Traffic(read + constants, write, constants)


def _feature(shape: tuple[int, ...], npu: NpuProfile, dtype: NpuDtype) -> int:
    """Bytes of a feature whose channels are padded to whole groups."""
    if len(shape) < 2:
        return prod(shape) * _size(dtype)
    return shape[0] * up(shape[1], npu.atom(dtype)) * prod(shape[2:]) * _size(dtype)


def _weight(
    layer: LoweredLayer, weight: tuple[int, ...], out: int, npu: NpuProfile, *, image: bool
) -> int:
    """Bytes of a filter: input channels are padded unless the last tile of outputs is partial."""
    dtype = compute_dtype(layer)
    size, width, tile = _size(dtype), npu.macs_in[dtype], npu.macs_out[dtype]
    if layer.depthwise:
        return prod(weight) * size
    channels = weight[1]
    if image:
        padded = {"rk3566": (8, 4), "rk3588": (16, 8)}.get(npu.family, (4, 4))[size - 1]
        channels = max(channels, padded)
    elif out % tile == 0 or out < tile:
        rest = channels % width
        if rest > width // 2:
            channels = up(channels, width)
        elif channels < width // 2:
            channels = up(channels, npu.atom(dtype))
    return weight[0] * channels * prod(weight[2:]) * size


def _bias(layer: LoweredLayer, out: int, npu: NpuProfile) -> int:
    """Bytes of a bias, which int8 keeps with the scale of each channel."""
    dtype = compute_dtype(layer)
    if dtype == "float16":
        return 4 * up(out, npu.macs_out[dtype])
    wide = npu.write_channels == 8
    if layer.depthwise:
        return (8 if npu.family in ("rk3566", "rk3588") else 6) * up(out, 64 if wide else 32)
    if npu.family == "rv1106b":
        return 7 * up(out, 8)
    return 8 * up(out, 32 if wide else 16)


def _output_tile(layer: LoweredLayer, npu: NpuProfile) -> int:
    """Channels that an output of the graph is padded to."""
    dtype = compute_dtype(layer)
    if layer.depthwise:
        return (64 if npu.write_channels == 8 else 32) // _size(dtype)
    return npu.macs_out[dtype]


def _size(dtype: NpuDtype) -> int:
    return 1 if dtype == "int8" else 2


def up(value: int, step: int) -> int:
    """The next multiple of ``step``."""
    return -(-value // step) * step
