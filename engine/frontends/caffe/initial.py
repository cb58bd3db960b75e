"""Initial values of inputs: those inputs become constants of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.text import printable
from engine.frontends.caffe.layer import MAX_ELEMENTS

__all__ = ["initial_values"]


def initial_values(names: Sequence[str], given: Sequence[Any] | None) -> Mapping[str, np.ndarray]:
    """The inputs that have a value, as float32, which all blobs of Caffe are.

    Args:
        names: of the inputs, in their order.
        given: per input None, numbers, or the path of an npy file; None for no values at all.

    Raises:
        SourceModelError: the list does not fit the inputs, an entry cannot be read, or every input
            has a value.
    """
    if given is None:
        return {}
    if len(given) != len(names):
        shown = ", ".join(printable(name, 60) for name in names[:8])
        raise SourceModelError(
            f"'input_initial_val' has {len(given)} entries; there are {len(names)} inputs "
            f"({shown}).",
            remedy="Give one entry for each input, in their order.",
        )
    pairs = zip(names, given, strict=True)
    values = {name: _array(name, item) for name, item in pairs if item is not None}
    if len(values) == len(names):
        raise SourceModelError(
            "Every input has an initial value, so the model has no input left.",
            remedy="Leave null for at least one input in 'input_initial_val'.",
        )
    return values


def _array(name: str, item: Any) -> np.ndarray:
    try:
        path = isinstance(item, str | Path)
        array = np.asarray(np.load(item, allow_pickle=False) if path else item)
        if array.dtype.kind not in "biuf" or not 0 < array.size <= MAX_ELEMENTS:
            raise ValueError(f"it holds {array.size} of {array.dtype}")
        return np.ascontiguousarray(array, dtype=np.float32)
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise SourceModelError(
            f"The initial value of input {printable(name)!r} cannot be used: "
            f"{printable(str(error), 200)}.",
            remedy="Give an npy file or an array of numbers with the shape of the input.",
        ) from error
