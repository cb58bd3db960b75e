"""The columns of Chips and the texts of its figures. Everything is estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rknntui.widgets.records import Field, Record, name_text
from rknntui.widgets.strips import bar
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from engine.wire.cost import LayerCost

__all__ = [
    "bar",
    "change",
    "change_column",
    "layer_fields",
    "layer_record",
    "milliseconds",
    "place_style",
    "rate",
    "size",
    "traffic",
]

BAR = 12
"""Cells of the bar of a layer."""
_SLOW = 20.0
"""A layer with this share of the whole time, in percent, has a colour."""


def milliseconds(value: float) -> str:
    """``0.012``, ``1.23``, ``123``: three digits count, a microsecond is the least."""
    if value < 0.0005:
        return "0"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.1 else f"{value:.3f}"


def rate(value: float) -> str:
    """Frames a second: ``9.3``, ``47.3``, ``222``, ``12.5k``."""
    if value >= 9999.5:
        return f"{value / 1000:.1f}k"
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def size(count: float) -> str:
    """``117 KiB``, ``1.67 MiB``: at most four characters and the unit, the width of a column."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if abs(value) < 1000:
            break
        value, unit = value / 1024, larger
    if unit == "B" or abs(value) >= 1000:
        return f"{value:.0f} {unit}"
    # below 1 a third digit would be a fifth character
    return f"{value:.{2 if abs(value) < 1 else 3}g} {unit}"


def change(value: float) -> str:
    """``+12 %``, ``-4.1 %``, ``0 %``."""
    if abs(value) < 0.05:
        return "0 %"
    return f"{value:+.0f} %" if abs(value) >= 10 else f"{value:+.1f} %"


def change_column(title: str, *, more_is_better: bool, name: str = "") -> Column:
    """A column of changes to before, in percent."""

    def style(value: float | None) -> str:
        if value is None or abs(value) < 0.05:
            return ""
        return "good" if (value > 0) == more_is_better else "bad"

    return Column(title, 8, right=True, text=change, style=style, name=name)


def place_style(place: str | None) -> str:
    """The CPU and a refusal have a colour."""
    return {"CPU": "warn", "unknown": "warn", "none": "bad"}.get(place or "", "")


def percent(now: float | None, before: float | None) -> float | None:
    """The change from ``before``; None where one is missing."""
    return None if now is None or not before else 100 * (now / before - 1)


# ------------------------------------------------------------------------------------------ layers
def layer_fields(*, changed: bool) -> tuple[Field, ...]:
    """Position, layer, operator, place, time with a bar, bound, cycles, bytes, shapes.

    Args:
        changed: whether the change to the recipe's own time is shown beside it.
    """

    def share_style(share: float | None) -> str:
        return "warn" if share is not None and share >= _SLOW else ""

    whole = Column("cycles", 9, right=True, text=lambda v: f"{v:,}")
    return (
        Field("number", Column("#", 4, right=True)),
        Field("name", Column("layer", 12, grow=3, text=name_text)),
        Field("op", Column("op", 6, text=name_text)),
        Field("dtype", Column("type", 5, text=name_text), 110),
        Field("target", Column("on", 4, style=place_style)),
        Field("time_ms", Column("ms", 6, right=True, text=milliseconds)),
        *((Field("change", change_column("ms Δ", more_is_better=False)),) if changed else ()),
        Field("bar", Column("", BAR, name="share of time", style=lambda _: "accent")),
        Field("share", Column("time %", 6, right=True, text=_tenths, style=share_style), 96),
        Field("bound", Column("bound", 6)),
        Field("total_cycles", whole, 92),
        Field("npu_cycles", Column("NPU cycles", 10, right=True, text=lambda v: f"{v:,}"), 150),
        Field("ddr_cycles", Column("DDR cycles", 10, right=True, text=lambda v: f"{v:,}"), 150),
        Field("traffic", Column("traffic", 8, right=True, text=size), 104),
        Field("weight_bytes", Column("weights", 8, right=True, text=size), 130),
        Field("shape_out", Column("output", 10, text=name_text), 130),
        Field("reason", Column("why", 8, grow=1, text=name_text), 170),
    )


def layer_record(
    number: int, row: LayerCost, whole: float, longest: float, before: Mapping[str, float]
) -> Record:
    """A row of the compiler's layers as a record.

    Args:
        number: its position, from 1.
        row: of the estimate.
        whole: ms of all layers.
        longest: ms of the longest.
        before: layer id -> ms as the recipe is; empty where nothing is varied.
    """
    return {
        "number": number,
        "id": row.id,
        "name": row.id or row.name,
        "aliases": (*row.layers, row.name),
        "op": row.op,
        "printed": row.name,
        "dtype": row.dtype or None,
        "target": row.target,
        "time_ms": row.time_ms,
        "change": percent(row.time_ms, before.get(row.id)),
        "bar": bar(row.time_ms / longest, BAR) if longest else "",
        "share": 100 * row.time_ms / whole if whole else None,
        "bound": row.bound,
        "total_cycles": row.total_cycles or None,
        "npu_cycles": row.npu_cycles or None,
        "ddr_cycles": row.ddr_cycles or None,
        "traffic": traffic(row),
        "weight_bytes": row.weight_bytes or None,
        "macs": row.macs,
        "shapes_in": row.shapes_in,
        "shape_out": row.shape_out or None,
        "reason": row.reason or None,
        "remedy": row.remedy,
    }


def traffic(row: LayerCost) -> int:
    """Bytes that a layer moves in an inference; what it reads has its weights."""
    return row.read_bytes + row.write_bytes


def _tenths(value: float) -> str:
    return f"{value:.1f}"
