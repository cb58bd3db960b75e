"""Chip facts as data: the SoCs that the vendor's two toolkit generations serve.

Sources: [RKNN-T2 2.3.0, 1.1 and 2.2], [RKNN-T1 1.3.2, 3.6.3], and what toolkit 2.3.2 accepted when
it was tried for each chip.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeVar, get_type_hints

Record = TypeVar("Record")

__all__ = ["Chip", "chip", "chips", "numbers", "records", "rows"]


@dataclass(frozen=True)
class Chip:
    """One SoC: toolkit generation (1 or 2), NPU cores, quantized dtypes that its NPU takes."""

    name: str
    generation: int
    toolkit: str
    npu_cores: int
    dtypes: tuple[str, ...]
    aliases: tuple[str, ...]


def rows(package: str, name: str) -> list[dict[str, str]]:
    """The rows of a CSV file that is data of a package."""
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def records(kind: type[Record], package: str, name: str) -> tuple[Record, ...]:
    """The rows of such a file as a data class whose fields are its columns: text or numbers."""
    types = get_type_hints(kind)
    return tuple(
        kind(**{column: types[column](text) for column, text in row.items()})
        for row in rows(package, name)
    )


@cache
def numbers(package: str, name: str) -> Mapping[str, float]:
    """Such a file of two columns: what the first names -> the number in the second."""
    return {key: float(number) for key, number in map(dict.values, rows(package, name))}


@cache
def chips() -> tuple[Chip, ...]:
    """All chips in the order of the data file."""
    return tuple(
        Chip(
            name=row["name"],
            generation=int(row["generation"]),
            toolkit=row["toolkit"],
            npu_cores=int(row["npu_cores"]),
            dtypes=tuple(row["dtypes"].split()),
            aliases=tuple(row["aliases"].split()),
        )
        for row in rows("engine.facts", "chips.csv")
    )


def chip(name: str) -> Chip | None:
    """The chip of that name or alias, in any case; None where there is none."""
    spelled = name.strip().lower()
    return next((c for c in chips() if spelled == c.name or spelled in c.aliases), None)
