"""Cycles and bytes of a layer, counted as the vendor's compiler prints them.

Source of the formulas: the tables that rknn-toolkit2 2.3.2 prints (docs/estimates/derivation.md).
Only convolutions, deconvolutions and matrix products have cycles there; everything else prints 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from engine.cost import traffic
from engine.cost.traffic import Places, compute_dtype, up

if TYPE_CHECKING:
    from engine.cost.lowered import Lowered, LoweredLayer
    from engine.facts.npu import NpuDtype, NpuProfile

PIXELS = 16
"""Output pixels are worked on in groups of so many, a last part of a group costs a whole one."""


@dataclass(frozen=True, slots=True)
class Cycles:
    """What a layer costs on one core.

    Attributes:
        ddr: cycles that the memory bus needs for all bytes.
        npu: cycles that the multiplying array needs, or its output stage where that is slower.
        total: the larger of the two.
        read_bytes: features and constants; the compiler prints it in whole KB as ``RW(KB)``.
        write_bytes: of the output.
        weight_bytes: of the constants, part of ``read_bytes``.
        macs: multiplications of the layer as the model has it, without padding.
    """

    ddr: int
    npu: int
    total: int
    read_bytes: int
    write_bytes: int
    weight_bytes: int
    macs: int


def all_cycles(lowered: Lowered, npu: NpuProfile) -> tuple[Cycles, ...]:
    """Of every layer, in order; the family is indexed once."""
    places = Places.of(lowered, npu)
    return tuple(_cycles(layer, lowered, npu, places) for layer in lowered.layers)


def _cycles(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, places: Places) -> Cycles:
    bytes_moved = traffic.of_layer(layer, lowered, npu, places)
    counted = layer.target == "NPU" and layer.kind in ("Conv", "ConvTranspose", "exMatMul")
    if not counted or not layer.inputs or not layer.outputs:
        return Cycles(0, 0, 0, bytes_moved.read, bytes_moved.write, bytes_moved.constants, 0)
    array, macs = _array_cycles(layer, lowered, npu)
    ddr = ceil((bytes_moved.read + bytes_moved.write) / npu.bytes_per_cycle)
    sizes = (bytes_moved.read, bytes_moved.write, bytes_moved.constants)
    return Cycles(ddr, array, max(ddr, array), *sizes, macs)


def _array_cycles(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile) -> tuple[int, int]:
    """Cycles of the multiplying array, and the layer's own multiplications."""
    dtype = _supported(layer, npu)
    width, tile = npu.macs_in[dtype], npu.macs_out[dtype]
    out = lowered.shape(layer.outputs[0])
    pixels = prod(out[2:])
    groups = out[0] * up(pixels, PIXELS)
    written = up(out[1], tile) // npu.write_channels
    if layer.kind == "exMatMul":
        depth = lowered.shape(layer.inputs[0])[1]
        steps = max(_parts(depth, width) * _parts(out[1], tile), written)
        return groups * steps, out[0] * pixels * depth * out[1]
    channels = lowered.shape(layer.inputs[0])[1]
    taps = prod(traffic.filter_shape(layer, lowered)[2:])
    if layer.depthwise or channels == 1:  # one input channel is worked on as a depthwise one is
        steps = taps * _parts(channels, npu.depthwise[dtype])
        if taps == 1 and not layer.depthwise:
            steps = max(steps, written)
        return groups * steps, out[0] * pixels * taps * out[1]
    steps = taps * _parts(channels, width) * _parts(out[1], tile)
    return groups * max(steps, written), out[0] * pixels * taps * channels * out[1]


def _supported(layer: LoweredLayer, npu: NpuProfile) -> NpuDtype:
    """The layer's dtype, or the other one where the NPU does not have it."""
    dtype = compute_dtype(layer)
    if npu.macs_in[dtype]:
        return dtype
    return "float16" if dtype == "int8" else "int8"


def _parts(value: int, step: int) -> int:
    return -(-value // step)
