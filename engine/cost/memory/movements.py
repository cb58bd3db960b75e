"""Copies that a Reshape or a Transpose works on, and those that leave a feature where it is.

Source: the tensors named ``..._exSecondary`` of the tables that rknn-toolkit2 2.3.2 prints, of
reshapes of 13 shapes, transposes of 16 and norms over pixels of 14, in both dtypes.
"""

from __future__ import annotations

import math

from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.memory.allocator import ALIGNMENT, aligned
from engine.cost.memory.layout import (
    element_bytes,
    feature_bytes,
    in_groups,
    in_rows,
    is_unfolded,
    padded_bytes,
    widened,
)
from engine.facts.npu import NpuProfile

__all__ = ["is_view", "reshaped_bytes", "turned_bytes"]


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
    if npu.family == "rv1106b":
        return False  # it is copied
    group = max(npu.atom_bytes // element_bytes(tensor.dtype), 1)
    if npu.family == "rv1106b" and before[:2] == after[:2] and min(*before[2:], *after[2:]) > 1:
        return False  # nor does it leave a map of another height and width
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
    if after == (1, before[3], *before[1:3]) and after[1] == group and before[0] == 1 < after[2]:
        return in_rows(tensor.name, npu, lowered)
    if after == (*before[2:], 1, before[1]) and before[0] == 1 < before[2]:
        writer = lowered.writers.get(tensor.name)
        exact = feature_bytes(tensor, npu, writer, lowered) == math.prod(before) * group // (
            before[1] or 1
        ) * element_bytes(tensor.dtype)
        return before[1] == group and (exact or npu.family != "rk3588")
    return before == (*after[2:], 1, after[1]) and after[0] == 1 < before[0] and after[1] == group


def reshaped_bytes(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered, shared: bool) -> int:
    """A Reshape copies its input, except where it can leave it in place; RK3588 always copies."""
    tensor = lowered.tensors[layer.inputs[0]]
    size = element_bytes(tensor.dtype)
    before, after = tensor.shape, lowered.shape(layer.outputs[0])
    if npu.family == "rk3566" or tensor.dtype == "int64":
        return 0
    moved = _moved(layer, npu, lowered, shared)
    if moved is not None:
        return moved
    if npu.family == "rk3588":
        if layer.target != "NPU":
            return ALIGNMENT
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
    mapped = npu.family == "rv1106b" and before[1] > 1 and in_groups(layer.inputs[0], lowered)
    times = 2 if mapped else 1
    return times * padded_bytes(before, size, npu)


def _moved(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered, shared: bool) -> int | None:
    """What a Reshape copies that turns pixels, channels or batches; None of others."""
    tensor = lowered.tensors[layer.inputs[0]]
    size = element_bytes(tensor.dtype)
    before, after = tensor.shape, lowered.shape(layer.outputs[0])
    if is_unfolded(layer, lowered) and (unfolded := _unfolded(layer, npu, lowered)):
        return unfolded
    if layer.target != "NPU" or len(before) != 4:
        return None
    rows = in_rows(layer.outputs[0], npu, lowered)
    same = len(after) == 4 and before[:2] == after[:2] == (1, after[1])
    moved = _rearranged(layer, npu, lowered, shared) if same and not rows else None
    if moved is not None or before[1] == 1 or is_view(layer, npu, lowered):
        return moved
    if not in_groups(layer.inputs[0], lowered):
        return None
    turned = len(after) == 4 and after[2] > 1 and _turned_next(layer.outputs[0], lowered)
    return _through_rows(before, after, size, npu, rows=rows, turned=turned) or None


def _rearranged(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered, shared: bool) -> int | None:
    """A Reshape of (1, C, H, W) to another height and width; None where it goes through rows.

    Asked of 13 shapes with 21 and 64 channels on eight chips, toolkit 2.3.2.
    """
    tensor = lowered.tensors[layer.inputs[0]]
    size = element_bytes(tensor.dtype)
    _, channels, height, width = tensor.shape
    whole = channels % max(npu.atom_bytes // size, 1) == 0
    plain = padded_bytes(tensor.shape, size, npu)
    if npu.family == "rk3588":
        return plain if whole else 2 * plain
    if is_view(layer, npu, lowered):
        return 2 * plain if shared else 0
    if npu.family == "rv1106b" and whole and height * width % npu.atom_bytes == 0:
        return 2 * plain
    if npu.family != "rk2118" or whole:
        return None
    pixels = height * width
    rows = {channels * each * size for each in (pixels, aligned(pixels, 4))}
    return 4 * plain + sum(aligned(each, 16) for each in rows)


def _unfolded(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """A Reshape of (N, C, L) to (N, C, 1, L) or back, as around every Conv1d.

    One copy where channels and rows fill whole groups. Else there are two with both in whole
    groups, one more on RV1103B; RK3588 has rows that fill no whole groups on the CPU. What a
    Transpose wrote lies plain and stays. 0 where it is the way back from a map in groups. Asked of
    six sizes on every family, toolkit 2.3.2.
    """
    tensor = lowered.tensors[layer.inputs[0]]
    size = element_bytes(tensor.dtype)
    batch, channels, *_, length = tensor.shape
    writer = lowered.writers.get(tensor.name)
    if writer is not None and writer.kind == "Transpose":
        return math.prod(tensor.shape) * size if npu.family == "rk3588" else ALIGNMENT
    group = max(npu.atom_bytes // size, 1)
    if npu.family == "rk3588" and length % group:
        return ALIGNMENT
    if len(tensor.shape) == 4:
        return 0
    plain = padded_bytes((batch, channels, 1, length), size, npu)
    if channels % group == 0 == length % group:
        return plain
    both = 2 * batch * aligned(channels, group) * aligned(length, group) * size
    return both + (plain if npu.family == "rv1106b" else 0)


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
    them. 0 where nothing is broken. Found with 13 shapes on each family, and with 36 where heads of
    an attention become batches or come back. Where the result is left
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
        heads = before[0] != after[0]
        wide = [aligned(w, group if heads else 8 if w % 4 else 4) for *_, w in sides]
        if turned:
            wide[1] = aligned(after[3], group)
        sizes = [b * aligned(c, group) * h for b, c, h, _ in sides]
        return 2 * max(a * b for a, b in zip(wide, sizes, strict=True)) * size
    first, *rest = [b * aligned(c, group) * aligned(h * w, group) * size for b, c, h, w in sides]
    broken = [(c % group > 0, h * w % group > 0) for _, c, h, w in sides]
    if npu.family != "rv1106b":
        through = first + max([first, *rest]) + raw
        if before[0] < sides[-1][0]:
            return max(2 * rest[0], through if any(broken[0]) else 0)
        return through
    times = 3 if broken[0][1] else 2 if broken[0][0] else 1
    found = times * first + raw
    if rest:
        found += (2 if broken[1][0] else 1) * rest[0]
        if broken[1][1]:
            found += raw + (0 if broken[1][0] else rest[0])
    return found


def _turned_next(name: str, lowered: Lowered) -> bool:
    return any(each.kind == "Transpose" for each in lowered.readers.get(name, ()))


def turned_bytes(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """A Transpose works on a copy; on RK3588 with rows of whole groups and room for both ways."""
    tensor = lowered.tensors[layer.inputs[0]]
    size = element_bytes(tensor.dtype)
    before, after = tensor.shape, lowered.shape(layer.outputs[0])
    if len(before) != 4 or len(after) != 4:
        return 0
    once = padded_bytes(before, size, npu)
    split = before[0] == 1 < min(after[0], before[2])  # rows of a map become batches
    joined = after[0] == 1 < min(before[0], after[2])
    kept = layer.perm[1] == 1 if len(layer.perm) == 4 else before[1] == after[1]
    if npu.family == "rk3566" or (kept and not (split or joined)):
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
        name = layer.outputs[0]
        writer = lowered.writers.get(layer.inputs[0])
        mapped = writer is not None and len(lowered.shape(writer.inputs[0])) == 4
        copied = mapped and widened(name, npu, lowered)
        direct = npu.family == "rk3588" and not copied
        left = npu.family != "rk3588" and _left_in_rows(name, lowered)
        return _exchanged(before[1], before[3], group, direct=direct, left=left) * size
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


def _exchanged(channels: int, columns: int, group: int, *, direct: bool, left: bool) -> int:
    """Values of the copies for (1, C, 1, W) -> (1, W, 1, C): one of each side in whole groups.

    Asked of 16 sizes on four chips.

    Args:
        channels, columns: C and W.
        group: channels that lie together.
        direct: whether the NPU exchanges whole groups without a copy: RK3588 does, but not of a map
            for a norm in float16.
        left: whether the result is left in rows for the program, and so is not padded; nor is it
            where there are fewer channels than a group.
    """
    whole = channels % group == columns % group == 0
    if direct and whole:
        return 0
    first = aligned(channels, group) * aligned(columns, group)
    if whole and (channels == group or (left and channels >= columns)):
        return first  # one group of channels is copied once
    if channels < group or left:
        return first + channels * columns
    return 2 * first
