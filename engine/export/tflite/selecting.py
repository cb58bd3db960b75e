"""Layers that choose elements, by their places or by conditions, and conversions of types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.export.tflite.elementwise import input_tensor, moved_input, same_form
from engine.export.tflite.emitter import PLAIN, Constant, Emitter, Operand, refused
from engine.export.tflite.layer import Layer, evaluated
from engine.export.tflite.writer import type_number

PICKED = ("GatherElements", "ScatterElements", "ScatterND", "ReverseSequence")
"""Operators that only move values, where their indices are constants."""


def gather(layer: Layer, emitter: Emitter) -> None:
    """Gather, from a table or a tensor, with constant or computed indices."""
    data, index = layer.inputs[:2]
    held = data if isinstance(data, Operand) else layer.required(0, "an input is left out").array
    shape = held.shape
    axis = int(layer.attribute("axis", 0)) % len(shape)
    source = moved_input(data, layer, emitter, PLAIN)
    if isinstance(index, Constant):
        array = index.array
        places = np.where(array < 0, array + shape[axis], array).astype(np.int32)
        where = emitter.constant("index", places)
    elif index is None:
        raise refused(layer.node, "it has no indices")
    else:
        where = _counted(emitter, emitter.read(index, PLAIN), [shape[axis]])
    emitter.carry(layer.target, PLAIN, "GATHER", [source, where], axis=axis)


def gather_nd(layer: Layer, emitter: Emitter) -> None:
    """GatherND; with constant indices also in batches."""
    data, index = layer.inputs[:2]
    if isinstance(index, Constant):
        picked(layer, emitter)
        return
    if index is None or not isinstance(data, Operand):
        raise refused(layer.node, "it takes from a constant")
    if layer.attribute("batch_dims", 0):
        raise refused(layer.node, "its indices are computed, in batches")
    source = moved_input(data, layer, emitter, PLAIN)
    sizes = data.shape[: index.shape[-1]]
    where = _counted(emitter, emitter.read(index, PLAIN), sizes)
    emitter.carry(layer.target, PLAIN, "GATHER_ND", [source, where])


def _counted(emitter: Emitter, index: int, sizes: Sequence[int]) -> int:
    """Indices from the end as indices from the front, which TFLite takes only."""
    kind = emitter.kind(index)
    whole = emitter.constant("sizes", np.array(sizes, kind))
    label = f"{emitter.name(index)}/counted"
    return emitter.compute("FLOOR_MOD", [index, whole], label, kind=kind)


def picked(layer: Layer, emitter: Emitter) -> None:
    """A layer of :data:`PICKED`: which element goes where is known, so it is one GATHER.

    onnx's reference moves the numbers of the elements in place of them.
    """
    kind = layer.node.op_type
    if layer.attribute("reduction", "none") != "none":
        raise refused(layer.node, "it adds to what is there")
    moved = (0, 2) if kind.startswith("Scatter") else (0,)
    positions: list[np.ndarray] = []
    sources, count = [], 0
    for at, value in enumerate(layer.node.inputs):
        if value is None:
            continue
        if at in moved:
            source = moved_input(layer.inputs[at], layer, emitter, PLAIN)
            shape = emitter.shape(source)
            size = int(np.prod(shape))
            positions.append(np.arange(count, count + size).reshape(shape))
            count += size
            sources.append(emitter.reshape(source, (size,), f"{layer.node.name}/row"))
        else:
            positions.append(layer.required(at, "its indices are left out").array)
    quant = layer.target.quant if layer.quantized else None
    whole = sources[0]
    if len(sources) > 1:
        sources = [emitter.in_params(tensor, quant) for tensor in sources]
        label = f"{layer.node.name}/both"
        whole = emitter.move("CONCATENATION", sources, (count,), label, axis=0)
    where = emitter.ints("index", evaluated(layer.node, positions)[0])
    emitter.carry(layer.target, PLAIN, "GATHER", [whole, where], axis=0)


def arg_extreme(layer: Layer, emitter: Emitter) -> None:
    """ArgMax and ArgMin; their output is int64."""
    rank = len(layer.data.shape)
    if layer.attribute("select_last_index", 0):
        raise refused(layer.node, "TFLite gives the first of equal ones")
    source = emitter.read(layer.data, PLAIN)
    axis = int(layer.attribute("axis", 0)) % rank
    shape = [size for at, size in enumerate(layer.data.shape) if at != axis]
    name = layer.target.value.name or "index"
    kind = "ARG_MAX" if layer.node.op_type == "ArgMax" else "ARG_MIN"
    inputs = [source, emitter.constant("axis", np.array(axis, np.int32))]
    result = emitter.compute(kind, inputs, name, shape, "int64", output_type=type_number("int64"))
    if layer.attribute("keepdims", 1):
        result = emitter.reshape(result, layer.target.shape, f"{name}/kept")
    emitter.settle(layer.target, PLAIN, result)


def top(layer: Layer, emitter: Emitter) -> None:
    """TopK: the largest along the last axis, in order."""
    rank = len(layer.data.shape)
    count = layer.ints(1)
    if int(layer.attribute("axis", -1)) % rank != rank - 1 or not count:
        raise refused(layer.node, "TFLite has it along the last axis")
    if not layer.attribute("largest", 1):
        raise refused(layer.node, "TFLite gives the largest")
    source = emitter.read(layer.data, PLAIN)
    shape = (*layer.data.shape[:-1], count[0])
    quant = emitter.quant(source)
    name = layer.node.name or "top"
    values = emitter.like(source, f"{name}/values", shape)
    places = emitter.tensor(f"{name}/places", shape, "int32")
    number = emitter.constant("k", np.array(count[0], np.int32))
    emitter.emit("TOPK_V2", [source, number], [values, places])
    for target in layer.outputs:
        if target.value is layer.node.outputs[1]:
            emitter.settle(target, PLAIN, emitter.cast(places, "int64"))
        elif quant is not None and target.quant is None:
            emitter.settle(target, PLAIN, emitter.dequantized(values))
        else:
            emitter.settle(target, PLAIN, values)


def cumulative_sum(layer: Layer, emitter: Emitter) -> None:
    """CumSum, in float32 or integers."""
    axis = layer.required(1, "its axis is left out").ints()
    source = emitter.as_float(layer.data, PLAIN)
    result = emitter.compute(
        "CUMSUM",
        [source, emitter.constant("axis", np.array(axis[0], np.int32))],
        f"{layer.target.value.name}/sum",
        kind=emitter.kind(source),
        exclusive=bool(layer.attribute("exclusive", 0)),
        reverse=bool(layer.attribute("reverse", 0)),
    )
    emitter.finish(layer.target, PLAIN, result)


def one_hot(layer: Layer, emitter: Emitter) -> None:
    """OneHot of computed indices."""
    depth, values = (layer.required(at, "its depth or values are left out") for at in (1, 2))
    rank = len(layer.target.shape)
    kind = layer.target.computed_kind
    off, on = values.as_kind(kind).reshape(-1)
    index = emitter.cast(emitter.read(layer.data, PLAIN), "int64")
    index = _counted(emitter, index, depth.ints())
    numbers = [np.array(depth.ints()[0], np.int32), np.array(on), np.array(off)]
    axis = int(layer.attribute("axis", -1)) % rank
    result = emitter.compute(
        "ONE_HOT",
        [index, *(emitter.constant("number", number) for number in numbers)],
        f"{layer.target.value.name}/hot",
        layer.target.shape,
        kind,
        axis=-1 if axis == rank - 1 else axis,
    )
    emitter.finish(layer.target, PLAIN, result)


# ------------------------------------------------------------------------ conditions, types

COMPARED = {
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
}
"""Operator -> its name in TFLite."""

LOGICAL = {"And": "LOGICAL_AND", "Or": "LOGICAL_OR", "Xor": "NOT_EQUAL", "Not": "LOGICAL_NOT"}
"""Operator -> its name in TFLite."""


def compare(layer: Layer, emitter: Emitter) -> None:
    """Equal, Greater and so on; what is quantized is compared as the real values that it is."""
    computed = [operand for operand in layer.inputs if isinstance(operand, Operand)]
    kind = "float32" if any(operand.quant is not None for operand in computed) else computed[0].kind
    if kind == "bool" and layer.node.op_type != "Equal":
        raise refused(layer.node, "TFLite orders numbers only")
    _broadcast(layer, emitter, COMPARED[layer.node.op_type], kind)


def logical(layer: Layer, emitter: Emitter) -> None:
    """And, Or, Xor, Not."""
    _broadcast(layer, emitter, LOGICAL[layer.node.op_type], "bool")


def is_nan(layer: Layer, emitter: Emitter) -> None:
    """IsNaN: what is not equal to itself."""
    form = emitter.form_of([layer.data])
    source = emitter.as_float(layer.data, form)
    emitter.write(layer.target, form, "NOT_EQUAL", [source, source])


def where(layer: Layer, emitter: Emitter) -> None:
    """Where as SELECT_V2; on 8 bits both sides are brought to the parameters of the output."""
    form = same_form(layer, emitter)
    condition, *sides = layer.inputs
    chosen = input_tensor(condition, layer, emitter, form, integers=False, kind="bool")
    out = layer.target.quant if layer.quantized else None
    sources = [emitter.in_params(moved_input(side, layer, emitter, form), out) for side in sides]
    emitter.write(layer.target, form, "SELECT_V2", [chosen, *sources])


def cast(layer: Layer, emitter: Emitter) -> None:
    """Cast; between floats nothing is done."""
    form = emitter.form_of([layer.data])
    source = emitter.as_float(layer.data, form)
    emitter.finish(layer.target, form, emitter.cast(source, layer.target.computed_kind))


def _broadcast(layer: Layer, emitter: Emitter, name: str, kind: str) -> None:
    form = same_form(layer, emitter)
    sources = [
        input_tensor(operand, layer, emitter, form, integers=False, kind=kind)
        for operand in layer.inputs
    ]
    emitter.write(layer.target, form, name, sources)
