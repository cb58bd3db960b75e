"""What several tables have: columns of the same heading, marks of what is bad, what a value means.

A heading stands in one module, so that it is the same figure wherever it stands. A table takes a
column with :meth:`Column.but`, where its width, value or meaning is another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.wire.formats import (
    COSINE,
    COUNT,
    DECIBEL,
    FIGURE,
    MILLISECONDS,
    MOMENT,
    NAME,
    NUMBER,
    RATE,
    SECONDS,
    SHAPE,
    SIZE,
    WORD,
    Format,
    state_of,
)
from engine.wire.table import Column, Meaning

LOW_DB = 20.0
"""A lower SQNR has a mark."""
LOW_COSINE = 0.99
"""So has a lower cosine."""
_PLACES: dict[str | None, Meaning] = {"CPU": "warn", "unknown": "warn", "none": "bad"}


def _marked(one: Format, low: float) -> Format:
    """Low values have a mark, so that they are seen without colours."""
    return replace(one, text=lambda value: f"{'!' if value < low else ''}{one.text(value)}")


SQNR = _marked(DECIBEL, LOW_DB)
"""An SQNR of a tensor."""
SIMILARITY = _marked(COSINE, LOW_COSINE)
"""A cosine of a tensor."""


# ------------------------------------------------------------------------------------------ values
def known(key: str) -> Callable[[Any], Any]:
    """The value of an attribute; an empty text and 0 stand for what is not known."""
    return lambda row: getattr(row, key) or None


def since(now: float | None, before: float | None) -> float | None:
    """The change from ``before``, a share of 1; None where one is missing."""
    return None if now is None or not before else now / before - 1


def no_noise(value: float | None) -> float:
    """An SQNR that is None without noise, as a number."""
    return math.inf if value is None else value


def number_of(side: str, key: str = "cosine") -> Callable[[Any], float | None]:
    """A figure of a difference; NaN where a value of the tensor is no number."""

    def value(row: Any) -> float | None:
        difference = getattr(row, side)
        if difference is None:
            return None
        number: float | None = getattr(difference, key)
        return math.nan if number is None else number

    return value


def sqnr_of(side: str, key: str = "") -> Callable[[Any], float | None]:
    """The SQNR of a difference, else the row's own of a key: infinite without noise."""

    def value(row: Any) -> float | None:
        difference = getattr(row, side)
        if difference is None or difference.cosine is None:
            return None if difference is None else math.nan
        return no_noise(getattr(row, key) if key else difference.sqnr)

    return value


# ---------------------------------------------------------------------------------------- meanings
def below(low: float, meaning: Meaning = "bad") -> Callable[[float | None], Meaning]:
    """Of a figure that is better the higher it is."""
    return lambda value: meaning if value is not None and value < low else ""


def above(high: float, meaning: Meaning = "warn") -> Callable[[float | None], Meaning]:
    """Of a figure whose size is better small."""
    return lambda value: meaning if value is not None and abs(value) > high else ""


low_db = below(LOW_DB)
"""What an SQNR means: a low one is bad."""


def accent(_: Any) -> Meaning:
    """Of a mark or a bar: it judges nothing."""
    return "accent"


def place_style(place: str | None) -> Meaning:
    """What a place means: the CPU is slow, a layer that is refused stops the compiler."""
    return _PLACES.get(place, "")


def change_style(*, more_is_better: bool) -> Callable[[float | None], Meaning]:
    """What a change (a share of 1) means."""

    def style(change: float | None) -> Meaning:
        if change is None or abs(change) < 0.0005:
            return ""
        return "good" if (change > 0) == more_is_better else "bad"

    return style


# ----------------------------------------------------------------------------------------- columns
# fmt: off
MARK = Column("mark", name="mark", value=None, width=1, style=accent, only="screen")
NUMBERED = Column("number", "#", NUMBER, "Its place in the table, from 1.")
CHIP = Column("chip", format=NAME, help="The chip.")
GENERATION = Column("generation", format=NUMBER, help="Generation of the NPU.")
TOOLKIT = Column("toolkit", format=NAME, help="The vendor's toolkit.", value=known("toolkit"))
DEVICE = Column("device", format=NAME, help="The board's name, for --device.")
MODEL = Column("model", format=NAME, help="The model.")
LAYER = Column("layer", format=NAME, help="The layer.")
LAYERS = Column("layers", format=NUMBER, help="How many layers.")
OP = Column("op", format=NAME, help="Its operator.")
TENSOR = Column("tensor", format=NAME, help="The tensor.")
OUTPUT = Column("name", "output", NAME, "The output.", width=10, grow=1)
SHAPED = Column("shape", format=SHAPE, help="Its shape.")
DTYPE = Column("dtype", help="Its dtype.", width=8)
FILE = Column("file", format=NAME, help="The file.", width=12, grow=1)
STATE = Column("state", format=state_of(), help="How it is.")
PLACE = Column("target", "on", WORD, "Where it runs.", width=4, style=place_style)
ON_NPU = Column("npu_layers", "NPU", COUNT, "Layers on the NPU.", width=4)
ON_CPU = Column("cpu_layers", "CPU", COUNT, "Layers on the CPU.", width=3)
REASON = Column("reason", "why", NAME, "Why it is not on the NPU.", known("reason"), grow=1)
REMEDY = Column("remedy", "fix", NAME, "What you can do.", known("remedy"), grow=1)
PROBLEM = Column("problem", format=NAME, help="What is wrong with it.", grow=1)
STANDS_ON = Column("basis", help="What estimates of time stand on.", value="confidence")
SOURCE = Column("source", format=NAME, help="Where it is published.")
FIGURES_ARE = Column("label", "figures are", help="Where the figures are from.")
SIZED = Column("size", format=SIZE, help="Bytes of it.", value=known("size"))
WEIGHTS = Column("weight_bytes", "weights", SIZE, "Memory of the weights.")
INTERNAL = Column("internal_bytes", "internal", SIZE, "Memory of the tensors between layers.")
CROSSING = Column("crossing_bytes", "crossing", SIZE, "Bytes that later segments read.",
                  known("crossing_bytes"))
CYCLES = Column("total_cycles", "cycles", COUNT, "Cycles as the compiler counts them.", width=10)
ESTIMATED_CYCLES = Column("estimated_cycles", "est. cycles", COUNT, "Our estimate of the cycles.",
                          width=11)
MACS = Column("macs", "MACs", COUNT, "Multiply-accumulates of an inference.")
FRAMES = Column("fps", "FPS", RATE, "Frames a second.")
TIME_MS = Column("time_ms", "time ms", MILLISECONDS, "Its time.")
ESTIMATED_MS = Column("time_ms", "est. ms", MILLISECONDS, "Its time, estimated.", width=7)
MEDIAN_MS = Column("median_ms", "median ms", MILLISECONDS, "Half of the runs took no longer.")
WHEN = Column("at", "time", MOMENT, "When it was.")
TOOK = Column("seconds", "seconds", SECONDS, "How long it took, measured.")
CORES_USED = Column("cores_used", "core mask", help="The NPU cores that run it.", value="cores")
BATCH = Column("batch", format=NUMBER, help="Inferences at once.")
THREADS = Column("threads", format=NUMBER, help="Threads that run it at the same time.")
MINIMUM = Column("minimum", format=FIGURE, help="The low end of the range.")
MAXIMUM = Column("maximum", format=FIGURE, help="The high end of the range.")
OBSERVED_MINIMUM = Column("observed_minimum", "obs. min", FIGURE, "The calibrated range, low end.")
OBSERVED_MAXIMUM = Column("observed_maximum", "obs. max", FIGURE, "The calibrated range, high end.")
LOWEST_DB = Column("lowest", "lowest dB", SQNR, "The lowest SQNR of the outputs.", width=9,
                   style=low_db)
OUTPUTS_DB = Column("outputs", "outputs, dB", NAME, "The SQNR of each output.", width=20, grow=3)
MEANING = Column("about", "meaning", NAME, "What it is.")
VALUE = Column("value", format=NAME, help="Its value.")
LINE = Column("line", format=NUMBER, help="Of the file.")
# fmt: on
