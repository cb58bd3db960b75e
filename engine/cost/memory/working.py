"""What a layer needs beside its tensors while it runs.

Source: the tensors named ``..._exSecondary`` of the tables that rknn-toolkit2 2.3.2 prints, and the
gaps between tensors there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from engine.cost.cycles import aligned
from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.memory.layout import element_bytes, gathers, padded_bytes, spread_columns
from engine.cost.memory.movements import reshaped_bytes, turned_bytes
from engine.facts.npu import NpuDtype, NpuProfile

_ELEMENTWISE = ("Mul", "Add", "Sub", "Div")
_WIDE_NORMS = ("rk3588", "rk3576", "rv1126b")
"""Families whose norms work on two batches at once."""
_NORMS = {"rk3562": (8, (16, 48)), **dict.fromkeys(_WIDE_NORMS, (16, (32, 64)))}
"""Of a norm over channels: their group, and bytes of sums for a pixel in int8 and float16."""
_FEW_CHANNELS = {
    ("rk3566", True): 8,
    **{(family, half): 16 if half else 8 for family in _WIDE_NORMS for half in (False, True)},
}
"""By family and float16: over so few channels of a map the sums are those of the other dtype."""


_SHARES = {
    ("rk3588", False): (0, ((6, 8, 4), (2, 16, 4), (32, 0, 4))),
    ("rk3588", True): (64, ((8, 8, 4), (2, 16, 4), (16, 0, 4))),
    ("rk3576", False): (64, ((2, 8, 4), (2, 16, 4), (2, 16, 8), (32, 0, 8))),
    ("rk3576", True): (0, ((4, 8, 4), (2, 16, 4), (32, 0, 4))),
    ("rk3562", False): (64, ((6, 8, 4), (16, 0, 4))),
    ("rk3562", True): (0, ((6, 8, 4), (16, 0, 4))),
    ("rv1106", False): (0, ((2, 8, 8), (2, 16, 4), (48, 0, 4))),
}
"""Buffers of a softmax by family and float16: constants, then (bytes, group of keys, of rows).

A group of 0 is one value a row. Of more than 16 keys and 4 rows: 162 asked sizes are exact.
"""
_FEW_SHARES = {
    ("rk3588", False): ((64, 96), (0, 128)),
    ("rk3588", True): ((64, 112), (64, 144)),
    ("rk3576", False): ((64, 96), (64, 96)),
    ("rk3576", True): ((64, 96), (64, 96)),
    ("rk3562", False): ((64, 48), (64, 112)),
    ("rk3562", True): ((64, 48), (0, 112)),
    ("rv1106", False): ((0, 80), (64, 80)),
}
"""The same of at most 8 and of at most 16 keys: constants, and bytes a row; some fit in others."""


def working_bytes(
    layer: LoweredLayer, npu: NpuProfile, lowered: Lowered, shared: Collection[str] = ()
) -> int:
    """Bytes that are needed from the start of a layer to its end; 0 where none are known.

    Args:
        layer: of ``lowered``.
        npu: the family of chips.
        lowered: all layers and tensors.
        shared: features that more than one layer reads.
    """
    if not layer.inputs or not layer.outputs:
        return 0
    if layer.kind == "Reshape":
        return reshaped_bytes(layer, npu, lowered, layer.inputs[0] in shared)
    if layer.target != "NPU":
        return 0
    if layer.kind == "Resize":
        return _border(layer, npu, lowered)
    if layer.op in ("Add", "Mul") and layer.consts:
        return spread_columns(layer, lowered, npu)
    if layer.kind in _ELEMENTWISE:
        return _spread(layer, npu, lowered)
    if layer.kind == "Concat":
        return _gathered(layer, npu, lowered)
    if layer.kind in _BY_KIND:
        return _BY_KIND[layer.kind](layer, npu, lowered)
    if layer.kind == "Transpose":
        return turned_bytes(layer, npu, lowered)
    return 0


def _border(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """A Resize between pixels works on a copy with a border of one pixel all around."""
    tensor = lowered.tensors[layer.inputs[0]]
    if layer.mode in ("", "nearest") or len(tensor.shape) != 4:
        return 64
    batch, channels, height, width = tensor.shape
    bordered = (batch, channels, height + 2, width + 2)
    return aligned(padded_bytes(bordered, element_bytes(tensor.dtype), npu))


def _spread(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """A map of one channel that meets one of many is spread over all of them first."""
    shapes = [lowered.shape(name) for name in layer.inputs]
    result = lowered.tensors[layer.outputs[0]]
    if len(result.shape) != 4 or any(len(shape) != 4 for shape in shapes):
        return 0
    _, channels, height, width = result.shape
    if channels == 1 or height * width == 1:
        return 0
    if not any(shape[1] == 1 and shape[2:] == (height, width) for shape in shapes):
        return 0
    return padded_bytes(result.shape, element_bytes(result.dtype), npu)


def _gathered(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """The inputs of a Concat one behind the other, each with whole groups of channels."""
    if not gathers(layer, npu, lowered):
        return 0
    size = element_bytes(lowered.tensors[layer.outputs[0]].dtype)
    return sum(padded_bytes(lowered.shape(name), size, npu) for name in layer.inputs)


def _attention(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Weights out of keys and values, scores, buffers of their softmax, and shares.

    Keys become weights in up to three steps: more than one where a head has more than 32 values,
    or where they do not fill tiles. Values that do not fill tiles are copied early. Scores and
    shares take the place of a step that is over where they fit. RK3576 and RV1126B work on two
    heads at once. Asked of 627 builds of more than 32 keys and queries on eight chips: 621 are
    exact, the others are within 15 % (float16, 36 or 40 keys). Of fewer, three of four are within
    10 % (toolkit 2.3.2).
    """
    shape = lowered.shape(layer.inputs[0])
    if len(shape) != 4:
        return 0
    heads, depth, _, count = shape
    other = lowered.shape(layer.inputs[1]) if len(layer.inputs) > 1 else shape
    rows, keys = aligned(count, 4), aligned(other[3] if len(other) == 4 else count, 4)
    size = 2 if layer.dtype == "float16" else 1
    dtype: NpuDtype = "float16" if size == 2 else "int8"
    tile = npu.macs_out[dtype] or 16
    deep, stored = aligned(depth, npu.macs_in[dtype] or 32), aligned(depth, npu.atom(dtype))
    key = aligned(keys, tile) * deep * size
    value = aligned(keys, 32) * aligned(depth, tile) * size
    scores, shares = (rows * aligned(keys, step) * size for step in (tile, 32))
    queries = rows * deep * size if stored != deep else 0
    steps = 1 + (deep > 32) + (keys % tile > 0 or stored != deep)
    early = value if keys % 32 or keys == 32 or stored != aligned(depth, tile) else 0
    if steps > 1 and scores <= key:
        total, room = early + (key if keys < 32 else scores), 0
        if steps == 3 and early:
            total, room = total + key + queries, key
    elif deep > 32:
        total, room = steps * key + early + scores + queries, 2 * key
    else:
        total, room = steps * key + scores + (queries if queries > key else 0), steps * key
        total, room = (total, room - early) if early <= room else (total + early, room)
    total += shares if shares > room else 0
    peak = steps * key + early + queries
    if keys % 32 and keys > 32 and deep > 32:
        peak = max(peak, 3 * value + key)
    exponents = _exponents(npu.family, size == 2, rows, keys)
    if heads > 1 and npu.family in ("rk3576", "rv1126b"):
        return 2 * (max(total + 2 * exponents, peak) + 192)
    return max(total + exponents, peak) + 192


def _exponents(family: str, half: bool, rows: int, keys: int) -> int:
    """Buffers of a softmax over ``keys`` values in each of ``rows``; 0 of other families."""
    key = ("rk3576" if family == "rv1126b" else family, half)
    if key not in _SHARES:
        return 0
    if keys <= 16:
        constants, per_row = _FEW_SHARES[key][keys > 8]
        return constants + per_row * rows
    constants, buffers = _SHARES[key]
    return constants + sum(
        per_row * aligned(rows, step) * (aligned(keys, group) if group else 1)
        for per_row, group, step in buffers
    )


def _matrix(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Buffers of a product: of its filters one to three, of its input, of its result.

    The filters are turned, and padded where they do not fill tiles. The input is copied where its
    channels do not fill tiles, and on RK3566 in int8. The result takes the place of what is not
    needed any more where it fits. Asked of 385 sizes and dtypes on eight families: all but one of
    RK2118 are exact (toolkit 2.3.2).
    """
    if len(layer.inputs) < 2:
        return 0
    first = lowered.tensors[layer.inputs[0]]
    other = lowered.shape(layer.inputs[1])
    if len(first.shape) != 4 or len(other) != 4:
        return 0
    batch, inner, _, filters = first.shape
    pixels, inner = aligned(other[3], 4), aligned(inner, 4)
    size = element_bytes(first.dtype)
    dtype: NpuDtype = "int8" if size == 1 else "float16"
    group, channels = npu.atom(dtype), npu.macs_in[dtype] or 32
    deep, wide = aligned(inner, channels), aligned(filters, npu.macs_out[dtype] or 16)
    full = inner == deep and filters == wide
    copies = npu.family == "rk3566" and size == 1

    def features(count: int, whole: int) -> int:
        padded = aligned(count, group)
        return pixels * (batch * padded + whole - padded) * size

    weights = aligned(batch * wide * deep * size)
    copied = aligned(features(inner, deep)) if copies or inner != deep else 0
    result = features(filters, wide)
    if deep <= channels:
        free = 0 if full and not copies else weights
        total = weights + free
        for part in (copied, result):
            if part <= free:
                free -= part
            else:
                total += part
        return total + 128
    count = 2 if full else 3
    free = weights if copied else (count - 1) * weights
    return count * weights + copied + (result if result > free else 0) + 128


def _norm(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Means and squares of a normalization: the tensor four times over, six on RK3562 in int8.

    Over the channels of each pixel there are sums beside it; of maps 14 sizes were asked on four
    families (toolkit 2.3.2). Over a whole map, one batch is worked on at a time, two on families
    with a wide array.
    """
    tensor = lowered.tensors[layer.inputs[0]]
    if len(tensor.shape) != 4:
        return 4 * math.prod(tensor.shape) + 2112
    batch, channels, height, width = tensor.shape
    half = element_bytes(tensor.dtype) == 2
    scales = [math.prod(lowered.shape(name)) for name in layer.consts[:1]]
    if width == 1 or (height > 1 and scales != [channels]):
        at_once = 2 if batch > 1 and npu.family in _WIDE_NORMS else 1
        return at_once * (4 * channels * height * width + 128)
    pixels = aligned(height * width, 4)
    group, sums = _NORMS.get(npu.family, (8, (16, 32)))
    if npu.family == "rk3562" and not half and channels % 16:
        if height > 1 and channels > 16:
            return batch * (4 * aligned(channels, 16) + sums[half]) * pixels
        return batch * (96 if height > 1 else 4 * aligned(channels, group) + 16) * pixels + 64
    times = 6 if npu.family == "rk3562" and not half else 4
    column = sums[half]
    if height > 1 and channels <= _FEW_CHANNELS.get((npu.family, half), 0):
        column = sums[0] if half else sums[1]
    return batch * times * aligned(channels, group) * pixels + column * pixels + 64


def _softmax(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Exponents and their sum; of batches, one pixel and other families about 8 bytes a value.

    RK3566 computes it on the CPU. RV1103B is exact where batches fill groups (7 sizes asked).
    """
    shape = lowered.shape(layer.inputs[0])
    rows = math.prod(shape[2:])
    size = 0
    if len(shape) == 4 and shape[0] == 1 < rows:
        half = lowered.tensors[layer.inputs[0]].dtype == "float16"
        size = _exponents(npu.family, half, aligned(rows, 4), shape[1])
    if npu.family == "rv1106b" and len(shape) == 4:
        size = 8 * math.prod(shape) + 8 * (shape[0] - 1) * rows + 64
    return size or 8 * math.prod(shape)


_BY_KIND: dict[str, Callable[[LoweredLayer, NpuProfile, Lowered], int]] = {
    "exSDPAttention": _attention,
    "exMatMul": _matrix,
    "exNorm": _norm,
    "exSoftmax13": _softmax,
}
