"""Initial values of inputs: those inputs become constants of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.text import sanitize
from engine.frontends import option_checks as entries
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
    values = entries.initial_values(names, given)
    if values and len(values) == len(names):
        raise entries.refuse_no_input()
    for name, array in values.items():
        if not 0 < array.size <= MAX_ELEMENTS:
            raise SourceModelError(
                f"The initial value of input {sanitize(name)!r} has {array.size} elements.",
                remedy="Give an npy file or an array of numbers with the shape of the input.",
            )
    return {name: np.ascontiguousarray(array, np.float32) for name, array in values.items()}
