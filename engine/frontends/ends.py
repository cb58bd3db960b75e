"""Inputs and outputs as a user lists them: each once, all that are needed, sizes and values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.graph.ir.arrays import read_npy

_Key = TypeVar("_Key", bound=Hashable)

_MAX_ELEMENTS = 1 << 31


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first names for a message, in quotation marks."""
    return ", ".join(repr(sanitize(name, 100)) for name in list(names)[:most])


def require_once(option: str, names: Sequence[str], meant: Sequence[Hashable]) -> None:
    """Refuse an empty list of tensors, and one that names a tensor twice.

    Args:
        option: ``inputs`` or ``outputs``.
        names: as the user lists them.
        meant: what each of them means.

    Raises:
        SourceModelError: says which.
    """
    if not names:
        raise SourceModelError(
            f"The list of {option} is empty.", remedy="Leave it out for the model's own."
        )
    for index, (name, tensor) in enumerate(zip(names, meant, strict=True)):
        if tensor in meant[:index]:
            raise SourceModelError(
                f"{sanitize(name)!r} is listed twice in {option}.", remedy="List each tensor once."
            )


def left_out(names: Iterable[str]) -> SourceModelError:
    """The error for inputs that the outputs need and the list of inputs does not have."""
    return SourceModelError(
        f"The outputs need {listed(names)}, which the list of inputs leaves out.",
        cause="The chosen inputs do not cut every path from the model's own inputs.",
        remedy="Add it to 'inputs', or give it a constant with 'input_initial_val'.",
    )


def unused_input(name: str) -> Finding:
    """The finding for an input that was chosen and that no output needs."""
    what = f"No output needs the input {sanitize(name)!r}."
    remedy = "Leave it out of 'inputs'."
    return Finding("unused-input", "warning", sanitize(name), what, remedy=remedy)


def input_size(
    name: str,
    size: Sequence[Any],
    rank: int | None,
    shown: str = "",
    *,
    bounded: bool = True,
) -> tuple[int, ...]:
    """The size of an input as a user gives it; where only the batch lacks, it is 1.

    Args:
        name: of the input.
        size: what the user wrote.
        rank: how many dimensions the input has; None where nobody knows.
        shown: the declared shape, for the message.
        bounded: whether this is the only bound of a size: 2^24 a dimension, 2^31 elements; else
            what a graph would need is counted later.

    Raises:
        SourceModelError: no whole numbers of at least 1, too many numbers, another rank.
    """
    numbers, most = list(size), 1 << (24 if bounded else 31)
    fits = all(isinstance(n, int | np.integer) and 1 <= n <= most for n in numbers)
    if not fits or (bounded and (not numbers or prod(map(int, numbers)) > _MAX_ELEMENTS)):
        raise SourceModelError(
            f"The size of input {sanitize(name)!r} is {numbers}: every entry must be a whole "
            "number of at least 1, and the whole no more than a memory holds.",
            remedy="Write it as [[1, 3, 224, 224]].",
        )
    shape = tuple(map(int, numbers))
    if rank is not None and len(shape) == rank - 1:
        shape = (1, *shape)
    if rank is not None and len(shape) != rank:
        raise SourceModelError(
            f"The size {numbers} of input {sanitize(name)!r} has {len(numbers)} dimensions; the "
            f"model's input has {rank}{f': {shown}' if shown else ''}.",
            remedy="Write it as [[1, 3, 224, 224]], with the batch, one list per input.",
        )
    return shape


def batch_fixed(name: str, shown: str) -> Finding:
    """The finding for an open batch that was set to 1; ``shown`` is the declared shape."""
    what = f"The first axis of input {sanitize(name)!r} is dynamic ({shown}); it was set to 1."
    cause = "The model was exported with a dynamic batch; an NPU needs fixed sizes."
    remedy = "Give 'input_size_list' for another batch."
    return Finding("dynamic-batch-fixed", "info", sanitize(name), what, cause, remedy)


def reached(ends: Iterable[_Key], sources: Callable[[_Key], Iterable[_Key]]) -> list[_Key]:
    """All that some ends need, they too, each once; ``sources`` says what one reads."""
    seen = dict.fromkeys(ends)
    waiting = list(seen)
    while waiting:
        fresh = [key for key in dict.fromkeys(sources(waiting.pop())) if key not in seen]
        seen.update(dict.fromkeys(fresh))
        waiting += fresh
    return list(seen)


# Checks of options with an entry for each input: ``input_initial_val`` and lists.

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
