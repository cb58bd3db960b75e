"""The columns of Run's tables: inputs, outputs, largest values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine import shape_text
from rknntui.widgets.records import Field, Record, name_text, number
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from engine.wire.build import TopValue

__all__ = ["input_fields", "output_fields", "top_fields", "top_records"]

_BAR = 8


def input_fields() -> tuple[Field, ...]:
    """Name, shape, type, file."""
    return (
        Field("name", Column("input", 14, grow=1, text=name_text)),
        Field("shape", Column("shape", 13, text=shape_text)),
        Field("dtype", Column("type", 8)),
        Field("file", Column("file", 20, grow=3, text=name_text)),
    )


def output_fields() -> tuple[Field, ...]:
    """Name, shape, type, statistics, and where the numbers come from."""
    return (
        Field("name", Column("output", 10, grow=1, text=name_text)),
        Field("shape", Column("shape", 9, text=shape_text)),
        Field("dtype", Column("type", 8), 60),
        Field("minimum", Column("min", 9, right=True, text=number(4))),
        Field("maximum", Column("max", 9, right=True, text=number(4))),
        Field("mean", Column("mean", 9, right=True, text=number(4)), 56),
        Field("label", Column("from", 10), 70),
    )


def top_fields() -> tuple[Field, ...]:
    """Rank, index in the flattened output, value, bar."""
    return (
        Field("rank", Column("#", 3, right=True)),
        Field("index", Column("index", 7, right=True)),
        Field("value", Column("value", 10, right=True, text=number(6))),
        Field("bar", Column("", 4, grow=1, style=lambda _: "accent", name="bar")),
    )


def top_records(top: Sequence[TopValue]) -> list[Record]:
    """The largest values with a bar between the smallest and the largest of them."""
    values = [item.value for item in top]
    low = min([*values, 0.0])
    span = max([*values, 0.0]) - low
    return [
        {
            "rank": rank,
            "index": item.index,
            "value": item.value,
            "bar": "█" * round((item.value - low) / span * _BAR) if span > 0 else "",
        }
        for rank, item in enumerate(top, 1)
    ]
