"""Rounding sensitivity: how far outputs move when roundings at an edge go the other way."""

from __future__ import annotations

from typing import Annotated

from engine.wire.codec import Key
from engine.wire.record import record


@record
class RoundedOutput:
    """An output; figures in dB are None where nothing moved.

    Attributes:
        rounding_db: the least over the runs: power of the values over that of their movement.
        quantization_db: SQNR of the quantization itself, against float.
        arithmetic_db: of the run in the other arithmetic alone.
        relative: movement over values, as a share: ``10 ** (-rounding_db / 20)``.
        moved: share of the values that change in the run in which most do.
        steps: the greatest change in steps; None where the output is not quantized.
        kept_top: how many of the runs on all samples keep the place of the largest value; None
            where the output is no vector.
    """

    name: str
    rounding_db: float | None
    quantization_db: float | None
    arithmetic_db: float | None
    relative: float
    moved: float
    steps: float | None = None
    kept_top: int | None = None


@record
class RoundedLayer:
    """A layer's tensor, as stored.

    Attributes:
        id: of the layer.
        rounding_db: as of an output.
        moved: share of the integers that change in the run in which most do.
        steps: the greatest change in steps; None in half precision.
        amplified_db: how much lower ``rounding_db`` is than that of the tensor that the layer reads
            and that moves most; None where none of them moves, and of the first layers.
    """

    id: Annotated[str, Key("name")]
    tensor: str
    rounding_db: float | None
    moved: float
    steps: float | None = None
    amplified_db: float | None = None


@record
class RoundingSensitivity:
    """How far the outputs of a quantized graph move when roundings at an edge go the other way.

    Attributes:
        runs: the ways to round that were compared with the reference arithmetic: ``integer``,
            ``halves up``, ``edge 1`` and so on.
        samples: that they ran over.
        edge: how near to an edge a value is shaken over it, in steps.
        seconds: measured.
    """

    outputs: tuple[RoundedOutput, ...]
    layers: tuple[RoundedLayer, ...]
    runs: tuple[str, ...]
    samples: int
    edge: float
    seconds: float
    label: str = "simulated"
