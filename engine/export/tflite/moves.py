"""Layers that move values, and reductions: none changes the parameters of what it moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.export.tflite.emitter import (
    LAST,
    PLAIN,
    Constant,
    Emitter,
    Form,
    Operand,
    Target,
    channels_last,
    refused,
)
from engine.export.tflite.layer import Layer, shape_of

__all__ = [
    "REDUCTIONS",
    "concat",
    "depth_to_space",
    "identity",
    "pad",
    "reduce",
    "reshape",
    "slices",
    "split",
    "tile",
    "transpose",
]

REDUCTIONS = {
    "ReduceMean": "MEAN",
    "ReduceSum": "SUM",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
}


def _read(layer: Layer, emitter: Emitter, form: Form) -> int:
    if layer.quantized:
        return emitter.read(layer.data, form)
    return emitter.as_float(layer.data, form)


def _axis(axis: int, rank: int, form: Form) -> int:
    """Where an axis of ONNX's order is in a form."""
    axis %= rank
    return channels_last(rank).index(axis) if form is LAST else axis


def identity(layer: Layer, emitter: Emitter) -> None:
    """Identity, Dropout, and casts between floats."""
    form = emitter.form_of([layer.data])
    emitter.settle(layer.target, form, _read(layer, emitter, form))


def reshape(layer: Layer, emitter: Emitter) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: the same values in ONNX's order.

    A picture of one point has them in that order in both forms, and needs no transposition.
    """
    before, after = layer.data.shape, layer.target.shape
    form = LAST if _is_point(before) and emitter.has(layer.data.value, LAST) else PLAIN
    source = _read(layer, emitter, form)
    made = emitter.output(layer.target, PLAIN, emitter.writer.quant(source))
    shape = emitter.ints("shape", after)
    emitter.emit("RESHAPE", [source, shape], [made], "ReshapeOptions")
    emitter.settle(layer.target, PLAIN, made)


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
                emitter.settle(layer.target, after, _read(layer, emitter, before))
                return
    before = there[-1]
    source = _read(layer, emitter, before)
    made = emitter.output(layer.target, PLAIN, emitter.writer.quant(source))
    order = emitter.ints("perm", _between(perm, before, PLAIN))
    emitter.emit("TRANSPOSE", [source, order], [made], "TransposeOptions")
    emitter.settle(layer.target, PLAIN, made)


def _between(perm: Sequence[int], before: Form, after: Form) -> list[int]:
    """A permutation of ONNX's order as one from a tensor in one form to a tensor in another."""
    rank = len(perm)
    plain = tuple(range(rank))
    sources = channels_last(rank) if before is LAST else plain
    places = channels_last(rank) if after is LAST else plain
    return [sources.index(perm[axis]) for axis in places]


def concat(layer: Layer, emitter: Emitter) -> None:
    """Concat; inputs in other parameters than the output's are converted before it."""
    operands = [each for each in layer.inputs if isinstance(each, Operand)]
    rank = len(layer.target.shape)
    form = emitter.form_of(operands)
    sources = []
    for each in layer.inputs:
        if isinstance(each, Operand):
            source = emitter.read(each, form) if layer.quantized else emitter.as_float(each, form)
        elif isinstance(each, Constant):
            kind = "float32" if layer.target.quant is not None else layer.target.kind
            out = layer.target.quant if layer.quantized else None
            held = each.of_stored(out).in_params(out) if out is not None else each
            array = held.as_kind(kind) if out is None else held.array
            if form is LAST:
                array = np.ascontiguousarray(array.transpose(channels_last(rank)))
            source = emitter.constant(f"{layer.node.name}/constant", array, out)
        else:
            raise refused(layer.node, "an input is left out")
        sources.append(emitter.in_params(source, layer.target.quant))
    made = emitter.output(layer.target, form)
    values = {"Axis": _axis(int(layer.attribute("axis", 0)), rank, form)}
    emitter.emit("CONCATENATION", sources, [made], "ConcatenationOptions", values)
    emitter.settle(layer.target, form, made)


def split(layer: Layer, emitter: Emitter) -> None:
    """Split into equal parts or others; a part that nothing reads is written too."""
    rank = len(layer.data.shape)
    form = emitter.form_of([layer.data])
    axis = _axis(int(layer.attribute("axis", 0)), rank, form)
    source = _read(layer, emitter, form)
    quant = emitter.writer.quant(source)
    read = list(layer.outputs)
    for at, value in enumerate(layer.node.outputs):
        if not value.uses() and not value.is_graph_output():
            read.insert(at, Target(value, quant, shape_of(value, layer.node)))
    made = [emitter.output(target, form, quant) for target in read]
    sizes = [emitter.writer.shape(each)[axis] for each in made]
    count = {"NumSplits": len(made)}
    where = emitter.constant("axis", np.array(axis, np.int32))
    if len(set(sizes)) == 1:
        emitter.emit("SPLIT", [where, source], made, "SplitOptions", count)
    else:
        inputs = [source, emitter.ints("sizes", sizes), where]
        emitter.emit("SPLIT_V", inputs, made, "SplitVOptions", count)
    for target, each in zip(read, made, strict=True):
        emitter.settle(target, form, each)


def slices(layer: Layer, emitter: Emitter) -> None:
    """Slice with constant bounds."""
    shape = layer.data.shape
    rank = len(shape)
    starts, ends = layer.ints(1), layer.ints(2)
    if starts is None or ends is None:
        raise refused(layer.node, "its bounds are left out")
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
            [each[axis] for axis in channels_last(rank)] for each in (begin, end, step)
        )
    source = _read(layer, emitter, form)
    made = emitter.output(layer.target, form, emitter.writer.quant(source))
    cuts = [emitter.ints("cut", each) for each in (begin, end, step)]
    values = {"EndMask": open_ends}
    emitter.emit("STRIDED_SLICE", [source, *cuts], [made], "StridedSliceOptions", values)
    emitter.settle(layer.target, form, made)


def pad(layer: Layer, emitter: Emitter) -> None:
    """Pad with a constant, or by reflection."""
    rank = len(layer.data.shape)
    pads = layer.ints(1)
    if pads is None:
        raise refused(layer.node, "its pads are left out")
    axes = [axis % rank for axis in layer.ints(3) or range(rank)]
    amounts = [[0, 0] for _ in range(rank)]
    for at, axis in enumerate(axes):
        amounts[axis] = [pads[at], pads[at + len(axes)]]
    if any(each < 0 for pair in amounts for each in pair):
        raise refused(layer.node, "it cuts off")
    form = emitter.form_of([layer.data])
    if form is LAST:
        amounts = [amounts[axis] for axis in channels_last(rank)]
    source = _read(layer, emitter, form)
    quant = emitter.writer.quant(source)
    made = emitter.output(layer.target, form, quant)
    where = emitter.ints("pads", amounts)
    mode = layer.attribute("mode", "constant")
    if mode == "constant":
        value = layer.constant(2)
        value = None if value is None else value.of_stored(quant)
        real = float(value.real().reshape(-1)[0]) if value is not None and value.array.size else 0.0
        if quant is not None:
            stored = np.clip(np.rint(real / quant.scale[0]) + quant.zero_point[0], -128, 127)
            other = emitter.constant("pad", np.array([stored], np.int8), quant)
        else:
            other = emitter.constant("pad", np.array([real], np.float32))
        emitter.emit("PADV2", [source, where, other], [made], "PadV2Options")
    elif mode == "reflect":
        emitter.emit("MIRROR_PAD", [source, where], [made], "MirrorPadOptions", {"Mode": 0})
    else:
        raise refused(layer.node, f"TFLite has no padding {mode}")
    emitter.settle(layer.target, form, made)


def tile(layer: Layer, emitter: Emitter) -> None:
    """Tile and Expand."""
    before, after = layer.data.shape, layer.target.shape
    whole = (1,) * (len(after) - len(before)) + before
    counts = [a // b for a, b in zip(after, whole, strict=True)]
    source = emitter.reshape(_read(layer, emitter, PLAIN), whole, f"{layer.node.name}/whole")
    made = emitter.output(layer.target, PLAIN, emitter.writer.quant(source))
    emitter.emit("TILE", [source, emitter.ints("counts", counts)], [made], "TileOptions")
    emitter.settle(layer.target, PLAIN, made)


def depth_to_space(layer: Layer, emitter: Emitter) -> None:
    """DepthToSpace (both orders) and SpaceToDepth."""
    size = int(layer.attribute("blocksize"))
    kind = "DEPTH_TO_SPACE" if layer.node.op_type == "DepthToSpace" else "SPACE_TO_DEPTH"
    mode = layer.attribute("mode", "DCR")
    if kind == "DEPTH_TO_SPACE" and mode == "CRD":
        # TFLite's order of channels is the other one: gather them into it first
        channels = layer.data.shape[1]
        order = np.arange(channels).reshape(-1, size * size).T.reshape(-1)
        source = _read(layer, emitter, LAST)
        quant = emitter.writer.quant(source)
        name = f"{layer.node.name}/ordered"
        shape = emitter.writer.shape(source)
        made = emitter.writer.tensor(name, shape, "int8" if quant else "float32", quant)
        inputs = [source, emitter.ints("order", order)]
        emitter.emit("GATHER", inputs, [made], "GatherOptions", {"Axis": 3})
        source = made
    else:
        source = _read(layer, emitter, LAST)
    made = emitter.output(layer.target, LAST, emitter.writer.quant(source))
    options = "DepthToSpaceOptions" if kind == "DEPTH_TO_SPACE" else "SpaceToDepthOptions"
    emitter.emit(kind, [source], [made], options, {"BlockSize": size})
    emitter.settle(layer.target, LAST, made)


def reduce(layer: Layer, emitter: Emitter) -> None:
    """Means, sums and extremes over axes."""
    rank = len(layer.data.shape)
    axes = layer.axes
    keep = bool(layer.attribute("keepdims", 1))
    form = emitter.form_of([layer.data])
    rest = [axis for axis in range(rank) if axis not in {a % rank for a in axes}]
    if form is LAST and not keep and rest not in ([], [0], [1], [0, 1]):
        form = PLAIN
    source = _read(layer, emitter, form)
    kind = REDUCTIONS[layer.node.op_type]
    if kind == "REDUCE_PROD" and layer.quantized:
        source = emitter.dequantized(source)
    quant = emitter.writer.quant(source) if kind.startswith("REDUCE") else None
    after = form if keep else PLAIN
    where = emitter.ints("axes", [_axis(axis, rank, form) for axis in axes])
    if kind == "REDUCE_PROD" and layer.quantized:
        shape = layer.target.shape
        if after is LAST and len(shape) > 2:
            shape = tuple(shape[axis] for axis in channels_last(len(shape)))
        label = f"{layer.target.value.name}/product"
        options, values = "ReducerOptions", {"KeepDims": keep}
        made = emitter.compute(kind, [source, where], shape, label, options=options, values=values)
        emitter.finish(layer.target, after, made)
        return
    made = emitter.output(layer.target, after, quant)
    emitter.emit(kind, [source, where], [made], "ReducerOptions", {"KeepDims": keep})
    emitter.settle(layer.target, after, made)
