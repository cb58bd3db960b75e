"""Checks of options with an entry for each input: ``input_initial_val`` and lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.text import sanitize
from engine.graph.ir.arrays import read_npy

INITIAL_FORM = (
    "one npy file or - for each input in their order, with ; between, as '-;-;rate.npy'; in a "
    "recipe a list with null, as [null, null, rate.npy]"
)
"""How ``input_initial_val`` is written."""


def require_entries(names: Sequence[str], items: Sequence[Any] | None, option: str) -> None:
    """Refuse a list of ``option`` that does not have one entry for each input.

    Raises:
        SourceModelError: names the inputs.
    """
    if items is None or len(items) == len(names):
        return
    shown = ", ".join(sanitize(name, 60) for name in names[:8])
    initial = option == "input_initial_val"
    raise SourceModelError(
        f"'{option}' has {len(items)} entries; there are {len(names)} inputs ({shown}).",
        remedy=f"Give {INITIAL_FORM}."
        if initial
        else "Give one entry for each input, in their order.",
    )


def refuse_no_input() -> SourceModelError:
    """The error for a model whose every input has a value."""
    return SourceModelError(
        "Every input has an initial value, so the model has no input left.",
        remedy="Leave null for at least one input in 'input_initial_val'.",
    )


def initial_values(names: Sequence[str], given: Sequence[Any] | None) -> dict[str, np.ndarray]:
    """The inputs that have a value.

    Args:
        names: of the inputs, in their order.
        given: per input None, numbers (an array or lists), or the path of an npy file; None for
            no values at all.

    Raises:
        SourceModelError: the list does not fit the inputs, or an entry cannot be read.
    """
    require_entries(names, given, "input_initial_val")
    pairs = zip(names, given or (), strict=False)
    return {name: initial_array(name, item) for name, item in pairs if item is not None}


def initial_array(name: str, item: Any) -> np.ndarray:
    """The numbers of one entry, in their own type.

    Raises:
        SourceModelError: it cannot be read, or holds no numbers.
    """
    try:
        path = isinstance(item, str | Path)
        array = read_npy(Path(item)) if path else np.asarray(item)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"it holds {array.dtype}, no numbers")
    except (OSError, ValueError, TypeError) as error:
        raise SourceModelError(
            f"The initial value of input {sanitize(name)!r} cannot be used: "
            f"{sanitize(str(error), 200)}.",
            remedy="Give an npy file or an array of numbers with the shape of the input: "
            f"{INITIAL_FORM}.",
        ) from error
    return array
