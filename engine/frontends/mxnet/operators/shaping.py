"""Operators that move values and change shapes (src/operator/tensor/matrix_op and others)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from engine.frontends.emit import refuse
from engine.frontends.mxnet.call import Call, Converter, Result, Value, named, renamed

_FAR = 1 << 62


# --------------------------------------------------------------------------------- reshape
def reshaped(target: Sequence[int], shape: Sequence[int], *, reverse: bool = False) -> list[int]:
    """The shape that MXNet's ``reshape`` gives (``InferReshapeShape`` of matrix_op-inl.h).

    0 keeps a dimension, -1 takes what is left over, -2 keeps all that follow, -3 joins two, -4
    splits one into the two numbers behind it; ``reverse`` reads everything from the end.
    """
    left, codes = list(shape), list(target)
    if reverse:
        left, codes = left[::-1], codes[::-1]
    dims: list[int] = []
    open_at = -1
    at = 0
    index = 0
    while index < len(codes):
        code = codes[index]
        here = left[at : at + (2 if code == -3 else 1)]
        if code < -4 or (code in (0, -3, -4) and len(here) < (2 if code == -3 else 1)):
            refuse(f"its shape {tuple(target)} does not fit {tuple(shape)}")
        if code == -2:
            dims += left[at:]
            at = len(left)
        elif code == -4:
            dims += _split(codes[index + 1 : index + 3], here[0])
            at, index = at + 1, index + 2
        elif code == -1:
            if open_at >= 0:
                refuse(f"its shape {tuple(target)} leaves two dimensions open")
            open_at = len(dims)
            dims.append(1)
            at += 1
        else:
            dims.append(code if code > 0 else math.prod(here))
            at += 2 if code == -3 else 1
        index += 1
    count, known = math.prod(shape), math.prod(dims)
    if open_at >= 0 and known and count % known == 0:
        dims[open_at] = count // known
    if math.prod(dims) != count:
        refuse(f"its shape {tuple(target)} does not fit {tuple(shape)}")
    return dims[::-1] if reverse else dims


def _split(parts: Sequence[int], size: int) -> list[int]:
    if len(parts) != 2 or min(parts) < -1 or 0 in parts or parts[0] == parts[1] == -1:
        refuse(f"it splits {size} into {tuple(parts)}")
    first, second = parts
    first = size // second if first == -1 else first
    second = size // first if second == -1 and first else second
    if first * second != size:
        refuse(f"it splits {size} into {tuple(parts)}")
    return [first, second]


def _as_shape(call: Call, shape: Sequence[int]) -> Result:
    value = call.values[0]
    if isinstance(value, np.ndarray):
        return value.reshape(shape)
    return call.op("Reshape", [value, call.w.ints(*shape)])


def _reshape(call: Call) -> Result:
    shape = call.shape()
    target = call.wholes("shape")
    if target:
        return _as_shape(call, reshaped(target, shape, reverse=call.flag("reverse")))
    # target_shape of the first versions: 0 is what is left over
    target = call.wholes("target_shape")
    if not target or target.count(0) > 1 + call.flag("keep_highest"):
        refuse("it says no shape")
    kept = [shape[0], *target[1:]] if call.flag("keep_highest") else target
    return _as_shape(call, reshaped([n or -1 for n in kept], shape))


def _reshape_like(call: Call) -> Result:
    if any(call.given(key) for key in ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end")):
        refuse("it takes a part of the other's shape")
    return _as_shape(call, call.shape(1))


def _expand_dims(call: Call) -> Result:
    shape = list(call.shape())
    axis = call.axis("axis", 0, len(shape) + 1)
    return _as_shape(call, [*shape[:axis], 1, *shape[axis:]])


def _squeeze(call: Call) -> Result:
    shape = call.shape()
    asked = {axis % len(shape) for axis in call.wholes("axis")} if shape else set()
    if any(shape[axis] != 1 for axis in asked):
        refuse(f"it squeezes {tuple(asked)} of {shape}")
    axes = asked or {axis for axis, size in enumerate(shape) if size == 1}
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    return _as_shape(call, kept or [1])


# ------------------------------------------------------------------------------- transpose
def _transpose(call: Call) -> Result:
    rank = len(call.shape())
    order = call.wholes("axes") or list(range(rank))[::-1]
    if sorted(axis % rank for axis in order) != list(range(rank)):
        refuse(f"its axes {tuple(order)} do not fit {rank} dimensions")
    return call.op("Transpose", [call.x()], perm=[axis % rank for axis in order])


def _swap_axis(call: Call) -> Result:
    rank = len(call.shape())
    one, two = call.axis("dim1", 0, rank), call.axis("dim2", 0, rank)
    order = list(range(rank))
    order[one], order[two] = two, one
    return call.op("Transpose", [call.x()], perm=order)


# ------------------------------------------------------------------------- join and divide
def _concat(call: Call) -> Result:
    return call.op("Concat", call.xs(), axis=call.axis("dim", 1, len(call.shape())))


def _stack(call: Call) -> Result:
    axis = call.axis("axis", 0, len(call.shape()) + 1)
    rows = [call.w.node("Unsqueeze", [x, call.w.ints(axis)]) for x in call.xs()]
    return call.op("Concat", rows, axis=axis)


def _parts(call: Call, sizes: Sequence[int], axis: int, *, squeeze: bool) -> Result:
    count = len(sizes)
    if not 1 <= count <= 1000 or min(sizes) < 1:
        refuse(f"it divides its input into {count} parts")
    names = [call.out(index, count) for index in range(count)]
    if squeeze and any(size != 1 for size in sizes):
        refuse("it squeezes parts that are longer than 1")
    x, lengths = call.x(), call.w.ints(*sizes)
    if not squeeze:
        return list[Value](call.w.nodes("Split", [x, lengths], names, axis=axis))
    parts = call.w.nodes("Split", [x, lengths], [f"{name}_part" for name in names], axis=axis)
    axes = call.w.ints(axis)
    return [
        call.w.node("Squeeze", [part, axes], name) for part, name in zip(parts, names, strict=True)
    ]


def _slice_channel(call: Call) -> Result:
    axis = call.axis("axis", 1, len(call.shape()))
    sizes = _sections(call.shape()[axis], call.whole("num_outputs", 1))
    return _parts(call, sizes, axis, squeeze=call.flag("squeeze_axis"))


def _sections(length: int, count: int) -> list[int]:
    if not 1 <= count <= 1000 or length % count:
        refuse(f"it divides {length} into {count} parts")
    return [length // count] * count


def _split_at(call: Call) -> Result:
    """``_split_v2``: at indices, or into equal sections."""
    shape = call.shape()
    axis = call.axis("axis", 1, len(shape))
    sections = call.whole("sections", 0)
    if sections > 0:
        sizes = _sections(shape[axis], sections)
    else:
        cuts = [*call.wholes("indices"), shape[axis]]
        cuts = cuts if cuts[0] == 0 else [0, *cuts]
        sizes = [after - before for before, after in pairwise(cuts)]
    return _parts(call, sizes, axis, squeeze=call.flag("squeeze_axis"))


# ----------------------------------------------------------------------------------- slice
def _bounds(call: Call, key: str, rank: int) -> list[int | None]:
    bounds: list[int | None] = []
    for item in call.entries(key):
        try:
            bounds.append(None if item == "None" else int(item.rstrip("L")))
        except ValueError:
            refuse(f"its {key} is {call.text(key)[:60]!r}")
    if len(bounds) > rank:
        refuse(f"its {key} has {len(bounds)} entries for {rank} dimensions")
    return bounds + [None] * (rank - len(bounds))


def _slice(call: Call) -> Result:
    rank = len(call.shape())
    begins, ends, steps = (_bounds(call, key, rank) for key in ("begin", "end", "step"))
    if any(step == 0 for step in steps):
        refuse("its step is 0")
    forward = [step is None or step > 0 for step in steps]
    starts = [
        b if b is not None else (0 if up else _FAR) for b, up in zip(begins, forward, strict=True)
    ]
    stops = [
        e if e is not None else (_FAR if up else -_FAR) for e, up in zip(ends, forward, strict=True)
    ]
    return _sliced(call, starts, stops, list(range(rank)), [s or 1 for s in steps])


def _sliced(
    call: Call,
    starts: Sequence[int],
    stops: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
) -> Result:
    if any(abs(n) > _FAR for n in (*starts, *stops, *steps)):
        refuse("its bounds are out of range")
    vectors = (call.w.ints(*numbers) for numbers in (starts, stops, axes, steps))
    return call.op("Slice", [call.x(), *vectors])


def _slice_axis(call: Call) -> Result:
    axis = call.axis("axis", 0, len(call.shape()))
    stop = call.whole("end", 0) if call.given("end") else _FAR
    return _sliced(call, [call.whole("begin", 0)], [stop], [axis], [1])


def _slice_like(call: Call) -> Result:
    shape, other = call.shape(0), call.shape(1)
    rank = len(shape)
    axes = [axis % rank for axis in call.wholes("axes")] or list(range(min(rank, len(other))))
    if any(axis >= len(other) or other[axis] > shape[axis] for axis in axes):
        refuse(f"it cuts {shape} to {other}")
    return _sliced(call, [0] * len(axes), [other[a] for a in axes], axes, [1] * len(axes))


def _crop(call: Call) -> Result:
    """``Crop``: a window of ``h_w``, or of the size of a second input (crop-inl.h)."""
    _, _, height, width = image_shape(call)
    size = call.wholes("h_w") if len(call.values) < 2 else list(call.shape(1)[2:])
    if len(size) != 2 or not (1 <= size[0] <= height and 1 <= size[1] <= width):
        refuse(f"it cuts {tuple(size)} out of {(height, width)}")
    offset = call.wholes("offset", (0, 0))
    if call.flag("center_crop"):
        offset = [(height - size[0]) // 2, (width - size[1]) // 2]
    if len(offset) != 2 or min(offset) < 0:
        refuse(f"its offset is {tuple(offset)}")
    if offset[0] + size[0] > height or offset[1] + size[1] > width:
        refuse(f"it cuts {tuple(size)} at {tuple(offset)} out of {(height, width)}")
    stops = [offset[0] + size[0], offset[1] + size[1]]
    return _sliced(call, offset, stops, [2, 3], [1, 1])


def image_shape(call: Call) -> tuple[int, int, int, int]:
    """The shape of an input that is pictures."""
    shape = call.shape()
    if len(shape) != 4:
        refuse(f"its input has {len(shape)} dimensions, not 4")
    return shape[0], shape[1], shape[2], shape[3]


def _reverse(call: Call) -> Result:
    rank = len(call.shape())
    axes = [axis % rank for axis in call.wholes("axis")]
    if not axes:
        refuse("it names no axis")
    count = len(axes)
    return _sliced(call, [-1] * count, [-_FAR] * count, axes, [-1] * count)


# ------------------------------------------------------------------------------ repetition
def _tile(call: Call) -> Result:
    reps, shape = call.wholes("reps"), list(call.shape())
    if not reps or not all(1 <= n <= 1 << 20 for n in reps):
        refuse(f"its reps are {tuple(reps)}")
    reps = [1] * (len(shape) - len(reps)) + reps
    x = call.x()
    if len(reps) > len(shape):
        x = call.w.node("Reshape", [x, call.w.ints(*[1] * (len(reps) - len(shape)), *shape)])
    return call.op("Tile", [x, call.w.ints(*reps)])


def _repeat(call: Call) -> Result:
    """Each value (or each slice along ``axis``) several times in a row."""
    w, count = call.w, call.whole("repeats", 1)
    if not 1 <= count <= 1 << 20:
        refuse(f"it repeats {count} times")
    x, shape = call.x(), list(call.shape())
    if not call.given("axis"):
        shape, axis = [math.prod(shape)], 0
    else:
        axis = call.axis("axis", 0, len(shape))
    x = w.node("Reshape", [x, w.ints(*shape[: axis + 1], 1, *shape[axis + 1 :])])
    x = w.node("Tile", [x, w.ints(*[1] * (axis + 1), count, *[1] * (len(shape) - axis - 1))])
    shape[axis] *= count
    return call.op("Reshape", [x, w.ints(*shape)])


def _pad(call: Call) -> Result:
    widths, rank = call.wholes("pad_width"), len(call.shape())
    mode = call.text("mode", "constant")
    if len(widths) != 2 * rank or not all(0 <= n <= 1 << 20 for n in widths):
        refuse(f"its pad_width {tuple(widths)} does not fit {rank} dimensions")
    if mode not in ("constant", "edge", "reflect"):
        refuse(f"its mode is {mode!r}")
    pads = call.w.ints(*widths[::2], *widths[1::2])
    value = [call.w.scalar(call.real("constant_value", 0.0))] if mode == "constant" else []
    return call.op("Pad", [call.x(), pads, *value], mode=mode)


def _broadcast_to(call: Call) -> Result:
    shape, target = call.shape(), call.wholes("shape")
    if len(target) != len(shape):
        refuse(f"its shape {tuple(target)} does not fit {shape}")
    sizes = [want or have for want, have in zip(target, shape, strict=True)]
    return call.op("Expand", [call.x(), call.w.ints(*sizes)])


def _broadcast_axis(call: Call) -> Result:
    shape = list(call.shape())
    axes, sizes = call.wholes("axis"), call.wholes("size")
    if len(axes) != len(sizes) or any(not -len(shape) <= axis < len(shape) for axis in axes):
        refuse("its axis and size do not fit")
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    return call.op("Expand", [call.x(), call.w.ints(*shape)])


def _broadcast_like(call: Call) -> Result:
    if call.given("lhs_axes") or call.given("rhs_axes"):
        refuse("it takes a part of the other's shape")
    return call.op("Expand", [call.x(), call.w.ints(*call.shape(1))])


# --------------------------------------------------------------------------------- look-up
def _looked_up(call: Call, table: str, indices: str, axis: int, mode: str = "clip") -> Result:
    """Rows by index; an index beyond the table is that of its end (mode ``clip``)."""
    w = call.w
    if mode != "clip":
        refuse(f"its mode is {mode}")
    size = w.shape(table)[axis]
    whole = w.node("Cast", [indices], to=7)
    low, high = w.scalar(0, "int64"), w.scalar(size - 1, "int64")
    return call.op("Gather", [table, w.node("Clip", [whole, low, high])], axis=axis)


def _embedding(call: Call) -> Result:
    return _looked_up(call, call.x(1), call.x(0), 0)


def _take(call: Call) -> Result:
    axis = call.axis("axis", 0, len(call.shape()))
    return _looked_up(call, call.x(0), call.x(1), axis, call.text("mode", "clip"))


def _one_hot(call: Call) -> Result:
    depth = call.whole("depth", 0)
    if not 1 <= depth <= 1 << 24 or call.text("dtype", "float32") != "float32":
        refuse("its depth or dtype is not converted")
    values = np.array([call.real("off_value", 0.0), call.real("on_value", 1.0)], np.float32)
    indices = call.w.node("Cast", [call.x()], to=7)
    # ONNX counts negative indices from the end, MXNet leaves their rows empty
    low = call.w.node("Less", [indices, call.w.scalar(0, "int64")])
    beyond = call.w.scalar(depth, "int64")
    indices = call.w.node("Where", [low, beyond, indices])
    depths = call.w.scalar(depth, "int64")
    return call.op("OneHot", [indices, depths, call.w.constant(values)], axis=-1)


def _blocks(op: str) -> Converter:
    def convert(call: Call) -> Result:
        size = call.whole("block_size", 1)
        _, channels, height, width = image_shape(call)
        square = size * size
        whole = channels % square if op == "DepthToSpace" else height % size or width % size
        if not 1 <= size <= 1 << 10 or whole:
            refuse(f"its block_size of {size} does not fit {call.shape()}")
        if op == "DepthToSpace":
            return call.op(op, [call.x()], blocksize=size, mode="DCR")
        return call.op(op, [call.x()], blocksize=size)

    return convert


SHAPING = named(
    {
        "Reshape reshape": _reshape,
        "reshape_like": _reshape_like,
        "Flatten flatten": renamed("Flatten"),
        "expand_dims": _expand_dims,
        "squeeze": _squeeze,
        "transpose": _transpose,
        "SwapAxis swapaxes": _swap_axis,
        "Concat concat": _concat,
        "stack": _stack,
        "SliceChannel split": _slice_channel,
        "_split_v2": _split_at,
        "slice crop": _slice,
        "slice_axis": _slice_axis,
        "slice_like": _slice_like,
        "Crop": _crop,
        "reverse flip": _reverse,
        "tile": _tile,
        "repeat": _repeat,
        "Pad pad": _pad,
        "broadcast_to": _broadcast_to,
        "broadcast_axis broadcast_axes": _broadcast_axis,
        "broadcast_like": _broadcast_like,
        "Embedding": _embedding,
        "take": _take,
        "one_hot": _one_hot,
        "depth_to_space": _blocks("DepthToSpace"),
        "space_to_depth": _blocks("SpaceToDepth"),
    }
)
