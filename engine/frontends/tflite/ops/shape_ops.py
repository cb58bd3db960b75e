"""Operators that move elements: shapes, joining, splitting, padding, slicing, gathering."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.frontends.emit import Input, element_type
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.tensors import FIRST, LAST, checked_constant, to_first

_FAR = -(1 << 31)


def placed(axis: int, rank: int, layout: str) -> int:
    """Where an axis of the file's layout is in ``layout``."""
    return to_first(rank).index(axis) if layout == FIRST else axis


def arranged(items: Sequence[int], layout: str) -> list[int]:
    """One number an axis, in the order of ``layout``."""
    return [items[axis] for axis in to_first(len(items))] if layout == FIRST else list(items)


def new_shape(layer: Layer) -> list[int]:
    """The shape that RESHAPE, SQUEEZE or EXPAND_DIMS gives."""
    x = layer.input(0)
    kind = layer.operator.type
    if kind == "EXPAND_DIMS":
        axis = layer.axis(layer.ints(1, "axis")[0], x.rank + 1)
        return [*x.shape[:axis], 1, *x.shape[axis:]]
    if kind == "SQUEEZE":
        drop = {layer.axis(axis) for axis in layer.list_option("squeeze_dims")} or {
            axis for axis, size in enumerate(x.shape) if size == 1
        }
        if any(x.shape[axis] != 1 for axis in drop):
            raise ValueError(f"it drops axes {sorted(drop)} of {x.shape}")
        return [size for axis, size in enumerate(x.shape) if axis not in drop]
    shape = layer.ints(1, "new shape") if layer.has(1) else layer.list_option("new_shape")
    if shape == [0] and x.count == 1:
        shape = []  # how old converters wrote a scalar
    if shape.count(-1) > 1 or any(size < -1 for size in shape):
        raise ValueError(f"the new shape is {shape}")
    if -1 in shape:
        known = math.prod(size for size in shape if size != -1)
        if not known or x.count % known:
            raise ValueError(f"{x.shape} does not fit {shape}")
        shape = [x.count // known if size == -1 else size for size in shape]
    if math.prod(shape) != x.count:
        raise ValueError(f"{x.shape} does not fit {shape}")
    return shape


def _reshape(layer: Layer) -> None:
    shape = new_shape(layer)
    layer.result("Reshape", [layer.real(0), shape], shape)


def _transpose(layer: Layer) -> None:
    x = layer.input(0)
    perm = [layer.axis(axis) for axis in layer.ints(1, "permutation")]
    if sorted(perm) != list(range(x.rank)):
        raise ValueError(f"permutation {perm} of {x.rank} axes")
    layer.result("Transpose", [layer.real(0)], [x.shape[axis] for axis in perm], perm=perm)


def _concatenation(layer: Layer) -> None:
    values = layer.given
    rank = values[0].rank
    axis = layer.axis(layer.int_option("axis"), rank)
    shape = list(values[0].shape)
    for value in values[1:]:
        same = [a == b for a, b in zip(value.shape, shape, strict=True)]
        if not all(fits for number, fits in enumerate(same) if number != axis):
            raise ValueError(f"{value.shape} does not fit {shape}")
    shape[axis] = sum(value.shape[axis] for value in values)
    computed = [value for value in values if value.array is None]
    first = computed and all(FIRST in value.forms for value in computed)
    layout = FIRST if first else LAST
    layer.result(
        "Concat",
        [layer.tensors.real(value, layout) for value in values],
        shape,
        layout=layout,
        activation=layer.activation,
        axis=placed(axis, rank, layout),
    )


def _pack(layer: Layer) -> None:
    values = layer.given
    shape = list(values[0].shape)
    axis = layer.axis(layer.int_option("axis"), len(shape) + 1)
    if any(list(value.shape) != shape for value in values):
        raise ValueError("its inputs have different shapes")
    parts = [layer.node("Unsqueeze", [layer.tensors.real(value), [axis]]) for value in values]
    layer.result("Concat", parts, [*shape[:axis], len(parts), *shape[axis:]], axis=axis)


def _unpack(layer: Layer) -> None:
    x = layer.input(0)
    axis = layer.axis(layer.int_option("axis"))
    if x.shape[axis] != layer.outputs:
        raise ValueError(f"{x.shape[axis]} parts for {layer.outputs} outputs")
    shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
    real = layer.real(0)
    for index in range(layer.outputs):
        layer.result("Gather", [real, np.array(index)], shape, index=index, axis=axis)


def _split(layer: Layer) -> None:
    number = layer.ints(0, "axis")[0]
    x = layer.input(1)
    axis = layer.axis(number, x.rank)
    size, rest = divmod(x.shape[axis], layer.outputs)
    if rest:
        raise ValueError(f"{x.shape[axis]} elements in {layer.outputs} parts")
    _split_into(layer, 1, axis, [size] * layer.outputs)


def _split_v(layer: Layer) -> None:
    x = layer.input(0)
    axis = layer.axis(layer.ints(2, "axis")[0])
    sizes = layer.ints(1, "sizes")
    if sizes.count(-1) == 1:
        rest = x.shape[axis] - sum(size for size in sizes if size != -1)
        sizes = [rest if size == -1 else size for size in sizes]
    if sum(sizes) != x.shape[axis] or min(sizes) < 0 or len(sizes) != layer.outputs:
        raise ValueError(f"{x.shape[axis]} elements in parts of {sizes}")
    _split_into(layer, 0, axis, sizes)


def _split_into(layer: Layer, source: int, axis: int, sizes: Sequence[int]) -> None:
    x = layer.input(source)
    layout = layer.layout(source)
    real = layer.real(source, layout)
    where = [placed(axis, x.rank, layout)]
    begin = 0
    for index, size in enumerate(sizes):
        bounds = [begin], [begin + size]
        shape = [*x.shape[:axis], size, *x.shape[axis + 1 :]]
        layer.result("Slice", [real, *bounds, where], shape, layout=layout, index=index)
        begin += size


def _pads(layer: Layer) -> list[list[int]]:
    pads = np.asarray(layer.array(1, "padding")).reshape(-1, 2).tolist()
    if len(pads) != layer.input(0).rank or min(map(min, pads), default=0) < 0:
        raise ValueError(f"paddings {pads} for {layer.input(0).rank} axes")
    return [[int(begin), int(end)] for begin, end in pads]


def _pad(layer: Layer) -> None:
    """PAD and PADV2; quantized tensors are padded with what stands for zero."""
    x = layer.input(0)
    pads = _pads(layer)
    layout = layer.layout(0)
    begins = arranged([pad[0] for pad in pads], layout)
    ends = arranged([pad[1] for pad in pads], layout)
    inputs: list[Input] = [layer.real(0, layout), [*begins, *ends]]
    if layer.has(2):
        value = layer.input(2)
        inputs.append(layer.tensors.real(layer.part(value, [])))
    shape = [size + sum(pad) for size, pad in zip(x.shape, pads, strict=True)]
    layer.result("Pad", inputs, shape, layout=layout)


def _mirror_pad(layer: Layer) -> None:
    """MIRROR_PAD: REFLECT is ONNX's; SYMMETRIC repeats the edge: a gather along each axis."""
    x = layer.input(0)
    pads = _pads(layer)
    shape = [size + sum(pad) for size, pad in zip(x.shape, pads, strict=True)]
    symmetric = layer.int_option("mode") == 1
    for size, pad in zip(x.shape, pads, strict=True):
        if max(pad) > size - (not symmetric):
            raise ValueError(f"{pad} around {size} elements")
    if not symmetric:
        ends = [*(pad[0] for pad in pads), *(pad[1] for pad in pads)]
        layer.result("Pad", [layer.real(0), ends], shape, mode="reflect")
        return
    real = layer.real(0)
    for axis, (size, pad) in enumerate(zip(x.shape, pads, strict=True)):
        if any(pad):
            checked_constant(size + sum(pad))
            places = np.pad(np.arange(size), pad, mode="symmetric")
            real = layer.node("Gather", [real, places], axis=axis)
    layer.result("Identity", [real], shape)


def strided_ranges(layer: Layer) -> tuple[list[range], list[int]]:
    """What STRIDED_SLICE takes of each axis, and the shape that it gives.

    The masks are bits by the position in the list of begins (strided_slice.cc): a new axis takes
    nothing, an ellipsis all axes that are left, a shrunk axis one element, and goes.
    """
    shape = layer.input(0).shape
    begins, ends = layer.ints(1, "begin"), layer.ints(2, "end")
    steps = layer.ints(3, "strides") if layer.has(3) else [1] * len(begins)
    new, ellipsis, shrink = (
        _bits(layer.int_option(f"{name}_mask"), len(begins))
        for name in ("new_axis", "ellipsis", "shrink_axis")
    )
    open_begins = _bits(layer.int_option("begin_mask"), len(begins))
    open_ends = _bits(layer.int_option("end_mask"), len(begins))
    ranges: list[range] = []
    result: list[int] = []
    for i, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if i in ellipsis:
            later = sum(1 for j in range(i + 1, len(begins)) if j not in new)
            whole = [range(size) for size in shape[len(ranges) : len(shape) - later]]
            ranges += whole
            result += [len(taken) for taken in whole]
            continue
        if i in new:
            result.append(1)
            continue
        size = shape[len(ranges)]
        if i in shrink:
            ranges.append(_single(begin, size))
            continue
        last = begin + end if layer.int_option("offset") else end
        taken = slice(None if i in open_begins else begin, None if i in open_ends else last, step)
        ranges.append(range(*taken.indices(size)))
        result.append(len(ranges[-1]))
    rest = [range(size) for size in shape[len(ranges) :]]
    return [*ranges, *rest], [*result, *(len(taken) for taken in rest)]


def _bits(mask: int, count: int) -> frozenset[int]:
    return frozenset(bit for bit in range(count) if mask >> bit & 1)


def _single(place: int, size: int) -> range:
    index = place + size if place < 0 else place
    if not 0 <= index < size:
        raise ValueError(f"element {place} of {size}")
    return range(index, index + 1)


def _strided_slice(layer: Layer) -> None:
    shape = layer.input(0).shape
    ranges, result = strided_ranges(layer)
    real = layer.real(0)
    cut = [axis for axis, taken in enumerate(ranges) if taken != range(shape[axis])]
    if cut:
        kept = [ranges[axis] for axis in cut]
        begins, steps = [taken.start for taken in kept], [taken.step for taken in kept]
        ends = [taken.stop if taken.stop >= 0 else _FAR for taken in kept]
        real = layer.node("Slice", [real, begins, ends, cut, steps])
    layer.result("Reshape", [real, result], result, allowzero=1)


def _slice(layer: Layer) -> None:
    x = layer.input(0)
    begins, sizes = layer.ints(1, "begin"), layer.ints(2, "size")
    sizes = [
        size - begin if count == -1 else count
        for size, begin, count in zip(x.shape, begins, sizes, strict=True)
    ]
    for begin, size, whole in zip(begins, sizes, x.shape, strict=True):
        if begin < 0 or size < 0 or begin + size > whole:
            raise ValueError(f"{size} elements from {begin} of {whole}")
    layout = layer.layout(0)
    ends = [begin + size for begin, size in zip(begins, sizes, strict=True)]
    bounds = [arranged(items, layout) for items in (begins, ends)]
    layer.result("Slice", [layer.real(0, layout), *bounds], sizes, layout=layout)


def _gather(layer: Layer) -> None:
    x, places = layer.input(0), layer.input(1)
    axis = layer.axis(layer.int_option("axis"))
    batch = layer.int_option("batch_dims")
    batch = batch + places.rank if batch < 0 else batch
    shape = [*x.shape[:axis], *places.shape[batch:], *x.shape[axis + 1 :]]
    if not batch:
        layer.result("Gather", [layer.real(0), layer.stored(1)], shape, axis=axis)
        return
    if axis != batch:
        raise layer.refusal(f"it gathers along axis {axis} in batches of {batch} axes")
    column = layer.node("Unsqueeze", [_int64(layer, 1), [-1]])
    layer.result("GatherND", [layer.real(0), column], shape, batch_dims=batch)


def _int64(layer: Layer, index: int) -> str:
    value = layer.input(index)
    stored = layer.stored(index)
    if value.dtype == "int64":
        return stored
    return layer.node("Cast", [stored], to=element_type("int64"))


def _gather_nd(layer: Layer) -> None:
    x, places = layer.input(0), layer.input(1)
    shape = [*places.shape[:-1], *x.shape[places.shape[-1] :]]
    layer.result("GatherND", [layer.real(0), _int64(layer, 1)], shape)


def _tile(layer: Layer) -> None:
    x = layer.input(0)
    times = layer.ints(1, "number of copies")
    shape = [size * count for size, count in zip(x.shape, times, strict=True)]
    layer.result("Tile", [layer.real(0), times], shape)


def _broadcast_to(layer: Layer) -> None:
    shape = layer.ints(1, "shape")
    np.broadcast_shapes(layer.input(0).shape, tuple(shape))
    layer.result("Expand", [layer.real(0), shape], shape)


def _fill(layer: Layer) -> None:
    shape = layer.ints(0, "shape")
    one = layer.tensors.real(layer.part(layer.input(1), []))
    layer.result("Expand", [one, shape], shape)


def _reverse(layer: Layer) -> None:
    x = layer.input(0)
    axes = [layer.axis(axis) for axis in layer.ints(1, "axes")]
    back = [-1] * len(axes)
    layer.result("Slice", [layer.real(0), back, [_FAR] * len(axes), axes, back], x.shape)


def _reverse_sequence(layer: Layer) -> None:
    x = layer.input(0)
    time = layer.axis(layer.int_option("seq_dim"))
    batch = layer.axis(layer.int_option("batch_dim"))
    if {time, batch} != {0, 1}:
        raise layer.refusal(f"it reverses axis {time} by the lengths of axis {batch}")
    inputs = [layer.real(0), _int64(layer, 1)]
    layer.result("ReverseSequence", inputs, x.shape, time_axis=time, batch_axis=batch)


def _dynamic_update_slice(layer: Layer) -> None:
    """DYNAMIC_UPDATE_SLICE: the start is moved back to where the update fits."""
    x, update = layer.input(0), layer.input(1)
    room = [size - part for size, part in zip(x.shape, update.shape, strict=True)]
    if min(room, default=0) < 0:
        raise ValueError(f"an update of {update.shape} in {x.shape}")
    checked_constant(update.count * update.rank)
    grid = np.moveaxis(np.indices(update.shape, dtype=np.int64), 0, -1)
    start = layer.node("Max", [_int64(layer, 2), [0] * x.rank])
    start = layer.node("Min", [start, room])
    places = layer.node("Add", [grid, start])
    layer.result("ScatterND", [layer.real(0), places, layer.real(1)], x.shape)


def _identity(layer: Layer) -> None:
    layer.same(0, layer.input(0))


HANDLERS: dict[str, Handler] = {
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concatenation,
    "DENSIFY": _identity,
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "EXPAND_DIMS": _reshape,
    "FILL": _fill,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "MIRROR_PAD": _mirror_pad,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RESHAPE": _reshape,
    "REVERSE_SEQUENCE": _reverse_sequence,
    "REVERSE_V2": _reverse,
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _strided_slice,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
