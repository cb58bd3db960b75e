"""Bytes of a feature tensor in the NPU's native layout, NC1HWC2.

Channels lie in groups of C2, and the writer of a tensor may need more of them than it has: a
convolution writes whole tiles. Source: the table of feature tensors that rknn-toolkit2 2.3.2 prints
(``build`` with ``verbose=True``).

Some outputs have room for what is computed on the way. An activation that is looked up in a table
is several passes over its output in float16; the compiler gives each pass room behind the output.
So it does with a Transpose on RK2118. Source: outputs in the table of feature tensors that
rknn-toolkit2 2.3.2 prints, of every activation on every family.
"""

from __future__ import annotations

import math
from dataclasses import replace

from engine.cost.cycles import ALIGNMENT, BANK, BANKS, DEPTHWISE, aligned
from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor
from engine.facts.npu import NpuProfile

_SIZES = {
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
    **dict.fromkeys(("int16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int64", "float64"), 8),
}
_IMAGE_CHANNELS = (1, 3, 4)
"""Of an input that is read as an image."""
_PIXELS = 4
"""A map of more than one pixel is padded to a multiple of so many."""
_SPLIT_BYTES = {
    "rk3562": 7 * 32 * 1024,
    "rv1106": 7 * 32 * 1024,
    "rv1126b": 7 * 32 * 1024,
    "rv1106b": 7 * 16 * 1024,
    "rk3576": 7 * 96 * 1024,
    "rk2118": 16 * 1024,
}
"""Input and weight of a depthwise convolution that is computed at once; of RK2118 each of eight
banks, which both fill from the start of one on (asked, toolkit 2.3.2)."""
_MAX_POOL_TIMES = 10
"""RK2118 has so much room for what a MaxPool reads or writes (asked, toolkit 2.3.2); up to four
rows more in some of larger maps, which no rule is known of."""
_PIXELS_AT_ONCE = 8192
"""Of a larger graph output RV1103 and RV1106 copy so many pixels at once, into room of their own
where the channels fill whole groups."""
_TILED_ROWS = ("rk3588", "rk3576", "rv1126b")
"""Families on which a Reshape fills whole tiles of channels for a convolution."""
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_PRODUCTS = ("exMatMul", "exSDPAttention")
_ROW_CONVERTED = ("rk3562", "rv1106", "rk2118")
"""Families that copy a graph output to NHWC where its channels fill whole groups."""


def element_bytes(dtype: str) -> int:
    """Of one value; four where the dtype is not known."""
    return _SIZES.get(dtype, 4)


def settled(lowered: Lowered) -> Lowered:
    """With the dtype that each float32 feature has on the chip: that its layer computes in."""
    tensors = dict(lowered.tensors)
    for layer in lowered.layers:
        for name in layer.outputs:
            tensor = tensors.get(name)
            if tensor is not None and tensor.dtype == "float32" and not tensor.const:
                tensors[name] = replace(tensor, dtype=layer.dtype or lowered.dtype)
    return replace(lowered, tensors=tensors)


def padded_bytes(shape: tuple[int, ...], size: int, npu: NpuProfile) -> int:
    """Bytes of a tensor of four axes whose channels fill groups and whose pixels fill fours."""
    batch, channels, height, width = shape
    pixels = height * width
    padded = aligned(channels, npu.group(size))
    return batch * padded * (pixels if pixels == 1 else aligned(pixels, _PIXELS)) * size


def feature_bytes(
    tensor: LoweredTensor,
    npu: NpuProfile,
    writer: LoweredLayer | None,
    lowered: Lowered,
) -> int:
    """What a feature tensor takes in internal memory.

    Args:
        tensor: with its shape, NCHW where it has four axes.
        npu: the family of chips.
        writer: the layer that computes it; None of an input.
        lowered: all layers and tensors.
    """
    size = element_bytes(tensor.dtype)
    shape = tensor.shape
    if len(shape) != 4:
        return _flat_bytes(tensor, npu, writer, lowered)
    batch, channels, height, width = shape
    if npu.family == "rk3566" and batch > channels == height == 1 and _turned_on_cpu(writer):
        return batch * width * size  # rows of a sequence: not in groups of channels
    group = npu.group(size)
    padded = aligned(channels, group)
    moved = writer is not None and writer.kind == "Transpose" and writer.target == "NPU"
    if writer is not None and moved and npu.family != "rk3566" and max(shape[1:]) > 1:
        broken = lowered.shape(writer.inputs[0])[1:2] and lowered.shape(writer.inputs[0])[1] % group
        sides = [height, width]
        if broken:  # the axis that held the channels is in whole groups
            at = 2 if writer.perm[2:3] == (1,) else 3
            sides[at - 2] = aligned(sides[at - 2], group)
        turned = padded * sides[0] * sides[1]
        rows = channels == group and in_rows(writer.inputs[0], npu, lowered)
        direct = height == 1 and not broken and channels % group == 0
        tiled = npu.family in _TILED_ROWS and tensor.name in lowered.convolved
        if (tiled or npu.family == "rk3588") and batch == 1 and not rows and not direct:
            tile = npu.tile(size)
            turned = max(turned, aligned(channels, tile) * height * width)
        if broken or height > 1 or npu.family == "rk3588":
            return batch * turned * size * written_times(writer, npu, size)
    if writer is not None:
        padded = max(padded, _written_channels(channels, size, npu, writer, lowered))
        if writer.kind == "Split" and writer.target == "NPU":
            padded = max(padded, _cut_channels(tensor.name, channels, size, npu, lowered))
        padded *= written_times(writer, npu, size)
        if tensor.name in lowered.added and not _adds_as_it_is(writer, npu):
            padded = max(padded, aligned(channels, npu.tile(size)))
    if npu.family == "rk2118" and tensor.name in lowered.max_pooled:
        padded = max(padded, _MAX_POOL_TIMES * aligned(channels, group))
    if in_rows(tensor.name, npu, lowered):
        return batch * padded * height * width * size
    pixels = height * width
    channels = batch * padded
    if writer is not None and writer.kind in _PRODUCTS and writer.target == "NPU":
        tile = npu.tile(size)
        channels += max(aligned(shape[1], tile) - padded, 0)  # the last product fills its tile
    whole = channels * (pixels if pixels == 1 else aligned(pixels, _PIXELS)) * size
    unfolded = writer is not None and is_unfolded(writer, lowered)
    return aligned(whole) if unfolded and npu.family != "rk3566" else whole


def _flat_bytes(
    tensor: LoweredTensor, npu: NpuProfile, writer: LoweredLayer | None, lowered: Lowered
) -> int:
    """Of a tensor that has not four axes; one of three as what it becomes, (N, C, 1, L)."""
    size, shape = element_bytes(tensor.dtype), tensor.shape
    step = 8 if npu.family == "rk3566" else ALIGNMENT
    if len(shape) == 3:
        padded = padded_bytes((shape[0], shape[1], 1, shape[2]), size, npu)
        flat = writer is not None and is_unfolded(writer, lowered) and writer.target == "NPU"
        flat = flat or _reshaped_map(writer, lowered)
        if npu.family == "rk3566":
            return padded
        if flat or (writer is None and npu.family != "rk3562"):
            return aligned(padded, step)
    return aligned(math.prod(shape) * size, step)


def is_unfolded(layer: LoweredLayer, lowered: Lowered) -> bool:
    """Whether a Reshape makes (N, C, L) of (N, C, 1, L), or the reverse: around every Conv1d."""
    if layer.kind != "Reshape" or len(layer.inputs) != 1 or not layer.outputs:
        return False
    flat, four = lowered.shape(layer.inputs[0]), lowered.shape(layer.outputs[0])
    if len(flat) == 4:
        flat, four = four, flat
    return len(flat) == 3 and four == (flat[0], flat[1], 1, flat[2])


def _reshaped_map(writer: LoweredLayer | None, lowered: Lowered) -> bool:
    """Whether a Reshape on the NPU wrote a feature from a map in groups of channels."""
    if writer is None or writer.kind != "Reshape" or writer.target != "NPU":
        return False
    (source,) = writer.inputs
    return len(lowered.shape(source)) == 4 and in_groups(source, lowered)


def in_groups(name: str, lowered: Lowered) -> bool:
    """Whether a map lies in groups of channels; what a Transpose writes may lie in rows."""
    writer = lowered.writers.get(name)
    return writer is not None and writer.kind not in ("Transpose", "Reshape")


def in_rows(name: str, npu: NpuProfile, lowered: Lowered) -> bool:
    """Whether the NPU leaves a map of four axes as rows, for or from a Transpose.

    Its table says ``UNDEFINED`` then. Found of what a Transpose writes whose batch is another one,
    and of what a Reshape writes for a Transpose of a map or of batches, or for one before a layer
    on the CPU.
    """
    shape, writer = lowered.shape(name), lowered.writers.get(name)
    if npu.family == "rk3566" or len(shape) != 4 or writer is None or writer.target != "NPU":
        return False
    group = npu.group(element_bytes(lowered.tensors[name].dtype))
    wide = npu.family == "rk3588"
    if writer.kind == "Transpose":
        batches = shape[0] > 1 == lowered.shape(writer.inputs[0])[0]
        return batches and (not wide or shape[1] % group > 0)
    if writer.kind != "Reshape":
        return False
    readers = lowered.readers.get(name, ())
    if len(readers) != 1 or readers[0].kind != "Transpose" or readers[0].target != "NPU":
        return False
    turned = readers[0].outputs[0]
    if any(
        reader.kind == "exNorm" and reader.target == "CPU" for reader in lowered.readers[turned]
    ):
        return True
    after = lowered.shape(turned)
    moved = shape[2] > 1 or (shape[0] > 1 and len(after) == 4 and after[0] == 1 < after[2])
    return moved and (not wide or shape[3] % group == 0)


def _joins_rows(writer: LoweredLayer, lowered: Lowered) -> bool:
    """Whether a Transpose makes rows of a map of batches, as behind a norm over its channels."""
    before, after = lowered.shape(writer.inputs[0]), lowered.shape(writer.outputs[0])
    maps = writer.kind == "Transpose" and len(before) == len(after) == 4
    return maps and after[0] == 1 < min(before[0], after[2])


def _turned_on_cpu(writer: LoweredLayer | None) -> bool:
    return writer is not None and writer.kind == "Transpose" and writer.target == "CPU"


def widened(name: str, npu: NpuProfile, lowered: Lowered) -> bool:
    """Whether a feature has room for four bytes a value: a norm reads it in float16.

    Found on RK3566 and RK3588, whatever writes it; in int8 and on the others it has not.
    """
    return npu.family in ("rk3566", "rk3588") and any(
        reader.kind == "exNorm" and reader.target == "NPU" and reader.dtype == "float16"
        for reader in lowered.readers.get(name, ())
    )


def spread_columns(layer: LoweredLayer, lowered: Lowered, npu: NpuProfile) -> int:
    """Bytes of a constant for each column, (1, 1, 1, W), written out over all channels; else 0.

    The compiler does so with the bias of a norm over pixels that Relu follows, and makes room for
    a copy of that size where it multiplies or only adds.
    """
    if layer.kind not in ("Add", "Mul") or len(layer.inputs) != 1 or not layer.consts:
        return 0
    constant, feature = lowered.shape(layer.consts[0]), lowered.tensors[layer.inputs[0]]
    if len(feature.shape) != 4 or constant != (1, 1, 1, feature.shape[3]) or constant[3] == 1:
        return 0
    if feature.shape[2] != 1 or feature.shape[1] == 1:
        return 0
    size = element_bytes(feature.dtype)
    tile = DEPTHWISE[npu.family].output // size
    return feature.shape[0] * aligned(feature.shape[1], tile) * constant[3] * size


def is_image(tensor: LoweredTensor) -> bool:
    """Whether an input comes as an image, NHWC: it has one, three or four channels."""
    return len(tensor.shape) == 4 and tensor.shape[1] in _IMAGE_CHANNELS


def image_bytes(tensor: LoweredTensor, npu: NpuProfile) -> int:
    """Of an image whose rows are padded to whole groups of bytes, of 16 on RV1106B."""
    batch, channels, height, width = tensor.shape
    step = 16 if npu.family == "rv1106b" else npu.atom_bytes
    width = aligned(width * element_bytes(tensor.dtype), step)
    return batch * channels * height * width


def turned_image_bytes(tensor: LoweredTensor, npu: NpuProfile) -> int:
    """Of the same in channels, as the convolution that the compiler adds writes it."""
    size = element_bytes(tensor.dtype)
    tile = npu.tile(size)
    batch, channels, height, width = tensor.shape
    return padded_bytes((batch, aligned(channels, tile), height, width), size, npu)


def _written_channels(
    channels: int, size: int, npu: NpuProfile, writer: LoweredLayer, lowered: Lowered
) -> int:
    """Channels that the writer of a tensor writes, padding included."""
    if not writer.inputs or not writer.outputs:
        return channels
    tile = npu.tile(size)
    if npu.family == "rk3566" and writer.kind == "Transpose":
        return aligned(channels, tile) if writer.outputs[0] in lowered.convolved else channels
    if writer.target != "NPU" and writer.kind != "Reshape":
        return channels
    if writer.kind in _CONVOLUTIONS:
        extra = tile if _splits(size, npu, writer, lowered) else 0
        if writer.depthwise:
            tile = DEPTHWISE[npu.family].output // size
        return aligned(channels, tile) + extra
    if _joins_rows(writer, lowered):
        return aligned(channels, tile)
    if writer.kind == "Resize" and writer.mode not in ("", "nearest"):
        return aligned(channels, DEPTHWISE[npu.family].output // size)
    if writer.kind == "Concat":
        return _joined_channels(channels, tile, writer, npu, lowered)
    if writer.kind == "Reshape" and len(lowered.shape(writer.outputs[0])) == 4:
        tiled = npu.family in _TILED_ROWS and writer.outputs[0] in lowered.convolved
        return aligned(channels, tile) if tiled else channels
    return channels


def _adds_as_it_is(writer: LoweredLayer, npu: NpuProfile) -> bool:
    """Whether what a convolution adds to its result does not fill whole tiles.

    It does whatever writes it, except these. Asked of 26 layers with 12, 24 and 40 channels,
    toolkit 2.3.2.
    """
    if writer.kind.endswith("Pool"):
        return npu.family in ("rk3576", "rv1126b")
    return writer.kind == "Resize"


def _cut_channels(name: str, channels: int, size: int, npu: NpuProfile, lowered: Lowered) -> int:
    """Channels of a part of a Split.

    A part that begins within a group is read from the start of that group on, in whole tiles. Found
    of six splits on four chips (asked, toolkit 2.3.2).
    """
    within = lowered.cut_from.get(name, 0) % npu.group(size)
    tile = npu.tile(size)
    return aligned(within + channels, tile) if within else channels


def _joined_channels(
    channels: int, tile: int, writer: LoweredLayer, npu: NpuProfile, lowered: Lowered
) -> int:
    """Channels that a Concat writes where an input has a broken group."""
    if not _breaks_groups(writer, npu, lowered):
        return channels
    if gathers(writer, npu, lowered):
        return aligned(channels, tile)
    size = element_bytes(lowered.tensors[writer.outputs[0]].dtype)
    group = npu.group(size)
    whole = sum(aligned(lowered.shape(name)[1], group) for name in writer.inputs)
    return aligned(whole, tile) if npu.family in ("rk3576", "rv1126b") else whole


def _splits(size: int, npu: NpuProfile, writer: LoweredLayer, lowered: Lowered) -> bool:
    """Whether a convolution is computed in parts that keep one tile more behind its output.

    Found of 1x1 convolutions on RK3566 and RK3568, and of depthwise ones of more than one tile on
    the families of :data:`_SPLIT_BYTES`: where input and weight do not fit into the buffer of the
    NPU together. On RK3576 and RV1126B also of a ConvTranspose to fewer channels.
    """
    if writer.window is None:
        return False
    source = lowered.shape(writer.inputs[0])
    result = lowered.shape(writer.outputs[0])
    if len(source) != 4 or len(result) != 4:
        return False
    pixels = source[2] * source[3]
    if writer.kind == "ConvTranspose":
        fewer = result[1] < source[1] and not writer.depthwise
        return fewer and npu.family in ("rk3576", "rv1126b")
    if writer.depthwise:
        limit = _SPLIT_BYTES.get(npu.family, 0)
        tile = DEPTHWISE[npu.family].output // size
        if not limit or result[1] <= tile:
            return False
        height, width = writer.window.kernel
        channels = aligned(result[1], tile)
        weight = 2 * channels * height * width * size  # kept twice
        if npu.family == "rk2118":
            banks = -(-channels * pixels * size // limit) - (-weight // limit)
            return banks >= BANKS
        return channels * pixels * size + weight > limit
    if npu.family != "rk3566" or writer.window.kernel != (1, 1) or result[2] * result[3] == 1:
        return False
    weight = source[1] * result[1] * size
    if weight <= BANK:
        return False
    banks = -(-source[1] * pixels * size // BANK) - (-weight // BANK)
    return banks > BANKS


def gathers(writer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> bool:
    """Whether a Concat over channels copies its inputs first: one of them has a broken group.

    Found on the families of RK3566 and RK3588; the others join them in place.
    """
    return npu.family in ("rk3566", "rk3588") and _breaks_groups(writer, npu, lowered)


def _breaks_groups(writer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> bool:
    if writer.kind != "Concat" or not writer.outputs:
        return False
    result = lowered.tensors[writer.outputs[0]]
    shapes = [lowered.shape(name) for name in writer.inputs]
    if len(result.shape) != 4 or sum(s[1] for s in shapes if len(s) == 4) != result.shape[1]:
        return False
    group = npu.group(element_bytes(result.dtype))
    return any(shape[1] % group for shape in shapes)


def converted_bytes(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> tuple[int, ...]:
    """What each copy takes that turns a graph output into the layout of the user, NHWC.

    Only an OutputOperator that runs on the NPU makes copies. Source: the tensors named
    ``..._exSecondary`` of the printed tables.

    Args:
        layer: the OutputOperator.
        npu: the family of chips.
        lowered: all layers and tensors.
    """
    tensor = lowered.tensors.get(layer.inputs[0])
    if layer.target != "NPU" or tensor is None or len(tensor.shape) != 4:
        return ()
    size = element_bytes(tensor.dtype)
    batch, channels, height, width = tensor.shape
    if npu.family in _ROW_CONVERTED:
        rows = batch * height * width * channels * size
        full = batch * height * width * aligned(channels * size, npu.atom_bytes)
        if full == rows and npu.family == "rv1106" and height * width > _PIXELS_AT_ONCE:
            return (rows + _PIXELS_AT_ONCE * channels * size,)
        if full == rows or (npu.family == "rv1106" and channels * size <= npu.atom_bytes):
            return (rows,)
        return (full, rows)
    if size > 1:
        return (batch * aligned(height, 4) * width * aligned(channels, 4) * size,)
    if width % 8 == 0:
        # the copy is done in four parts, each with room for the whole
        return (batch * 4 * height * width * aligned(channels, 4),)
    return (batch * aligned(height, 8) * width * aligned(channels, 8),)


_SHORT = ("HardSigmoid", "Sigmoid", "Sqrt", "Tanh")
_LONG = ("Elu", "ExGelu", "exGelu", "ExSwish", "exSwish", "HardSwish", "Softplus")
_TWICE = ("rk3562", "rk3576", "rv1126b")


def written_times(writer: LoweredLayer, npu: NpuProfile, size: int) -> int:
    """How many times as large as its tensor the output of a layer is.

    Args:
        writer: the layer.
        npu: the family of chips.
        size: bytes of one value of the output.
    """
    if writer.target != "NPU":
        return 1
    if writer.kind == "Transpose":
        return 2 if npu.family == "rk2118" else 1
    fused = writer.kind in ("Conv", "ConvTranspose")
    name = writer.op.removesuffix("Relu").removesuffix("Add")
    short, long = name.endswith(_SHORT), name.endswith(_LONG)
    if not short and not long:
        return 1
    if size == 1:
        return 4 if npu.family == "rk3588" and not fused else 1
    if short:
        return 2
    if npu.family in _TWICE:
        return 2 if fused else 3
    return 2 if npu.family == "rk3588" and not fused else 3
