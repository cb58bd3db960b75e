"""Sizes for dynamic axes that a model was seen to run with, for the advice to give some."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import onnx

__all__ = ["Dim", "running_sizes"]

Dim = int | str
"""A size, or the name of a dynamic axis; an axis without a name is the empty text."""

_Axis = str | tuple[str, int]
"""What shares one size: a name, or one axis (input, index) without a name."""

_LENGTHS = (
    *(224, 256, 320, 512, 640, 128, 64, 96, 76, 100, 160, 192, 384, 400, 416, 480, 576),
    *(768, 1024, 32, 16, 8, 4, 2, 1, 1280, 1600, 4000, 16000),
)
_LARGEST = 1024
"""Of an axis of an image or a sequence of vectors; only plain samples of sound are longer."""
_CHANNELS = (3, 1)
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
            given = np.asarray(values[name]) if name in values else np.zeros(size)
            feeds[name] = given.astype(dtype)
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
    lengths: dict[_Axis, None] = {}
    small: dict[_Axis, None] = {}
    channels: dict[_Axis, None] = {}
    largest = max(_LENGTHS)
    for name, axes in dims.items():
        for index, axis in enumerate(axes):
            key = _key(name, index, axis)
            if key is None:
                continue
            if len(axes) > 2:
                largest = _LARGEST
            if len(axes) == 4 and index == 1 and not any(isinstance(d, int) for d in axes[2:]):
                channels[key] = None
            elif len(axes) == 4 or index == len(axes) - 1:
                lengths[key] = None
            else:
                small[key] = None
    small = {key: None for key in small if key not in lengths}
    tried = [length for length in _LENGTHS if length <= largest]
    for channel, length in product(_CHANNELS if channels else (1,), tried):
        for other in (1, length) if small else (1,):
            chosen = {
                **dict.fromkeys(small, other),
                **dict.fromkeys(channels, channel),
                **dict.fromkeys(lengths, length),
            }
            yield [
                tuple(
                    axis if isinstance(axis, int) else chosen[_key(name, index, axis) or ""]
                    for index, axis in enumerate(axes)
                )
                for name, axes in dims.items()
            ]


def _key(name: str, index: int, axis: Dim) -> _Axis | None:
    if isinstance(axis, int):
        return None
    return axis or (name, index)
