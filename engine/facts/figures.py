"""Figures of each chip, each with its source: clocks, MACs, memory, CPU; unknown ones say so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from engine.facts import chip, chips, rows

Basis = Literal["fitted", "derived", "structural"]
"""What an estimate of time stands on: published rates of the chip, those of a chip of the same
design, or none at all."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a chip.

    Attributes:
        name: ``npu_mhz``, ``macs_int8``, ``memory_bandwidth``, ...
        value: as text; empty where it is not known.
        unit: of the value; empty for words.
        source: where the figure is from, or why there is none.
        confidence: ``high``: two sources or the vendor's own, ``medium``: one source, ``low``:
            inferred, ``none``: not known.
    """

    name: str
    value: str
    unit: str
    source: str
    confidence: str

    @property
    def known(self) -> bool:
        """Whether there is a value."""
        return bool(self.value)

    @property
    def text(self) -> str:
        """Value with unit, or ``not known``."""
        return f"{self.value} {self.unit}".strip() if self.value else "not known"


@cache
def figures(name: str) -> tuple[Figure, ...]:
    """All figures of a chip, by its name or alias; empty where there is no such chip."""
    facts = chip(name)
    return _all().get(facts.name, ()) if facts else ()


def figure(chip_name: str, name: str) -> Figure | None:
    """One figure of a chip; None where the data has no row for it."""
    return next((row for row in figures(chip_name) if row.name == name), None)


def number(chip_name: str, name: str) -> float | None:
    """The value of a figure as a number; None where it is not known.

    Raises:
        ValueError: the figure is words.
    """
    row = figure(chip_name, name)
    return float(row.value) if row is not None and row.known else None


def basis(chip_name: str) -> Basis:
    """What estimates of a chip's time stand on; ``structural`` for one that is not known."""
    row = figure(chip_name, "basis")
    return cast(Basis, row.value) if row else "structural"


@cache
def _all() -> dict[str, tuple[Figure, ...]]:
    table: dict[str, list[Figure]] = {known.name: [] for known in chips()}
    for row in rows("engine.facts", "figures.csv"):
        entry = Figure(row["name"], row["value"], row["unit"], row["source"], row["confidence"])
        for name in row["chips"].split():  # chips of one design share a row
            table[name].append(entry)
    return {name: tuple(of_chip) for name, of_chip in table.items()}
