"""Copies that a Reshape or a Transpose works on, and those that leave a feature where it is.

Source: the tensors named ``..._exSecondary`` of the tables that rknn-toolkit2 2.3.2 prints, of
reshapes of 13 shapes, transposes of 16 and norms over pixels of 14, in both dtypes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.cost.cycles import ALIGNMENT, aligned
from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor
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


@dataclass(frozen=True)
class _Move:
    """A layer that reads one feature, with what its copies depend on.

    Attributes:
        size: bytes of a value.
        before, after: shapes of what it reads and writes.
        group: channels that lie together.
    """

    layer: LoweredLayer
    npu: NpuProfile
    lowered: Lowered
    size: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    group: int

    @classmethod
    def of(cls, layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> _Move:
        """Of the first input and output of a layer."""
        tensor = lowered.tensors[layer.inputs[0]]
        size = element_bytes(tensor.dtype)
        after = lowered.shape(layer.outputs[0])
        return cls(layer, npu, lowered, size, tensor.shape, after, npu.group(size))

    @property
    def family(self) -> str:
        """Of the chip."""
        return self.npu.family

    @property
    def source(self) -> LoweredTensor:
        """What is read."""
        return self.lowered.tensors[self.layer.inputs[0]]

    @property
    def plain(self) -> int:
        """Bytes of what is read; there are none where it has not four axes."""
        return padded_bytes(self.before, self.size, self.npu)

    @property
    def raw(self) -> int:
        """Bytes of the numbers that are read, without padding."""
        return math.prod(self.before) * self.size

    def view(self) -> bool:
        """Whether it leaves its tensor where it is."""
        return is_view(self.layer, self.npu, self.lowered)

    def rows(self, name: str) -> bool:
        """Whether a feature lies in rows."""
        return in_rows(name, self.npu, self.lowered)


def is_view(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> bool:
    """Whether a layer can leave its tensor where it is: a Relu, a Reshape to the same layout."""
    if layer.target != "NPU" or len(layer.inputs) != 1 or len(layer.outputs) != 1:
        return False
    if layer.op == "Relu":
        return True
    move = _Move.of(layer, npu, lowered)
    if layer.kind == "Transpose":
        return _pixels_stay(move)
    if layer.kind != "Reshape":
        return False
    before, after = move.before, move.after
    if len(before) == 4 and len(after) == 3 and before[0] > 1:
        return before == (*after[:2], 1, after[2])  # neither is in groups of channels
    if len(before) != 4 or len(after) != 4 or npu.family == "rv1106b":  # which copies it
        return False
    if any(map(move.rows, (*layer.inputs, *layer.outputs))):
        return False
    same = before[0] * before[1] == after[0] * after[1]
    whole = before[1] % move.group == 0 == after[1] % move.group
    return same and whole and before[2] * before[3] == after[2] * after[3]


def _pixels_stay(move: _Move) -> bool:
    """Whether a Transpose of (1, C, H, W) and (H, W, 1, C) moves nothing: C is one group."""
    before, after, group = move.before, move.after, move.npu.atom_bytes // move.size
    if move.family == "rk3566" or len(before) != 4 or len(after) != 4:
        return False
    if after == (1, before[3], *before[1:3]) and after[1] == group and before[0] == 1 < after[2]:
        return move.rows(move.source.name)
    if after == (*before[2:], 1, before[1]) and before[0] == 1 < before[2]:
        writer = move.lowered.writers.get(move.source.name)
        size = feature_bytes(move.source, move.npu, writer, move.lowered)
        exact = size == math.prod(before) * group // (before[1] or 1) * move.size
        return before[1] == group and (exact or move.family != "rk3588")
    return before == (*after[2:], 1, after[1]) and after[0] == 1 < before[0] and after[1] == group


def reshaped_bytes(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered, shared: bool) -> int:
    """A Reshape copies its input, except where it can leave it in place; RK3588 always copies."""
    move = _Move.of(layer, npu, lowered)
    before, after = move.before, move.after
    if npu.family == "rk3566" or move.source.dtype == "int64":
        return 0
    moved = _moved(move, shared)
    if moved is not None:
        return moved
    if npu.family == "rk3588":
        if layer.target != "NPU":
            return ALIGNMENT
        if len(before) != 4 or before[0] > 1 == before[1]:
            return move.raw
        return move.plain if math.prod(before) > 1 else 0
    if layer.target != "NPU":
        return 0
    if len(before) != 4 or len(after) != 4:
        return move.raw if (len(before), len(after)) == (3, 4) else ALIGNMENT
    if move.view():
        return 2 * move.plain if shared else 0
    mapped = npu.family == "rv1106b" and before[1] > 1 and in_groups(layer.inputs[0], lowered)
    return (2 if mapped else 1) * move.plain


def _moved(move: _Move, shared: bool) -> int | None:
    """What a Reshape copies that turns pixels, channels or batches; None of others."""
    layer, lowered, before, after = move.layer, move.lowered, move.before, move.after
    if is_unfolded(layer, lowered) and (unfolded := _unfolded(move)):
        return unfolded
    if layer.target != "NPU" or len(before) != 4:
        return None
    rows = move.rows(layer.outputs[0])
    same = len(after) == 4 and before[:2] == after[:2] == (1, after[1])
    moved = _rearranged(move, shared) if same and not rows else None
    if moved is not None or before[1] == 1 or move.view():
        return moved
    if not in_groups(layer.inputs[0], lowered):
        return None
    readers = lowered.readers.get(layer.outputs[0], ())
    turned = (
        len(after) == 4 and after[2] > 1 and any(reader.kind == "Transpose" for reader in readers)
    )
    return _through_rows(move, rows=rows, turned=turned) or None


def _rearranged(move: _Move, shared: bool) -> int | None:
    """A Reshape of (1, C, H, W) to another height and width; None where it goes through rows.

    Asked of 13 shapes with 21 and 64 channels on eight chips, toolkit 2.3.2.
    """
    _, channels, height, width = move.before
    whole, plain, pixels = channels % move.group == 0, move.plain, height * width
    if move.family == "rk3588":
        return plain if whole else 2 * plain
    if move.view():
        return 2 * plain if shared else 0
    if move.family == "rv1106b" and whole and pixels % move.npu.atom_bytes == 0:
        return 2 * plain
    if move.family != "rk2118" or whole:
        return None
    rows = {channels * count * move.size for count in (pixels, aligned(pixels, 4))}
    return 4 * plain + sum(aligned(row, 16) for row in rows)


def _unfolded(move: _Move) -> int:
    """A Reshape of (N, C, L) to (N, C, 1, L) or back, as around every Conv1d.

    One copy where channels and rows fill whole groups. Else there are two with both in whole
    groups, one more on RV1103B; RK3588 has rows that fill no whole groups on the CPU. What a
    Transpose wrote lies plain and stays. 0 where it is the way back from a map in groups. Asked of
    six sizes on every family, toolkit 2.3.2.
    """
    batch, channels, *_, length = move.before
    group, size = move.group, move.size
    writer = move.lowered.writers.get(move.source.name)
    if writer is not None and writer.kind == "Transpose":
        return move.raw if move.family == "rk3588" else ALIGNMENT
    if move.family == "rk3588" and length % group:
        return ALIGNMENT
    if len(move.before) == 4:
        return 0
    plain = padded_bytes((batch, channels, 1, length), size, move.npu)
    if channels % group == 0 == length % group:
        return plain
    both = 2 * batch * aligned(channels, group) * aligned(length, group) * size
    return both + (plain if move.family == "rv1106b" else 0)


def _through_rows(move: _Move, *, rows: bool, turned: bool) -> int:
    """A Reshape of a map that breaks groups of channels or of pixels: NCHW stands between.

    Both sides are padded to groups in channels and pixels, and the numbers themselves lie between
    them. 0 where nothing is broken. Found with 13 shapes on each family, and with 36 where heads of
    an attention become batches or come back. Where the result is left
    in ``rows`` it is not padded; RK3588 pads its columns where it is ``turned`` next.
    """
    before, after, size, group = move.before, move.after, move.size, move.group
    sides = [before] if rows else [side for side in (before, after) if len(side) == 4]
    if len(after) < 3 or any(side[2] * side[3] == 1 for side in sides):
        return 0
    broken = [(c % group > 0, h * w % group > 0) for _, c, h, w in sides]
    if not any(map(any, broken)):
        return move.raw if len(after) == 3 or rows else 0
    raw = aligned(move.raw, 16)
    if move.family == "rk3588":
        if len(after) == 3:
            return move.plain + raw
        sides = [before, after]
        heads = before[0] != after[0]
        wide = [aligned(w, group if heads else 8 if w % 4 else 4) for *_, w in sides]
        if turned:
            wide[1] = aligned(after[3], group)
        sizes = [b * aligned(c, group) * h for b, c, h, _ in sides]
        return 2 * max(a * b for a, b in zip(wide, sizes, strict=True)) * size
    first, *rest = [b * aligned(c, group) * aligned(h * w, group) * size for b, c, h, w in sides]
    if move.family != "rv1106b":
        through = first + max([first, *rest]) + raw
        if before[0] < sides[-1][0]:
            return max(2 * rest[0], through if any(broken[0]) else 0)
        return through
    times = 3 if broken[0][1] else 2 if broken[0][0] else 1
    total = times * first + raw
    if rest:
        total += (2 if broken[1][0] else 1) * rest[0]
        if broken[1][1]:
            total += raw + (0 if broken[1][0] else rest[0])
    return total


def turned_bytes(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> int:
    """A Transpose works on a copy; on RK3588 with rows of whole groups and room for both ways."""
    move = _Move.of(layer, npu, lowered)
    before, after, group = move.before, move.after, move.group
    if len(before) != 4 or len(after) != 4:
        return 0
    once = move.plain
    split = before[0] == 1 < min(after[0], before[2])  # rows of a map become batches
    joined = after[0] == 1 < min(before[0], after[2])
    kept = layer.perm[1] == 1 if len(layer.perm) == 4 else before[1] == after[1]
    if npu.family == "rk3566" or (kept and not (split or joined)):
        return once
    if _pixels_stay(move):
        return 0
    if before[0] == 1 < after[0] and after[1] == after[2] == 1:
        return 2 * once  # it is turned to (1, N, 1, W) first
    rows = move.rows(layer.inputs[0])
    if rows and after[1] % group == 0:
        return move.raw
    flat = before[2] == after[2] == 1
    if npu.family == "rk3588" and split and before[1] == group:
        return once
    if flat and before[0] == after[0] == 1:
        return _exchanged(move) * move.size
    if npu.family == "rk3588":
        if flat and before[1] % group == before[3] % group == 0:
            return 0
        sides = [b * aligned(c, group) * h * aligned(w, group) for b, c, h, w in (before, after)]
        return 2 * max(sides) * move.size
    if flat:
        return 2 * once
    b, c, h, w = after
    other = b * aligned(c, group) * h * (w if w % 4 == 0 else aligned(w, group)) * move.size
    if after[1] % group == 0:
        return other
    return 2 * (other if rows else max(once, other))


def _exchanged(move: _Move) -> int:
    """Values of the copies for (1, C, 1, W) -> (1, W, 1, C): one of each side in whole groups.

    RK3588 exchanges whole groups without a copy, but not of a map for a norm in float16. A result
    that is left in rows for the program is not padded; nor is it where there are fewer channels
    than a group. Asked of 16 sizes on four chips.
    """
    _, channels, _, columns = move.before
    group, lowered, name = move.group, move.lowered, move.layer.outputs[0]
    whole = channels % group == columns % group == 0
    left = False
    if move.family == "rk3588":
        writer = lowered.writers.get(move.source.name)
        mapped = writer is not None and len(lowered.shape(writer.inputs[0])) == 4
        if whole and not (mapped and widened(name, move.npu, lowered)):
            return 0
    else:
        readers = lowered.readers.get(name, ())
        left = bool(readers) and all(
            reader.kind == "Reshape" and len(lowered.shape(reader.outputs[0])) != 4
            for reader in readers
        )
    first = aligned(channels, group) * aligned(columns, group)
    if whole and (channels == group or (left and channels >= columns)):
        return first  # one group of channels is copied once
    if channels < group or left:
        return first + channels * columns
    return 2 * first
