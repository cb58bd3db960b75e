"""Sequences and optionals of ONNX, and the tensor lists that tf2onnx leaves, by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from engine.frontends.onnx.control.expander import (
    Expander,
    Maybe,
    Scope,
    TensorList,
    TensorSequence,
    Value,
    handles,
)
from engine.graph.ir.rewriting import attribute

__all__: list[str] = []


def _sequence(ex: Expander, node: onnx.NodeProto, scope: Scope) -> TensorSequence:
    value = ex.value(scope, node.input[0])
    if not isinstance(value, TensorSequence):
        raise ex.refusal(node, "its input is not a sequence that the graph itself makes")
    return value


def _position(ex: Expander, node: onnx.NodeProto, index: int, length: int) -> int:
    if not -length <= index < length:
        raise ex.refusal(node, f"it asks for element {index} of a sequence of {length}")
    return index % length


# -- sequences -----------------------------------------------------------------------------------


@handles("SequenceEmpty")
def _sequence_empty(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    return [TensorSequence(())]


@handles("SequenceConstruct")
def _sequence_construct(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    return [TensorSequence(tuple(ex.tensor(node, n, scope) for n in range(len(node.input))))]


@handles("SequenceInsert")
def _sequence_insert(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    items = list(_sequence(ex, node, scope).items)
    place = ex.number(node, 2, scope, "position")
    if place is None:
        place = len(items)
    elif not -len(items) <= place <= len(items):
        raise ex.refusal(node, f"it inserts at {place} into a sequence of {len(items)}")
    items.insert(place, ex.tensor(node, 1, scope))
    return [TensorSequence(tuple(items))]


@handles("SequenceErase")
def _sequence_erase(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    items = list(_sequence(ex, node, scope).items)
    place = ex.number(node, 1, scope, "position")
    del items[_position(ex, node, -1 if place is None else place, len(items))]
    return [TensorSequence(tuple(items))]


@handles("SequenceAt")
def _sequence_at(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    items = _sequence(ex, node, scope).items
    place = ex.number(node, 1, scope, "position")
    return [items[_position(ex, node, place or 0, len(items))]]


@handles("SequenceLength")
def _sequence_length(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    length = np.array(len(_sequence(ex, node, scope).items), np.int64)
    return [ex.emission.constant(length, "length")]


@handles("ConcatFromSequence")
def _concat_from_sequence(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    value = ex.value(scope, node.input[0])
    if isinstance(value, TensorList):
        value = TensorSequence((ex.stacked(value),))
    items = value.items if isinstance(value, TensorSequence) else ()
    if not items:
        raise ex.refusal(node, "its sequence is empty, or an input of the model")
    new_axis = bool(attribute(node, "new_axis", 0))
    return [ex.concatenated(items, attribute(node, "axis", 0), new_axis=new_axis)]


@handles("SplitToSequence")
def _split_to_sequence(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    """Pieces of given lengths, or single elements (which may lose the axis)."""
    data, given = ex.tensor(node, 0, scope), ex.tensor(node, 1, scope)
    axis = attribute(node, "axis", 0)
    shape = ex.emission.shape(data)
    if shape is None or not -len(shape) <= axis < len(shape):
        raise ex.refusal(node, "the size of what it splits is not known")
    length = shape[axis]
    if not given and not attribute(node, "keepdims", 1):
        _count(ex, length)
        places = [ex.emission.constant(np.array(n, np.int64), "place") for n in range(length)]
        pieces = [
            ex.emission.op("Gather", [data, place], f"{data}_at_{n}", axis=axis)
            for n, place in enumerate(places)
        ]
        return [TensorSequence(tuple(pieces))]
    return [TensorSequence(_split(ex, data, axis, _lengths(ex, node, given, length)))]


def _lengths(ex: Expander, node: onnx.NodeProto, given: str, length: int) -> list[int]:
    if not given:
        _count(ex, length)
        return [1] * length
    array = ex.emission.known(given)
    if array is None:
        raise ex.refusal(node, "the sizes of its pieces depend on data")
    if array.ndim == 0:
        size = int(array)
        if size < 1:
            raise ex.refusal(node, f"its pieces have the size {size}")
        _count(ex, length // size)
        return [min(size, length - start) for start in range(0, length, size)]
    sizes = [int(size) for size in array.ravel()]
    if sum(sizes) != length or any(size < 0 for size in sizes):
        raise ex.refusal(node, f"its pieces {sizes} do not make up {length}")
    return sizes


def _count(ex: Expander, pieces: int) -> None:
    """Count pieces against the bound before there is a list of them."""
    for _ in range(pieces):
        ex.step()


def _split(ex: Expander, data: str, axis: int, sizes: Sequence[int]) -> tuple[str, ...]:
    if len(sizes) == 1:
        return (data,)
    names = [ex.emission.claim(f"{data}_part_{n}") for n in range(len(sizes))]
    if ex.emission.opset >= 13:
        lengths = ex.emission.constant(np.array(sizes, np.int64), "lengths")
        node = onnx.helper.make_node("Split", [data, lengths], names, f"{data}_split", axis=axis)
    else:
        node = onnx.helper.make_node(
            "Split", [data], names, f"{data}_split", axis=axis, split=list(sizes)
        )
    return tuple(ex.emission.add(node, inner=True))


# -- optionals -----------------------------------------------------------------------------------


@handles("Optional")
def _optional(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    if not node.input or not node.input[0]:
        return [Maybe(None)]
    value = ex.value(scope, node.input[0])
    if isinstance(value, Maybe | TensorList):
        raise ex.refusal(node, "it holds neither a tensor nor a sequence")
    return [Maybe(value)]


@handles("OptionalHasElement")
def _optional_has_element(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    value = ex.value(scope, node.input[0]) if node.input and node.input[0] else Maybe(None)
    has = not isinstance(value, Maybe) or value.item is not None
    return [ex.emission.constant(np.array(has), "has_element")]


@handles("OptionalGetElement")
def _optional_get_element(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    value = ex.value(scope, node.input[0])
    if not isinstance(value, Maybe):
        return [value]
    if value.item is None:
        raise ex.refusal(node, "its optional is empty")
    return [value.item]


# -- tensor lists of TensorFlow ------------------------------------------------------------------
# tensorflow/core/ops/list_ops.cc: a list reads as zeros where nothing was set; tf2onnx leaves these
# operators without a domain and lets a list stand for its elements stacked along a first axis.


def _list(ex: Expander, node: onnx.NodeProto, scope: Scope) -> TensorList:
    value = ex.value(scope, node.input[0])
    if not isinstance(value, TensorList):
        raise ex.refusal(node, "its input is not a list that the graph itself makes")
    return value


@handles("TensorListReserve")
def _list_reserve(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    length = ex.number(node, 1, scope, "length")
    given = ex.emission.known(ex.tensor(node, 0, scope))
    shape = None if given is None else tuple(int(dim) for dim in given.ravel())
    if length is None or length < 0:
        raise ex.refusal(node, "its length is not given")
    _count(ex, length)
    element = attribute(node, "element_dtype", onnx.TensorProto.FLOAT)
    return [TensorList((None,) * length, shape, element)]


@handles("TensorListSetItem")
def _list_set(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    value = _list(ex, node, scope)
    place = ex.number(node, 1, scope, "position")
    items = list(value.items)
    items[_position(ex, node, place or 0, len(items))] = ex.tensor(node, 2, scope)
    return [TensorList(tuple(items), value.shape, value.element)]


@handles("TensorListGetItem")
def _list_get(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    value = _list(ex, node, scope)
    place = ex.number(node, 1, scope, "position")
    item = value.items[_position(ex, node, place or 0, len(value.items))]
    if item is None:
        raise ex.refusal(node, "it reads an element that was never set")
    return [item]


@handles("TensorListLength")
def _list_length(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    length = np.array(len(_list(ex, node, scope).items), np.int32)
    return [ex.emission.constant(length, "length")]


@handles("TensorListStack")
def _list_stack(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    return [ex.tensor(node, 0, scope)]
