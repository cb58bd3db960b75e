"""What is varied in an estimate, and the dialog that asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine import shape_text
from rknntui.screens.dialogs.fields import FieldsDialog

if TYPE_CHECKING:
    from engine.wire.graph import Tensor

__all__ = ["AS_IS", "Scenario", "WhatIfDialog", "read_scenario"]

MOST_BATCH, MOST_CORES, MOST_MHZ = 1024, 8, 10_000.0
DTYPES = ("int8", "float16")
_FIELDS = (
    ("dtype", "Dtype", "int8 or float16"),
    ("sizes", "Input size", "320x320, or 1,3,320,320"),
    ("batch", "Batch", "inferences at once"),
    ("cores", "NPU cores", "that share an inference"),
    ("mhz", "NPU clock, MHz", "none: the highest"),
)


@dataclass(frozen=True)
class Scenario:
    """What is varied; all unset is the recipe as it is.

    Attributes:
        dtype: of the quantization; None: the recipe's.
        sizes: ``NAME=1,3,640,640`` of inputs with another shape.
        batch: inferences at once; None: the recipe's.
        cores: of the NPU that share an inference.
        mhz: clock of the NPU; None: the highest.
    """

    dtype: str | None = None
    sizes: tuple[str, ...] = ()
    batch: int | None = None
    cores: int = 1
    mhz: float | None = None

    @property
    def params(self) -> dict[str, Any]:
        """As a request has them."""
        return {
            "dtype": self.dtype,
            "input_sizes": self.sizes,
            "batch": self.batch,
            "cores": self.cores,
            "npu_mhz": self.mhz,
        }

    @property
    def words(self) -> str:
        """What differs from the recipe, for the line on top: ``float16, batch 4``."""
        parts = [
            self.dtype or "",
            *(size.replace("=", " ") for size in self.sizes),
            f"batch {self.batch}" if self.batch is not None else "",
            f"{self.cores} cores" if self.cores > 1 else "",
            f"{self.mhz:g} MHz" if self.mhz is not None else "",
        ]
        return ", ".join(part for part in parts if part)


AS_IS = Scenario()
"""The recipe's own figures."""


def read_scenario(texts: Mapping[str, str], inputs: Sequence[Tensor]) -> Scenario:
    """What is varied, from the dialog's texts.

    Args:
        texts: field -> text; an empty one is not varied.
        inputs: of the open model, for the names and ranks of the sizes.

    Raises:
        ValueError: a text is no value; the message is for the user.
    """
    dtype = texts["dtype"].strip().lower()
    if dtype and dtype not in DTYPES:
        raise ValueError("The dtype must be int8 or float16.")
    return Scenario(
        dtype=dtype or None,
        sizes=_sizes(texts["sizes"], inputs),
        batch=_whole(texts["batch"], "batch", MOST_BATCH),
        cores=_whole(texts["cores"], "number of cores", MOST_CORES) or 1,
        mhz=_clock(texts["mhz"]),
    )


def _whole(text: str, what: str, most: int) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= most:
        raise ValueError(f"The {what} must be a whole number from 1 to {most}.")
    return int(text)


def _clock(text: str) -> float | None:
    try:
        value = float(text) if text.strip() else None
    except ValueError:
        value = 0.0
    if value is not None and not 0 < value <= MOST_MHZ:
        raise ValueError("The clock must be a number of MHz above 0.")
    return value


def _sizes(text: str, inputs: Sequence[Tensor]) -> tuple[str, ...]:
    """``320x320`` of the first input's images, ``NAME=1,3,320,320`` of any; split by blanks."""
    return tuple(_size(word, inputs) for word in text.split())


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


class WhatIfDialog(FieldsDialog):
    """Asks what to vary; dismissed with (scenario, texts), None for Esc.

    Args:
        texts: of the last time.
        inputs: of the open model.
    """

    TITLE_TEXT = "What if (estimated)"
    KEYS_TEXT = "↑↓ field · Enter estimate · Esc cancel"
    DEFAULT_CSS = """
    WhatIfDialog Label { width: 16; }
    WhatIfDialog Input { width: 22; }
    """

    def __init__(self, texts: Mapping[str, str], inputs: Sequence[Tensor]) -> None:
        def read(given: dict[str, str]) -> tuple[Scenario, dict[str, str]]:
            return read_scenario(given, inputs), given

        super().__init__(_FIELDS, texts, read, "An empty field keeps the recipe's.")
