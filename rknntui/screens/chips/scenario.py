"""What is varied in an estimate, and the dialog that asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine import shape_text
from engine.wire.cost import WhatIf
from rknntui.screens.dialogs.request import RequestDialog

if TYPE_CHECKING:
    from engine.wire.graph import Tensor

AS_IS = WhatIf()
"""The recipe's own figures."""
_DTYPES = ("int8", "float16")
_HINTS = {
    "dtype": "int8 or float16",
    "input_sizes": "320x320, or 1,3,320,320",
    "batch": "inferences at once",
    "cores": "that share an inference",
    "npu_mhz": "clock; empty: the highest",
}


def scenario_words(scenario: WhatIf) -> str:
    """What differs from the recipe, for the line on top: ``float16, batch 4``."""
    parts = [
        scenario.dtype or "",
        *(size.replace("=", " ") for size in scenario.input_sizes),
        f"batch {scenario.batch}" if scenario.batch is not None else "",
        f"{scenario.cores} cores" if scenario.cores > 1 else "",
        f"{scenario.npu_mhz:g} MHz" if scenario.npu_mhz is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def checked(asked: WhatIf, inputs: Sequence[Tensor]) -> WhatIf:
    """What is varied, with sizes as a request has them.

    Args:
        asked: by the dialog; a size is ``320x320`` of the first input's images, or
            ``NAME=1,3,320,320`` of any.
        inputs: of the open model, for the names and ranks of the sizes.

    Raises:
        ValueError: a value is none; the message is for the user.
    """
    dtype = None if asked.dtype is None else asked.dtype.lower()
    if dtype not in (None, *_DTYPES):
        raise ValueError("The dtype must be int8 or float16.")
    sizes = tuple(_size(word, inputs) for word in asked.input_sizes)
    return replace(asked, dtype=dtype, input_sizes=sizes)


def _size(word: str, inputs: Sequence[Tensor]) -> str:
    name, equals, shape = word.rpartition("=")
    known = {value.name: value for value in inputs}
    if equals and name not in known:
        raise ValueError(f"The model has no input called {name}.")
    if not inputs:
        raise ValueError("The inputs of the model are not known.")
    tensor = known[name] if equals else inputs[0]
    dims = shape.lower().replace("x", ",").split(",")
    if not all(dim.isascii() and dim.isdigit() and 0 < int(dim[:9]) < 1 << 24 for dim in dims):
        raise ValueError(f"{word} is no size: 320x320 or 1,3,320,320 is one.")
    if len(dims) == 2 and len(tensor.shape) == 4:
        before = [str(max(1, d)) for d in tensor.shape]
        last = tensor.shape[1] not in (1, 3, 4) and tensor.shape[3] in (1, 3, 4)
        dims = [before[0], *dims, before[3]] if last else [*before[:2], *dims]
    if len(dims) != len(tensor.shape):
        raise ValueError(f"{tensor.name} is {shape_text(tensor.shape)}: give as many numbers.")
    return f"{tensor.name}={','.join(dims)}"


def what_if_dialog(now: WhatIf, inputs: Sequence[Tensor]) -> RequestDialog:
    """Asks what to vary."""
    title = "What if (estimated)"
    return RequestDialog(title, now, list(_HINTS), _HINTS, lambda asked: checked(asked, inputs))
