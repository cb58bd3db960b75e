"""What a layer needs beside its tensors while it runs.

Source: the tensors named ``..._exSecondary`` of the tables that rknn-toolkit2 2.3.2 prints, and the
gaps between tensors there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from engine.chips.npu import NpuProfile
from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.memory.allocator import aligned
from engine.cost.memory.layout import (
    element_bytes,
    feature_bytes,
    gathers,
    in_groups,
    in_rows,
    padded_bytes,
    spread_columns,
)

__all__ = ["is_view", "working_bytes"]

_ELEMENTWISE = ("Mul", "Add", "Sub", "Div")
_WIDE_NORMS = ("rk3588", "rk3576", "rv1126b")
"""Families whose norms work on two batches at once."""
_NORMS = {"rk3562": (8, (16, 48)), **dict.fromkeys(_WIDE_NORMS, (16, (32, 64)))}
"""Of a norm over channels: their group, and bytes of sums for a pixel in int8 and float16."""


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
        return _reshaped(layer, npu, lowered, layer.inputs[0] in shared)
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
        return _turned(layer, npu, lowered)
    return 0


def is_view(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> bool:
    """Whether a layer can leave its tensor where it is: a Relu, a Reshape to the same layout."""
    if layer.target != "NPU" or len(layer.inputs) != 1 or len(layer.outputs) != 1:
        return False
    if layer.op == "Relu":
        return True
    if layer.kind == "Transpose":
        return _pixels_stay(layer, npu, lowered)
    if layer.kind != "Reshape":
        return False
    tensor = lowered.tensors[layer.inputs[0]]
    before, after = tensor.shape, lowered.shape(layer.outputs[0])
    if len(before) == 4 and len(after) == 3 and before[0] > 1:
        return before == (*after[:2], 1, after[2])  # neither is in groups of channels
    if len(before) != 4 or len(after) != 4:
        return False
    if any(in_rows(name, npu, lowered) for name in (*layer.inputs, *layer.outputs)):
        return False
    group = max(npu.atom_bytes // element_bytes(tensor.dtype), 1)
    same = before[0] * before[1] == after[0] * after[1]
    whole = before[1] % group == 0 == after[1] % group
    return same and whole and before[2] * before[3] == after[2] * after[3]


def _pixels_stay(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> bool:
    """Whether a Transpose of (1, C, H, W) and (H, W, 1, C) moves nothing: C is one group."""
    tensor = lowered.tensors[layer.inputs[0]]
    before, after = tensor.shape, lowered.shape(layer.outputs[0])
    if npu.family == "rk3566" or len(before) != 4 or len(after) != 4:
        return False
    group = npu.atom_bytes // element_bytes(tensor.dtype)
    if after == (*before[2:], 1, before[1]) and before[0] == 1 < before[2]:
        writer = lowered.writers.get(tensor.name)
        exact = feature_bytes(tensor, npu, writer, lowered) == math.prod(before) * group // (
            before[1] or 1
        ) * element_bytes(tensor.dtype)
        return before[1] == group and (exact or npu.family != "rk3588")
    return before == (*after[2:], 1, after[1]) and after[0] == 1 < before[0] and after[1] == group


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


def _reshaped(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered, shared: bool) -> int:
    """A Reshape copies its input, except where it can leave it in place; RK3588 always copies."""
    tensor = lowered.tensors[layer.inputs[0]]
    size = element_bytes(tensor.dtype)
    before, after = tensor.shape, lowered.shape(layer.outputs[0])
    if npu.family == "rk3566" or tensor.dtype == "int64":
        return 0
    mapped = len(before) == 4 and before[0] == 1 < before[1] and layer.target == "NPU"
    if mapped and in_groups(layer.inputs[0], lowered):
        rows = in_rows(layer.outputs[0], npu, lowered)
        turned = len(after) == 4 and after[2] > 1 and _turned_next(layer.outputs[0], lowered)
        copied = _through_rows(before, after, size, npu, rows=rows, turned=turned)
        if copied:
            return copied
    if npu.family == "rk3588":
        if len(before) != 4 or before[0] > 1 == before[1]:
            return math.prod(before) * size
        return padded_bytes(before, size, npu) if math.prod(before) > 1 else 0
    if layer.target != "NPU":
        return 0
    if len(before) == 3 and len(after) == 4:
        return math.prod(before) * size
    if len(before) != 4 or len(after) != 4:
        return 64
    if is_view(layer, npu, lowered):
        return 2 * padded_bytes(before, size, npu) if shared else 0
    return padded_bytes(before, size, npu)


def _through_rows(
    before: tuple[int, ...],
    after: tuple[int, ...],
    size: int,
    npu: NpuProfile,
    *,
    rows: bool,
    turned: bool,
) -> int:
    """A Reshape of a map that breaks groups of channels or of pixels: NCHW stands between.

    Both sides are padded to groups in channels and pixels, and the numbers themselves lie between
    them. 0 where nothing is broken. Found with 13 shapes on each family. Where the result is left
    in ``rows`` it is not padded; RK3588 pads its columns where it is ``turned`` next.
    """
    group = max(npu.atom_bytes // size, 1)
    sides = [before] if rows else [each for each in (before, after) if len(each) == 4]
    if len(after) < 3 or any(each[2] * each[3] == 1 for each in sides):
        return 0
    if not any(each[1] % group or each[2] * each[3] % group for each in sides):
        return math.prod(before) * size if len(after) == 3 or rows else 0
    raw = aligned(math.prod(before) * size, 16)
    if npu.family == "rk3588":
        if len(after) == 3:
            return padded_bytes(before, size, npu) + raw
        sides = [before, after]
        wide = [aligned(w, 4 if w % 4 == 0 else 8) for *_, w in sides]
        if turned:
            wide[1] = aligned(after[3], group)
        sizes = [aligned(c, group) * h for _, c, h, _ in sides]
        return 2 * max(a * b for a, b in zip(wide, sizes, strict=True)) * size
    first, *rest = [aligned(c, group) * aligned(h * w, group) * size for _, c, h, w in sides]
    if npu.family != "rv1106b":
        return first + max([first, *rest]) + raw
    broken = [(c % group > 0, h * w % group > 0) for _, c, h, w in sides]
    times = 3 if broken[0][1] else 2 if broken[0][0] else 1
    found = times * first + raw
    if rest:
        found += (2 if broken[1][0] else 1) * rest[0]
        if broken[1][1]:
            found += raw + (0 if broken[1][0] else rest[0])
    return found


def _turned_next(name: str, lowered: Lowered) -> bool:
    return any(each.kind == "Transpose" for each in lowered.readers.get(name, ()))


def _turned(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """A Transpose works on a copy; on RK3588 with rows of whole groups and room for both ways."""
    tensor = lowered.tensors[layer.inputs[0]]
    size = element_bytes(tensor.dtype)
    before, after = tensor.shape, lowered.shape(layer.outputs[0])
    if len(before) != 4 or len(after) != 4:
        return 0
    once = padded_bytes(before, size, npu)
    split = before[0] == 1 < min(after[0], before[2])  # rows of a map become batches
    if npu.family == "rk3566" or (before[1] == after[1] and not split):
        return once
    if _pixels_stay(layer, npu, lowered):
        return 0
    if before[0] == 1 < after[0] and after[1] == after[2] == 1:
        return 2 * once  # it is turned to (1, N, 1, W) first
    group = max(npu.atom_bytes // size, 1)
    if in_rows(layer.inputs[0], npu, lowered) and after[1] % group == 0:
        return math.prod(before) * size
    flat = before[2] == after[2] == 1
    if npu.family == "rk3588" and split and before[1] == group:
        return once
    if flat and before[0] == after[0] == 1:
        left = _left_in_rows(layer.outputs[0], lowered)
        return _exchanged(before[1], before[3], group, npu, left=left) * size
    if npu.family == "rk3588":
        if flat and before[1] % group == before[3] % group == 0:
            return 0
        return 2 * max(
            b * aligned(c, group) * h * aligned(w, group) * size for b, c, h, w in (before, after)
        )
    if flat:
        return 2 * once
    b, c, h, w = after
    other = b * aligned(c, group) * h * (w if w % 4 == 0 else aligned(w, group)) * size
    if after[1] % group == 0:
        return other
    return 2 * (other if in_rows(layer.inputs[0], npu, lowered) else max(once, other))


def _left_in_rows(name: str, lowered: Lowered) -> bool:
    readers = lowered.readers.get(name, ())
    return bool(readers) and all(
        each.kind == "Reshape" and len(lowered.shape(each.outputs[0])) != 4 for each in readers
    )


def _exchanged(channels: int, columns: int, group: int, npu: NpuProfile, *, left: bool) -> int:
    """Values of the copies for (1, C, 1, W) -> (1, W, 1, C): one of each side in whole groups.

    One group of channels is copied once; fewer, and what is ``left`` in rows for the program, are
    not padded on the other side. Asked of 16 sizes on four chips.
    """
    whole = channels % group == columns % group == 0
    if npu.family == "rk3588" and whole:
        return 0
    first = aligned(channels, group) * aligned(columns, group)
    if whole and (channels == group or (left and channels >= columns)):
        return first
    if channels < group or (left and npu.family != "rk3588"):
        return first + channels * columns
    return 2 * first


def _attention(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Scores of one head, several times over; of several heads at once on RK3576 and RV1126B.

    Fitted to twelve sizes on each family; exact where the rows are no multiple of 64 and a head is
    not wider than 32.
    """
    shape = lowered.shape(layer.inputs[0])
    if len(shape) != 4:
        return 0
    heads, width, _, rows = shape
    keys = lowered.shape(layer.inputs[1]) if len(layer.inputs) > 1 else shape
    scores = rows * (keys[3] if len(keys) == 4 else rows)
    wide = npu.family in ("rk3576", "rv1126b") and heads > 1
    if rows % 64:
        rest = 128 * (rows + 8) + (96 * rows if width > 32 else 0)
    else:
        rest = (144 if width > 32 else 48) * rows
    if wide:
        return 28 * scores + rest * 5 // 2 + 128
    if npu.family == "rk3588":
        return 10 * scores + rest + 192
    return 8 * scores + rest + 256


def _matrix(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Both sides of a product in the layout of a convolution's input and weight.

    Exact on RK3566, and elsewhere for rows that are a multiple of 64; else within some percent.
    """
    if len(layer.inputs) < 2:
        return 0
    first = lowered.tensors[layer.inputs[0]]
    other = lowered.shape(layer.inputs[1])
    if len(first.shape) != 4 or len(other) != 4:
        return 0
    batch, inner, _, rows = first.shape
    columns = other[3]
    size = element_bytes(first.dtype)
    if npu.family == "rk3566":
        copied = rows * max(2 * inner, inner + columns) + inner * columns
        return batch * copied * size + 128
    if rows % 64:
        wide = max(3 * inner, 2 * inner + columns)
        return batch * aligned(rows, 32) * wide * size + 128
    return batch * rows * max(2 * inner, inner + columns) * size + 128


def _norm(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Means and squares of a normalization: the tensor four times over, six on RK3562 in int8.

    Over the channels of each pixel there are sums beside it. Over a whole map, one batch is worked
    on at a time, two on families with a wide array.
    """
    tensor = lowered.tensors[layer.inputs[0]]
    if len(tensor.shape) != 4:
        return 4 * math.prod(tensor.shape) + 2112
    batch, channels, height, width = tensor.shape
    half = element_bytes(tensor.dtype) == 2
    if height > 1 or width == 1:
        at_once = 2 if batch > 1 and npu.family in _WIDE_NORMS else 1
        return at_once * (4 * channels * height * width + 128)
    times = 6 if npu.family == "rk3562" and not half and channels % 16 == 0 else 4
    group, sums = _NORMS.get(npu.family, (8, (16, 32)))
    pixels = aligned(width, 4)
    return batch * times * aligned(channels, group) * pixels + sums[half] * pixels + 64


def _softmax(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """Exponents and their sum; about eight bytes a value. RK3566 computes it on the CPU."""
    return 8 * math.prod(lowered.shape(layer.inputs[0]))


_BY_KIND: dict[str, Callable[[LoweredLayer, NpuProfile, Lowered], int]] = {
    "exSDPAttention": _attention,
    "exMatMul": _matrix,
    "exNorm": _norm,
    "exSoftmax13": _softmax,
}
