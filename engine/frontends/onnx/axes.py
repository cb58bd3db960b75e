"""The sizes of inputs: given ones, constants in place of inputs, dynamic axes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.ends import (
    batch_fixed,
    initial_values,
    input_size,
    refuse_no_input,
    require_entries,
)
from engine.graph.ir.rewriting import refill

Dim = int | str
"""A size, or the name of a dynamic axis; an axis without a name is the empty text."""

Example = Callable[
    [Mapping[str, Sequence[Dim] | None], Mapping[str, np.ndarray]], list[list[int]] | None
]
"""Dimensions of the inputs, and the arrays of those with a value -> sizes that run, if any."""

_NO_NAMES = frozenset({"none", "unk", "unknown"})


def input_dims(value: onnx.ValueInfoProto) -> list[Dim] | None:
    """The dimensions of an input: numbers, or names of dynamic ones; None without a rank.

    A dynamic one that has no name is the empty text. Exporters write marks such as ``?``, ``-1``
    or ``None`` there: they are no names, and two of them are not the same size.
    """
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else _axis_name(dim.dim_param)
        for dim in value.type.tensor_type.shape.dim
    ]


def _axis_name(text: str) -> str:
    letters = any(c.isalpha() for c in text)
    return text if letters and text.strip().lower() not in _NO_NAMES else ""


def fix_inputs(
    graph: onnx.GraphProto,
    sizes: Sequence[Sequence[int] | None] | None,
    initial: Sequence[Any] | None,
    example: Example | None = None,
) -> list[Finding]:
    """Give every input its final shape, in place; inputs with a constant become initializers.

    Args:
        graph: its inputs decide how many sizes and values there are.
        sizes: a shape per input, with the batch (without it where one dimension is missing).
        initial: per input None, an array (or lists), or the path of an npy file.
        example: finds sizes that the error for a dynamic axis offers; without it the error shows
            the form alone.

    Returns:
        Findings about axes that were fixed.

    Raises:
        SourceModelError: the lists do not fit the inputs, or an axis other than the batch is
            dynamic and has no size.
    """
    names = [value.name for value in graph.input]
    values = initial_values(names, initial)
    require_entries(names, sizes, "input_size_list")
    asked = dict(zip(names, sizes or (), strict=False))
    bound: dict[str, int] = {}
    findings: list[Finding] = []
    dims = {value.name: input_dims(value) for value in graph.input}
    for name in names:
        size = values[name].shape if name in values else asked.get(name)
        if size is not None:
            dims[name] = _given(name, dims[name], size, bound, valued=name in values)
    for name in names:
        dims[name] = _bind_batch(name, dims[name], bound, findings)
    _refuse_dynamic(dims, bound, values, example)
    for value in graph.input:
        final = [bound[d] if isinstance(d, str) else d for d in dims[value.name] or []]
        element = value.type.tensor_type.elem_type
        value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, element, final))
        if value.name in values:
            _make_constant(graph, value, values[value.name])
    kept = [value for value in graph.input if value.name not in values]
    if values and not kept:
        raise refuse_no_input()
    refill(graph.input, kept)
    return findings


def _given(
    name: str,
    declared: list[Dim] | None,
    size: Sequence[int],
    bound: dict[str, int],
    *,
    valued: bool,
) -> list[Dim]:
    if not valued:
        rank = None if declared is None else len(declared)
        size = input_size(name, size, rank, _shown(declared), bounded=False)
    elif declared is not None and len(size) != len(declared):
        raise SourceModelError(
            f"The initial value of input {sanitize(name)!r} has the shape {list(size)}; the "
            f"model's input has {_shown(declared)}.",
            remedy="Save an array of that shape: of a scalar numpy.array(16000).",
        )
    if declared is not None:
        for axis, number in zip(declared, size, strict=True):
            if isinstance(axis, str) and axis and bound.setdefault(axis, number) != number:
                raise SourceModelError(
                    f"The dynamic axis {sanitize(axis, 60)!r} would be {bound[axis]} and {number} "
                    "at the same time.",
                    remedy="Give inputs that share an axis the same size there.",
                )
    return list(size)


def _shown(dims: list[Dim] | None) -> str:
    if dims is None:
        return "no shape at all"
    shown = (str(d) if isinstance(d, int) else sanitize(d, 40) or "?" for d in dims)
    return "x".join(shown) if dims else "no dimensions (a scalar)"


def _bind_batch(
    name: str, dims: list[Dim] | None, bound: dict[str, int], findings: list[Finding]
) -> list[Dim] | None:
    if not dims or len(dims) < 2 or isinstance(dims[0], int) or dims[0] in bound:
        return dims
    axis = dims[0]
    if axis:
        bound[axis] = 1
    findings.append(batch_fixed(name, _shown(dims)))
    return [1, *dims[1:]]


def _refuse_dynamic(
    dims: dict[str, list[Dim] | None],
    bound: dict[str, int],
    values: Mapping[str, np.ndarray],
    example: Example | None,
) -> None:
    known = {
        name: None if axes is None else [bound.get(d, d) if isinstance(d, str) else d for d in axes]
        for name, axes in dims.items()
    }
    open_axes = [
        f"{sanitize(name, 80)!r} ({_shown(dims[name])})"
        for name, axes in known.items()
        if axes is None or any(isinstance(d, str) for d in axes)
    ]
    if not open_axes:
        return
    example_sizes = None if example is None else example(known, values)
    if example_sizes is None:
        shown = ", ".join("..." if axes is None else _listed(axes) for axes in known.values())
        remedy = f"Give the sizes, a number for each ?, as input_size_list: [{shown}]."
    else:
        shown = ", ".join(map(_listed, example_sizes))
        remedy = (
            f"Give the sizes, for example input_size_list: [{shown}], which the model runs with."
        )
    raise SourceModelError(
        f"The size of input {', '.join(open_axes[:5])} is dynamic.",
        cause="An NPU needs fixed sizes, and only the batch has an obvious one.",
        remedy=remedy,
    )


def _listed(axes: Sequence[Dim]) -> str:
    return f"[{', '.join(str(d) if isinstance(d, int) else '?' for d in axes)}]"


def _make_constant(graph: onnx.GraphProto, value: onnx.ValueInfoProto, array: np.ndarray) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    converted = array.astype(dtype)
    exact = np.array_equal(converted.astype(np.float64), array.astype(np.float64), equal_nan=True)
    if dtype.kind in "biu" and not exact:
        raise SourceModelError(
            f"The initial value of input {sanitize(value.name)!r} does not fit its type {dtype}.",
            remedy=f"Give whole numbers within the range of {dtype}.",
        )
    graph.initializer.append(onnx.numpy_helper.from_array(converted, value.name))


_Axis = str | tuple[str, int]
"""What shares one size: a name, or one axis (input, index) without a name."""

_LENGTHS = (
    *(224, 256, 320, 512, 640, 128, 64, 96, 76, 100, 160, 192, 384, 400, 416, 480, 576),
    *(768, 1024, 32, 16, 8, 4, 2, 1, 1280, 1600, 4000, 16000),
)
_LARGEST = 1024
"""Of an axis of an image or a sequence of vectors; only plain samples of sound are longer."""
_CHANNELS = (3, 1)
_OTHER, _CHANNEL, _LENGTH = range(3)
"""What a dynamic axis may be; one that stands in several inputs is the last of them."""
_MAX_BYTES = 64_000_000
_SECONDS = 2.0


def running_sizes(
    proto: onnx.ModelProto, dims: Mapping[str, Sequence[Dim] | None], values: Mapping[str, object]
) -> list[list[int]] | None:
    """The size of each input, found by running the model on zeros; None where none was found.

    It takes some two seconds at most, and nothing of a model above 64 MB.

    Args:
        proto: with its weights; stays as it is.
        dims: of each input.
        values: arrays of the inputs that have an initial value.
    """
    if any(axes is None for axes in dims.values()) or proto.ByteSize() > _MAX_BYTES:
        return None
    from engine.graph.execute.runtime import RUNTIME_ERRORS, ort, refuse_shortage

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    begun = time.monotonic()
    try:
        session = ort.InferenceSession(proto.SerializeToString(), options)
    except RUNTIME_ERRORS as error:
        refuse_shortage(error)
        return None
    kinds = {value.name: value.type.tensor_type.elem_type for value in proto.graph.input}
    known = {name: axes for name, axes in dims.items() if axes is not None}
    for sizes in _choices(known):
        feeds = {}
        for name, size in zip(known, sizes, strict=True):
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kinds[name])
            array = np.asarray(values[name]) if name in values else np.zeros(size)
            feeds[name] = array.astype(dtype)
        try:
            session.run(None, feeds)
        except RUNTIME_ERRORS as error:
            refuse_shortage(error)
        else:
            return [list(size) for size in sizes]
        if time.monotonic() - begun > _SECONDS:
            break
    return None


def _choices(dims: Mapping[str, Sequence[Dim]]) -> Iterator[list[tuple[int, ...]]]:
    """Sizes of all inputs, the likeliest first.

    Axes before the last of an input that is no image are mostly a batch: they are 1 first, and
    then as long as the others.
    """
    roles: dict[_Axis, int] = {}
    largest = max(_LENGTHS)
    for name, axes in dims.items():
        open_sizes = any(isinstance(axis, str) for axis in axes)
        if open_sizes and len(axes) > 2:
            largest = _LARGEST
        for index, axis in enumerate(axes):
            if isinstance(axis, int):
                continue
            key = axis or (name, index)
            if len(axes) == 4 and index == 1 and not any(isinstance(d, int) for d in axes[2:]):
                role = _CHANNEL
            else:
                role = _LENGTH if len(axes) == 4 or index == len(axes) - 1 else _OTHER
            roles[key] = max(role, roles.get(key, role))
    channels = _CHANNELS if _CHANNEL in roles.values() else (1,)
    for channel, length in product(channels, [n for n in _LENGTHS if n <= largest]):
        for other in (1, length) if _OTHER in roles.values() else (1,):
            sizes = {_OTHER: other, _CHANNEL: channel, _LENGTH: length}
            yield [
                tuple(
                    axis if isinstance(axis, int) else sizes[roles[axis or (name, index)]]
                    for index, axis in enumerate(axes)
                )
                for name, axes in dims.items()
            ]
