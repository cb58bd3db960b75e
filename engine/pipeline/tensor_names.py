"""Which input and which layer a tensor of a model on a board is, and its values as we have them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from engine.accuracy.rows import Row
from engine.base.errors import UsageError
from engine.base.text import sanitize, shape_text
from engine.devices.board.tensors import BoardOutput, TensorAttributes
from engine.graph.ir import TensorSpec
from engine.toolkit.compile.neutral_names import port_in_file

_NAME_BYTES = 255
"""Of ``RKNN_MAX_NAME_LEN``, without the zero at the end."""


def _told(name: str) -> str:
    """A name as a runtime tells it, fit to be shown."""
    return sanitize(name.encode("utf-8", "replace")[:_NAME_BYTES].decode("utf-8", "ignore"), 300)


def match_inputs(found: Sequence[TensorAttributes], own: Sequence[TensorSpec]) -> tuple[str, ...]:
    """Names of the build's inputs in the order in which the model on the board takes them.

    Raises:
        UsageError: they are not those of the build.
    """
    names = {_told(spec.name): spec for spec in own}
    order = [names.get(port.name) for port in found]
    if len(found) == len(own) and (None in order or len({*map(id, order)}) != len(own)):
        order = list(own)  # a compiler that gives inputs names of its own keeps their order
    if len(found) != len(own) or any(
        spec is None or math.prod(spec.shape) != port.elements
        for spec, port in zip(order, found, strict=True)
    ):
        takes = ", ".join(f"{port.name} {shape_text(port.shape)}" for port in found[:5])
        expected = ", ".join(f"{sanitize(s.name, 80)} {shape_text(s.shape)}" for s in own[:5])
        raise UsageError(
            "The compiled model is of another build: its inputs differ.",
            cause=f"It takes {takes}; the build takes {expected}.",
            remedy="Compile the comparison model of this build (`rknntui export --layers`).",
        )
    return tuple(spec.name for spec in order if spec is not None)


def match_outputs(found: Sequence[TensorAttributes], rows: Sequence[Row]) -> Mapping[str, int]:
    """Tensor of a row (``golden``) -> place of the output that has it.

    A row is found by its tensor's name; where no output has that, by another name that is its
    layer's alone. A compiled file may have a long name cut.
    """
    places: dict[str, int] = {}
    for port in found:
        places.setdefault(port.name, port.index)
    named = [
        {_told(port) for name in _names(row) for port in (name, port_in_file(name))} for row in rows
    ]
    count = Counter(name for names in named for name in names)
    places_of_rows: dict[str, int] = {}
    for row, names in zip(rows, named, strict=True):
        own = [_told(port) for port in (row.golden, port_in_file(row.golden))]
        others = sorted(name for name in names if count[name] == 1)
        place = next((places[name] for name in (*own, *others) if name in places), None)
        if place is not None:
            places_of_rows[row.golden] = place
    return places_of_rows


def _names(row: Row) -> Iterator[str]:
    """Names that mean the result of the row's layer, and no tensor inside it."""
    yield from (row.golden, row.label)
    layer = row.result_of
    if layer is not None and row.golden == layer.tensor:
        yield from (layer.id, layer.nodes[-1])
        yield from () if layer.inner else layer.sources


def values_of(output: BoardOutput, shape: Sequence[int]) -> np.ndarray:
    """An output as float32 in the layout of the build.

    Raises:
        UsageError: it has not as many values as the layer.
    """
    array: np.ndarray = np.asarray(output.channels_first, np.float32)
    own_shape = tuple(shape)
    if array.size != math.prod(own_shape):
        raise UsageError(
            f"{output.name} has the shape {shape_text(array.shape)} on the board, and "
            f"{shape_text(own_shape)} in the build.",
            cause="The compiled model is of another build, or has another batch size.",
            remedy="Compile the comparison model of this build (`rknntui export --layers`).",
        )
    return np.ascontiguousarray(array).reshape(own_shape)
