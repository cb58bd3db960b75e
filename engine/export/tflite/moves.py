"""Layers that move values, reductions, resizing: none changes the parameters of what it moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.export.tflite.elementwise import moved_input
from engine.export.tflite.emitter import (
    LAST,
    PLAIN,
    Emitter,
    Form,
    Operand,
    Target,
    channels_last,
    in_form,
    refused,
)
from engine.export.tflite.layer import Layer, shape_of

REDUCTIONS = {
    "ReduceMean": "MEAN",
    "ReduceSum": "SUM",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
}


def _axis(axis: int, rank: int, form: Form) -> int:
    """Where an axis of ONNX's order is in a form."""
    axis %= rank
    return channels_last(rank).index(axis) if form is LAST else axis


def identity(layer: Layer, emitter: Emitter) -> None:
    """Identity, Dropout, and casts between floats."""
    form = emitter.form_of([layer.data])
    emitter.settle(layer.target, form, layer.read(emitter, form))


def reshape(layer: Layer, emitter: Emitter) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: the same values in ONNX's order.

    A picture of one point has them in that order in both forms, and needs no transposition.
    """
    before, after = layer.data.shape, layer.target.shape
    form = LAST if _is_point(before) and emitter.has(layer.data.value, LAST) else PLAIN
    source = layer.read(emitter, form)
    inputs = [source, emitter.ints("shape", after)]
    emitter.carry(layer.target, PLAIN, "RESHAPE", inputs)


def _is_point(shape: Sequence[int]) -> bool:
    return len(shape) > 2 and all(size == 1 for size in shape[2:])


def transpose(layer: Layer, emitter: Emitter) -> None:
    """Transpose; one between the two forms is the tensor as it is there already."""
    rank = len(layer.data.shape)
    perm = [int(axis) for axis in layer.attribute("perm", tuple(reversed(range(rank))))]
    forms = (PLAIN, LAST) if rank > 2 else (PLAIN,)
    there = [form for form in forms if emitter.has(layer.data.value, form)] or [PLAIN]
    for before in there:
        for after in forms:
            if _between(perm, before, after) == list(range(rank)):
                emitter.settle(layer.target, after, layer.read(emitter, before))
                return
    before = there[-1]
    source = layer.read(emitter, before)
    inputs = [source, emitter.ints("perm", _between(perm, before, PLAIN))]
    emitter.carry(layer.target, PLAIN, "TRANSPOSE", inputs)


def _between(perm: Sequence[int], before: Form, after: Form) -> list[int]:
    """A permutation of ONNX's order as one from a tensor in one form to a tensor in another."""
    rank = len(perm)
    plain = tuple(range(rank))
    sources = channels_last(rank) if before is LAST else plain
    places = channels_last(rank) if after is LAST else plain
    return [sources.index(perm[axis]) for axis in places]


def concat(layer: Layer, emitter: Emitter) -> None:
    """Concat; inputs in other parameters than the output's are converted before it."""
    operands = [operand for operand in layer.inputs if isinstance(operand, Operand)]
    rank = len(layer.target.shape)
    form = emitter.form_of(operands)
    sources = [
        emitter.in_params(moved_input(operand, layer, emitter, form), layer.target.quant)
        for operand in layer.inputs
    ]
    axis = _axis(int(layer.attribute("axis", 0)), rank, form)
    emitter.write(layer.target, form, "CONCATENATION", sources, axis=axis)


def split(layer: Layer, emitter: Emitter) -> None:
    """Split into equal parts or others; a part that nothing reads is written too."""
    rank = len(layer.data.shape)
    form = emitter.form_of([layer.data])
    axis = _axis(int(layer.attribute("axis", 0)), rank, form)
    source = layer.read(emitter, form)
    quant = emitter.quant(source)
    read = list(layer.outputs)
    for at, value in enumerate(layer.node.outputs):
        if not value.uses() and not value.is_graph_output():
            read.insert(at, Target(value, quant, shape_of(value, layer.node)))
    outputs = [emitter.output(target, form, quant) for target in read]
    sizes = [emitter.shape(output)[axis] for output in outputs]
    where = emitter.constant("axis", np.array(axis, np.int32))
    if len(set(sizes)) == 1:
        emitter.emit("SPLIT", [where, source], outputs, count=len(outputs))
    else:
        inputs = [source, emitter.ints("sizes", sizes), where]
        emitter.emit("SPLIT_V", inputs, outputs, count=len(outputs))
    for target, output in zip(read, outputs, strict=True):
        emitter.settle(target, form, output)


def slices(layer: Layer, emitter: Emitter) -> None:
    """Slice with constant bounds."""
    shape = layer.data.shape
    rank = len(shape)
    starts, ends = (layer.required(at, "its bounds are left out").ints() for at in (1, 2))
    axes = layer.ints(3) or list(range(len(starts)))
    steps = layer.ints(4) or [1] * len(starts)
    form = emitter.form_of([layer.data])
    begin, end, step = [0] * rank, list(shape), [1] * rank
    open_ends = 0
    for axis, low, high, by in zip(axes, starts, ends, steps, strict=True):
        place = axis % rank
        first, stop, step[place] = slice(low, high, by).indices(shape[place])
        begin[place], end[place] = first, stop
        if stop < 0:  # backwards to the first one
            open_ends |= 1 << _axis(place, rank, form)
            end[place] = 0
    if form is LAST:
        begin, end, step = (
            [cut[axis] for axis in channels_last(rank)] for cut in (begin, end, step)
        )
    cuts = [emitter.ints("cut", cut) for cut in (begin, end, step)]
    inputs = [layer.read(emitter, form), *cuts]
    emitter.carry(layer.target, form, "STRIDED_SLICE", inputs, end_mask=open_ends)


def pad(layer: Layer, emitter: Emitter) -> None:
    """Pad with a constant, or by reflection."""
    rank = len(layer.data.shape)
    pads = layer.required(1, "its pads are left out").ints()
    axes = [axis % rank for axis in layer.ints(3) or range(rank)]
    amounts = [[0, 0] for _ in range(rank)]
    for at, axis in enumerate(axes):
        amounts[axis] = [pads[at], pads[at + len(axes)]]
    if any(amount < 0 for pair in amounts for amount in pair):
        raise refused(layer.node, "it cuts off")
    form = emitter.form_of([layer.data])
    if form is LAST:
        amounts = [amounts[axis] for axis in channels_last(rank)]
    source = layer.read(emitter, form)
    quant = emitter.quant(source)
    where = emitter.ints("pads", amounts)
    mode = layer.attribute("mode", "constant")
    if mode == "constant":
        value = layer.constant(2)
        value = None if value is None else value.of_stored(quant)
        real = np.zeros(1, np.float32)
        if value is not None and value.array.size:
            real = value.real().reshape(-1)[:1]
        other = emitter.constant("pad", real if quant is None else quant.stored(real), quant)
        emitter.carry(layer.target, form, "PADV2", [source, where, other])
    elif mode == "reflect":
        emitter.carry(layer.target, form, "MIRROR_PAD", [source, where], mode=0)
    else:
        raise refused(layer.node, f"TFLite has no padding {mode}")


def tile(layer: Layer, emitter: Emitter) -> None:
    """Tile and Expand."""
    before, after = layer.data.shape, layer.target.shape
    whole = (1,) * (len(after) - len(before)) + before
    counts = [a // b for a, b in zip(after, whole, strict=True)]
    source = emitter.reshape(layer.read(emitter, PLAIN), whole, f"{layer.node.name}/whole")
    inputs = [source, emitter.ints("counts", counts)]
    emitter.carry(layer.target, PLAIN, "TILE", inputs)


def depth_to_space(layer: Layer, emitter: Emitter) -> None:
    """DepthToSpace (both orders) and SpaceToDepth."""
    size = int(layer.attribute("blocksize"))
    kind = "DEPTH_TO_SPACE" if layer.node.op_type == "DepthToSpace" else "SPACE_TO_DEPTH"
    source = layer.read(emitter, LAST)
    if kind == "DEPTH_TO_SPACE" and layer.attribute("mode", "DCR") == "CRD":
        # TFLite's order of channels is the other one: gather them into it first
        order = np.arange(layer.data.shape[1]).reshape(-1, size * size).T.reshape(-1)
        source = _gathered(emitter, source, order, 3, f"{layer.node.name}/ordered", "order")
    emitter.carry(layer.target, LAST, kind, [source], block_size=size)


def _gathered(
    emitter: Emitter, source: int, places: npt.ArrayLike, axis: int, label: str, name: str
) -> int:
    """Elements along an axis by their places, which become a constant called ``name``."""
    shape = list(emitter.shape(source))
    shape[axis] = len(np.asarray(places))
    inputs = [source, emitter.ints(name, places)]
    return emitter.move("GATHER", inputs, shape, label, axis=axis)


def reduce(layer: Layer, emitter: Emitter) -> None:
    """Means, sums and extremes over axes."""
    rank = len(layer.data.shape)
    axes = layer.axes
    keep = bool(layer.attribute("keepdims", 1))
    form = emitter.form_of([layer.data])
    rest = [axis for axis in range(rank) if axis not in {a % rank for a in axes}]
    if form is LAST and not keep and rest not in ([], [0], [1], [0, 1]):
        form = PLAIN
    source = layer.read(emitter, form)
    kind = REDUCTIONS[layer.node.op_type]
    if kind == "REDUCE_PROD" and layer.quantized:
        source = emitter.dequantized(source)
    quant = emitter.quant(source) if kind.startswith("REDUCE") else None
    after = form if keep else PLAIN
    where = emitter.ints("axes", [_axis(axis, rank, form) for axis in axes])
    if kind == "REDUCE_PROD" and layer.quantized:
        shape = in_form(layer.target.shape, after)
        label = f"{layer.target.value.name}/product"
        result = emitter.compute(kind, [source, where], label, shape, keep_dims=keep)
        emitter.finish(layer.target, after, result)
        return
    emitter.write(layer.target, after, kind, [source, where], quant, keep_dims=keep)


# ------------------------------------------------------------------------------------- resizing


def resize(layer: Layer, emitter: Emitter) -> None:
    """Resize of height and width; nearest of any rule by GATHER where TFLite's own differs."""
    before, after = layer.data.shape, layer.target.shape
    if len(before) != 4 or before[:2] != after[:2]:
        raise refused(layer.node, "TFLite resizes height and width of four dimensions")
    mode = layer.attribute("mode", "nearest")
    place = layer.attribute("coordinate_transformation_mode", "half_pixel")
    pairs = list(zip(before[2:], after[2:], strict=True))
    smoothed = layer.attribute("antialias", 0) and any(a < b for b, a in pairs)
    if mode not in ("linear", "nearest") or place == "tf_crop_and_resize" or smoothed:
        how = f"{mode} with {place}{' and antialias' if smoothed else ''}"
        raise refused(layer.node, f"TFLite has no resizing {how}")
    scales = _scales(layer)[2:]
    places = [_places(*pair, scale, place) for pair, scale in zip(pairs, scales, strict=True)]
    if mode == "linear":
        _linear(layer, emitter, place, places)
        return
    source = layer.read(emitter, LAST)
    rule = layer.attribute("nearest_mode", "round_prefer_floor")
    rows = [_nearest(at, b, rule) for at, (b, _) in zip(places, pairs, strict=True)]
    if rows != [[min(i * b // a, b - 1) for i in range(a)] for b, a in pairs]:
        for axis, index in enumerate(rows, start=1):
            if index != list(range(emitter.shape(source)[axis])):
                label = f"{emitter.name(source)}/rows"
                source = _gathered(emitter, source, index, axis, label, "rows")
        emitter.settle(layer.target, LAST, source)
        return
    inputs = [source, emitter.ints("size", after[2:])]
    emitter.carry(layer.target, LAST, "RESIZE_NEAREST_NEIGHBOR", inputs)


def _linear(layer: Layer, emitter: Emitter, place: str, places: Sequence[np.ndarray]) -> None:
    """RESIZE_BILINEAR in float32: on 8 bits its kernels have factors of few bits, 1 value in 5 was
    a step off, and that became 48 steps behind the next layers of a pose net. TFLite's places are
    of the sizes alone; where they differ, two elements along each axis are mixed.
    """
    result = emitter.as_float(layer.data, LAST)
    batch, *before, channels = emitter.shape(result)
    size = layer.target.shape[2:]
    label = f"{layer.target.value.name}/resized"
    rule = place.replace("pytorch_", "")
    known = rule in ("align_corners", "half_pixel", "asymmetric") and all(
        np.allclose(at, _places(b, a, a / b, rule), rtol=0, atol=1e-4)
        for at, b, a in zip(places, before, size, strict=True)
    )
    if known:
        result = emitter.compute(
            "RESIZE_BILINEAR",
            [result, emitter.ints("size", size)],
            label,
            (batch, *size, channels),
            align_corners=rule == "align_corners",
            half_pixel_centers=rule == "half_pixel",
        )
    for axis, rows in enumerate(() if known else places, start=1):
        last = emitter.shape(result)[axis] - 1
        at = np.clip(rows, 0, last)
        low = np.floor(at).astype(int)
        share = (at - low).reshape(-1, *(1,) * (3 - axis))
        parts = [
            emitter.compute(
                "MUL",
                [
                    _gathered(emitter, result, np.minimum(low + step, last), axis, label, "rows"),
                    emitter.constant("share", factor.astype(np.float32)),
                ],
                label,
            )
            for step, factor in enumerate((1 - share, share))
        ]
        result = emitter.compute("ADD", parts, label)
    emitter.finish(layer.target, LAST, result)


def _scales(layer: Layer) -> list[float]:
    sides = [a / b for a, b in zip(layer.target.shape, layer.data.shape, strict=True)]
    scales = layer.constant(2)
    if scales is not None and scales.array.size:
        for axis, scale in zip(layer.attribute("axes", range(4)), scales.array, strict=True):
            sides[int(axis)] = float(scale)
    return sides


def _places(before: int, after: int, scale: float, place: str) -> np.ndarray:
    """Where each row of the output is among those of the input (ONNX, Resize)."""
    rows = np.arange(after, dtype=np.float64)
    if place == "align_corners":
        return rows * (before - 1) / max(after - 1, 1)
    if place == "asymmetric":
        return rows / scale
    if place == "pytorch_half_pixel" and after == 1:
        return rows * 0
    at = (rows + 0.5) / scale - 0.5
    return at + (before - after / scale) / 2 if place == "half_pixel_symmetric" else at


def _nearest(at: np.ndarray, before: int, rule: str) -> list[int]:
    """Which row each row of the output is."""
    whole = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_ceil": np.floor(at + 0.5),
    }.get(rule, np.ceil(at - 0.5))
    return [int(v) for v in np.clip(whole, 0, before - 1)]
