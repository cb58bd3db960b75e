"""Cycles and bytes of a layer, counted as the vendor's compiler prints them.

Source of the formulas: the tables that rknn-toolkit2 2.3.2 prints (docs/estimates/derivation.md).
Only convolutions, deconvolutions and matrix products have cycles there; everything else prints 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.cost.lowered import Lowered, LoweredLayer
    from engine.facts.npu import NpuDtype, NpuProfile

# Bytes that a layer moves, as the vendor's compiler counts them: features and constants.
#
# Features lie as NC1HWC2: channels of a pixel in groups of :meth:`NpuProfile.atom`. Source of the
# paddings: the tables that rknn-toolkit2 2.3.2 prints; see docs/estimates/derivation.md.

IMAGE_CHANNELS = 4
"""A graph input with at most so many channels is read as an image: pixels, not groups."""


IMAGE_WEIGHT = {"rk3566": (8, 4), "rk3588": (16, 8)}
"""Input channels of the filter of such an input, int8 and float16; 4 of the other families."""

STEPS = ("Sigmoid", "Tanh")
CURVES = ("Elu", "Softplus", "ExSwish", "HardSwish", "ExGelu")
"""Activations that are looked up in a table, in float16 in two or three passes."""
BANK, BANKS = 32 * 1024, 8
"""Memory beside the array: bytes of a bank, and how many there are; rv1106b has half of it."""

FILLED = frozenset(
    {
        ("rk3562", "int8"),
        ("rk3588", "int8"),
        ("rk3576", "int8"),
        ("rv1126b", "int8"),
        ("rk2118", "float16"),
    }
)
"""Where an odd number of filters is stored as an even one."""


@dataclass(frozen=True, slots=True)
class DepthwiseBytes:
    """How a family stores a depthwise convolution; groups of channels in bytes.

    Attributes:
        group: a last group of the filter that is more than half full is filled up,
        step: to a multiple of this.
        bias: group of the bias; ``bias_bytes`` of a channel, int8 (4 of float16).
        output: group of an output of the graph.
        always: whether every last group is filled up.
        narrow: whether one that is the only group is filled up.
    """

    group: int
    step: int
    bias: int
    bias_bytes: int
    output: int
    always: bool = False
    narrow: bool = False


DEPTHWISE = {
    "rk3566": DepthwiseBytes(group=32, step=32, bias=32, bias_bytes=8, output=32),
    "rk3562": DepthwiseBytes(group=32, step=32, bias=32, bias_bytes=6, output=32, always=True),
    "rv1106": DepthwiseBytes(group=32, step=32, bias=32, bias_bytes=6, output=32),
    "rk3588": DepthwiseBytes(group=64, step=64, bias=64, bias_bytes=8, output=64),
    "rk3576": DepthwiseBytes(group=64, step=16, bias=64, bias_bytes=6, output=64, narrow=True),
    "rv1126b": DepthwiseBytes(group=64, step=16, bias=64, bias_bytes=6, output=64, narrow=True),
    "rv1106b": DepthwiseBytes(group=16, step=8, bias=8, bias_bytes=6, output=8, always=True),
    "rk2118": DepthwiseBytes(group=16, step=16, bias=16, bias_bytes=4, output=16),
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one inference: ``read`` is features and ``constants`` together."""

    read: int
    write: int
    constants: int


@dataclass(frozen=True, slots=True)
class Places:
    """Which tensors come from outside and which go outside, indexed once for a graph.

    Attributes:
        inputs: of the graph.
        outputs: of the graph, with the channels that each is padded to. One that is read by
            another layer than convolutions with a fused activation is padded as all others are,
            and is not here.
    """

    inputs: frozenset[str]
    outputs: Mapping[str, int]

    @classmethod
    def of(cls, lowered: Lowered, npu: NpuProfile) -> Places:
        """Of the tensors that InputOperator writes and OutputOperator reads."""
        outputs, channels = set(lowered.outputs), {}
        for layer in lowered.layers:
            if layer.outputs and layer.outputs[0] in outputs and is_convolution(layer):
                channels[layer.outputs[0]] = _output_channels(layer, lowered, npu)
            for name in layer.inputs:
                if name in channels and layer.kind != "OutputOperator" and not _fused(layer):
                    outputs.discard(name)
        return cls(
            frozenset(lowered.inputs),
            {name: channels[name] for name in channels if name in outputs},
        )


def _fused(layer: LoweredLayer) -> bool:
    """Whether it is a convolution with an activation or sum."""
    return is_convolution(layer) and layer.op != layer.kind


def compute_dtype(layer: LoweredLayer) -> NpuDtype:
    """The dtype that decides the widths of a layer: every other one counts as float16."""
    return "int8" if layer.dtype == "int8" else "float16"


def is_convolution(layer: LoweredLayer) -> bool:
    """Whether its bytes follow the rules of convolutions."""
    return bool(
        layer.kind in ("Conv", "ConvTranspose") and layer.inputs and layer.consts and layer.outputs
    )


def of_layer(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, places: Places) -> Traffic:
    """Bytes that a layer reads and writes; 0 of what is not known."""
    if is_convolution(layer):
        return _convolution(layer, lowered, npu, places)
    dtype = compute_dtype(layer)
    read = sum(_feature(name, lowered, npu, dtype, places) for name in layer.inputs)
    write = sum(_feature(name, lowered, npu, dtype, places) for name in layer.outputs)
    constants = 0  # the compiler counts none of them, but the scale or mask of a product
    if layer.kind == "exMatMul":
        for shape in map(lowered.shape, layer.consts):
            constants += 4 if prod(shape) == 1 else _bytes(shape, npu, dtype)
    return Traffic(read + constants, write, constants)


def filter_shape(layer: LoweredLayer, lowered: Lowered) -> tuple[int, ...]:
    """Of a convolution's filters, which may be a feature: computed, or an input of the model."""
    shape = lowered.shape(layer.consts[0]) if layer.consts else ()
    if len(shape) > 1 or len(layer.inputs) < 2:
        return shape
    return lowered.shape(layer.inputs[1])


def _convolution(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile, places: Places) -> Traffic:
    dtype = compute_dtype(layer)
    shape, out = lowered.shape(layer.inputs[0]), lowered.shape(layer.outputs[0])
    image = layer.inputs[0] in places.inputs and shape[1] <= IMAGE_CHANNELS and not layer.int4
    read = sum(_feature(name, lowered, npu, dtype, places) for name in layer.inputs[1:])
    if image:
        read += prod(shape) * _size(dtype)
    else:
        read += _feature(layer.inputs[0], lowered, npu, dtype, places)
    weight = filter_shape(layer, lowered)
    fixed = len(lowered.shape(layer.consts[0])) == len(weight) if layer.consts else False
    constants = _weight(layer, weight, out[1], npu, image=image) if fixed else 0
    if len(layer.consts) > fixed:
        constants += _bias(layer, out[1], npu)
    if "PRelu" in layer.op:
        constants += 2 * out[1]
    write = _feature(layer.outputs[0], lowered, npu, dtype, places)
    return Traffic(read + constants, write, constants)


def _feature(name: str, lowered: Lowered, npu: NpuProfile, dtype: NpuDtype, places: Places) -> int:
    """Bytes of a feature whose channels are padded to whole groups."""
    shape = lowered.shape(name)
    if name in places.outputs:
        return shape[0] * places.outputs[name] * prod(shape[2:]) * _size(dtype)
    return _bytes(shape, npu, dtype)


def _bytes(shape: tuple[int, ...], npu: NpuProfile, dtype: NpuDtype) -> int:
    if len(shape) < 2:
        return prod(shape) * _size(dtype)
    return shape[0] * aligned(shape[1], npu.atom(dtype)) * prod(shape[2:]) * _size(dtype)


def _weight(
    layer: LoweredLayer, weight: tuple[int, ...], out: int, npu: NpuProfile, *, image: bool
) -> int:
    """Bytes of a filter: input channels are padded unless the last tile of outputs is partial."""
    dtype = compute_dtype(layer)
    size, width, tile = _size(dtype), npu.macs_in[dtype], npu.macs_out[dtype]
    if layer.int4:
        filters = _filled(weight[0], tile, tile // 2)
        whole = weight[0] % tile == 0 or weight[0] < tile
        channels = aligned(weight[1], width) if whole else weight[1]
        return -(-filters * channels * prod(weight[2:]) // 2)
    if layer.depthwise:
        return _depthwise_channels(out, npu, dtype) * prod(weight[2:]) * size
    filters, channels = weight[0], weight[1]
    if layer.kind == "ConvTranspose":
        filters, channels = channels, filters
    if image and npu.family in ("rk3576", "rv1126b"):
        filters = _filled(filters, tile, 16 // size)
    elif ((npu.family, dtype) in FILLED or (image and npu.family == "rv1106")) and filters % 2:
        whole = image or _filled(channels, width, npu.atom(dtype)) % npu.atom(dtype) == 0
        filters += whole and (filters < tile or filters % tile == tile - 1)
    if filters % tile == 0 or filters < tile:
        if not image:
            channels = _filled(channels, width, npu.atom(dtype))
        elif channels > 1 or npu.family != "rk2118":
            channels = max(channels, IMAGE_WEIGHT.get(npu.family, (4, 4))[size - 1])
    return filters * channels * prod(weight[2:]) * size


def _filled(channels: int, group: int, atom: int) -> int:
    """A last group more than half full is filled up; fewer than half a group fill whole atoms."""
    if channels % group > group // 2:
        return aligned(channels, group)
    return aligned(channels, atom) if channels < group // 2 else channels


def _depthwise_channels(channels: int, npu: NpuProfile, dtype: NpuDtype) -> int:
    """Channels of a stored depthwise filter: a last group more than half full is filled up."""
    rule = DEPTHWISE[npu.family]
    group, step = rule.group // _size(dtype), rule.step // _size(dtype)
    if rule.always or channels % group > group // 2 or (rule.narrow and channels < group):
        return aligned(channels, step)
    return channels


def _bias(layer: LoweredLayer, out: int, npu: NpuProfile) -> int:
    """Bytes of a bias, which int8 keeps with the scale of each channel."""
    dtype = compute_dtype(layer)
    if layer.depthwise:
        rule = DEPTHWISE[npu.family]
        bytes_each = rule.bias_bytes if dtype == "int8" else 4
        return bytes_each * aligned(out, rule.bias // _size(dtype))
    if dtype == "float16":
        return 4 * aligned(out, npu.macs_out[dtype] * (4 if layer.int4 else 1))
    if npu.family == "rv1106b":
        return 7 * (4 if out == 1 else aligned(out, 8))
    tile = npu.macs_out[dtype]
    return 8 * (tile // 2 if out == 1 else aligned(out, tile))


def _output_channels(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile) -> int:
    """Channels that an output of the graph is padded to: whole tiles, one more in some layers.

    The further tile comes where the layer's work is cut into parts, since its input and its
    filters together do not fit into the memory beside the array.
    """
    dtype = compute_dtype(layer)
    shape, out = lowered.shape(layer.inputs[0]), lowered.shape(layer.outputs[0])
    weight = filter_shape(layer, lowered)
    size, tile = _size(dtype), npu.macs_out[dtype]
    feature = aligned(shape[1], npu.atom(dtype)) * prod(shape[2:]) * size
    further = 0
    if layer.depthwise:
        tile = DEPTHWISE[npu.family].output // size
        filters = _depthwise_channels(out[1], npu, dtype) * prod(weight[2:]) * size
        if layer.kind == "Conv" and _cut_depthwise(feature, filters, out[1], npu, dtype):
            further = npu.macs_out[dtype]
    elif layer.kind == "ConvTranspose":
        strides = layer.window.strides[0] if layer.window else 1
        if strides > 1 and out[1] < shape[1] and npu.family in ("rk3576", "rv1126b"):
            further = tile
    elif npu.family == "rk3566" and prod(weight[2:]) == 1:
        banks = _parts(_weight(layer, weight, out[1], npu, image=False), BANK)
        further = tile if banks > 1 and banks + _parts(feature, BANK) > BANKS else 0
    return aligned(out[1], tile) * _passes(layer, npu) + further


def _passes(layer: LoweredLayer, npu: NpuProfile) -> int:
    """Times that an output in float16 is written whose activation is looked up in a table."""
    if compute_dtype(layer) == "int8" or npu.family == "rk2118":
        return 1
    if layer.op.endswith(CURVES):
        return 3 if npu.family == "rk3588" else 2
    return 2 if layer.op.endswith(STEPS) else 1


def _cut_depthwise(feature: int, filters: int, out: int, npu: NpuProfile, dtype: NpuDtype) -> bool:
    """Whether a depthwise convolution is cut into parts of its channels."""
    if npu.family == "rk2118":
        return feature + filters > BANK * 2
    if npu.family == "rv1106b":
        return _parts(feature, BANK // 2) + _parts(2 * filters, BANK // 2) > BANKS
    wide = npu.family == "rk3562" and dtype == "float16" and out > npu.depthwise[dtype] // 2
    return wide and _parts(feature, BANK) + _parts(filters, BANK) > BANKS


def _size(dtype: NpuDtype) -> int:
    return 1 if dtype == "int8" else 2


ALIGNMENT = 64
"""Every tensor starts at a multiple of it, in bytes."""


def aligned(value: int, step: int = ALIGNMENT) -> int:
    """Rounded up to a multiple of ``step``."""
    return -(-value // step) * step


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
    bytes_moved = of_layer(layer, lowered, npu, places)
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
    groups = out[0] * aligned(pixels, PIXELS)
    written = aligned(out[1], tile) // npu.write_channels
    if layer.kind == "exMatMul":
        depth = lowered.shape(layer.inputs[0])[1]
        steps = max(_parts(depth, width) * _parts(out[1], tile), written)
        return groups * steps, out[0] * pixels * depth * out[1]
    channels = lowered.shape(layer.inputs[0])[1]
    taps = prod(filter_shape(layer, lowered)[2:])
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
