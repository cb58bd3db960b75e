"""Sequences and optionals of ONNX, and the tensor lists that tf2onnx leaves, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

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

_Kind = TypeVar("_Kind", TensorSequence, TensorList)
_WORDS: dict[type, str] = {TensorSequence: "sequence", TensorList: "list"}


def _held(ex: Expander, node: onnx.NodeProto, scope: Scope, kind: type[_Kind]) -> _Kind:
    """The sequence or list that the first input stands for."""
    value = ex.value(scope, node.input[0])
    if not isinstance(value, kind):
        word = _WORDS[kind]
        raise ex.refusal(node, f"its input is not a {word} that the graph itself makes")
    return value


def _place(
    ex: Expander, node: onnx.NodeProto, scope: Scope, index: int, length: int, default: int = 0
) -> int:
    """The element that an input names, counted from the front."""
    place = ex.number(node, index, scope, "position")
    place = default if place is None else place
    if not -length <= place < length:
        raise ex.refusal(node, f"it asks for element {place} of a sequence of {length}")
    return place % length


# -- sequences -----------------------------------------------------------------------------------


@handles("SequenceEmpty")
@handles("SequenceConstruct")
def _sequence_construct(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    return [TensorSequence(tuple(ex.tensor(node, n, scope) for n in range(len(node.input))))]


@handles("SequenceInsert")
def _sequence_insert(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    items = list(_held(ex, node, scope, TensorSequence).items)
    place = ex.number(node, 2, scope, "position")
    if place is None:
        place = len(items)
    elif not -len(items) <= place <= len(items):
        raise ex.refusal(node, f"it inserts at {place} into a sequence of {len(items)}")
    items.insert(place, ex.tensor(node, 1, scope))
    return [TensorSequence(tuple(items))]


@handles("SequenceErase")
def _sequence_erase(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    items = list(_held(ex, node, scope, TensorSequence).items)
    del items[_place(ex, node, scope, 1, len(items), -1)]
    return [TensorSequence(tuple(items))]


@handles("SequenceAt")
def _sequence_at(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    items = _held(ex, node, scope, TensorSequence).items
    return [items[_place(ex, node, scope, 1, len(items))]]


@handles("SequenceLength")
def _sequence_length(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    length = np.array(len(_held(ex, node, scope, TensorSequence).items), np.int64)
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
    data, lengths = ex.tensor(node, 0, scope), ex.tensor(node, 1, scope)
    axis = attribute(node, "axis", 0)
    shape = ex.emission.shape(data)
    if shape is None or not -len(shape) <= axis < len(shape):
        raise ex.refusal(node, "the size of what it splits is not known")
    length = shape[axis]
    if not lengths and not attribute(node, "keepdims", 1):
        _count(ex, length)
        return [TensorSequence(tuple(ex.element(data, axis, n) for n in range(length)))]
    return [TensorSequence(_split(ex, data, axis, _lengths(ex, node, lengths, length)))]


def _lengths(ex: Expander, node: onnx.NodeProto, lengths: str, length: int) -> list[int]:
    if not lengths:
        _count(ex, length)
        return [1] * length
    array = ex.emission.known(lengths)
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
    inputs, attributes = ex.numbers("split", sizes)
    node = onnx.helper.make_node(
        "Split", [data, *inputs], names, f"{data}_split", axis=axis, **attributes
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


@handles("TensorListReserve")
def _list_reserve(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    length = ex.number(node, 1, scope, "length")
    dims = ex.emission.known(ex.tensor(node, 0, scope))
    shape = None if dims is None else tuple(int(dim) for dim in dims.ravel())
    if length is None or length < 0:
        raise ex.refusal(node, "its length is not given")
    _count(ex, length)
    element = attribute(node, "element_dtype", onnx.TensorProto.FLOAT)
    return [TensorList((None,) * length, shape, element)]


@handles("TensorListSetItem")
def _list_set(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    value = _held(ex, node, scope, TensorList)
    items = list(value.items)
    items[_place(ex, node, scope, 1, len(items))] = ex.tensor(node, 2, scope)
    return [replace(value, items=tuple(items))]


@handles("TensorListGetItem")
def _list_get(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    items = _held(ex, node, scope, TensorList).items
    item = items[_place(ex, node, scope, 1, len(items))]
    if item is None:
        raise ex.refusal(node, "it reads an element that was never set")
    return [item]


@handles("TensorListLength")
def _list_length(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    length = np.array(len(_held(ex, node, scope, TensorList).items), np.int32)
    return [ex.emission.constant(length, "length")]


@handles("TensorListStack")
def _list_stack(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    return [ex.tensor(node, 0, scope)]
