"""The columns of Chips and the texts of its figures. Everything is estimated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from engine import sanitize
from rknntui.widgets.records import Field, Record, name_text
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from engine.wire.cost import ChipEstimate, Interval, LayerCost

__all__ = [
    "bar",
    "change",
    "change_column",
    "chip_fields",
    "chip_record",
    "layer_fields",
    "layer_record",
    "milliseconds",
    "place_style",
    "rate",
    "size",
    "traffic",
]

_EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR = 12
"""Cells of the bar of a layer."""
_SLOW = 20.0
"""A layer with this share of the whole time, in percent, has a colour."""


def bar(share: float, width: int = BAR) -> str:
    """A bar of eighths of a cell; what is above 0 can be seen."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    eighths = max(eighths, 1) if share > 0 else 0
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


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


def _range(value: Interval) -> str:
    """``43.7–51.9``, ``9.2k–11.7k``: ten cells nearly always."""
    if value.high >= 9999.5:
        return f"{value.low / 1000:.1f}k–{value.high / 1000:.1f}k"
    return f"{rate(value.low)}–{rate(value.high)}"


def percent(now: float | None, before: float | None) -> float | None:
    """The change from ``before``; None where one is missing."""
    return None if now is None or not before else 100 * (now / before - 1)


# ------------------------------------------------------------------------------------------- chips
def chip_fields(*, changed: bool) -> tuple[Field, ...]:
    """Sign, chip, rate with its interval, time, memory, layers by place, dtype, confidence.

    Args:
        changed: whether the change to the recipe's own figures is shown beside them.
    """

    def count_style(place: str) -> Callable[[Any], str]:
        return lambda count: place_style(place) if count else "dim"

    def confidence_style(text: str | None) -> str:
        return {"calibrated": "good", "structural": "warn"}.get(text or "", "")

    changes = (
        Field("fps_change", change_column("FPS Δ", more_is_better=True)),
        Field("memory_change", change_column("memory Δ", more_is_better=False), 100),
    )
    return (
        Field("mark", Column("", 1, style=lambda _: "accent", name="compared")),
        Field("chip", Column("chip", 9)),
        Field("fps", Column("FPS", 6, right=True, text=rate)),
        Field("range", Column("90 %", 10, right=True, text=_range), 0 if not changed else 90),
        *(changes if changed else ()),
        Field("time_ms", Column("ms", 6, right=True, text=milliseconds)),
        Field("memory", Column("memory", 8, right=True, text=size)),
        Field("internal", Column("internal", 8, right=True, text=size), 110),
        Field("weight", Column("weights", 8, right=True, text=size), 120),
        Field("npu_layers", Column("NPU", 4, right=True), 100),
        Field("cpu_layers", Column("CPU", 3, right=True, style=count_style("CPU"))),
        Field("refused_layers", Column("refused", 7, right=True, style=count_style("none"))),
        Field("cycles", Column("cycles", 11, right=True, text=lambda v: f"{v:,}"), 140),
        Field("dtype", Column("type", 7, text=name_text)),
        Field("confidence", Column("basis", 10, style=confidence_style)),
        Field("cores", Column("cores", 5, right=True), 150),
        Field("npu_mhz", Column("MHz", 5, right=True, text=lambda v: f"{v:g}"), 130),
        Field("problem", Column("problem", 8, grow=1, text=name_text), 170),
    )


def chip_record(row: ChipEstimate, before: ChipEstimate | None, *, marked: bool) -> Record:
    """An estimate without its layers as a record; ``before``: of the recipe as it is."""
    memory = row.memory
    known = row.npu_layers + (row.cpu_layers or 0) + row.refused_layers + row.unknown_layers > 0
    old = before.memory if before is not None else None
    return {
        "mark": "●" if marked else " ",
        "chip": sanitize(row.chip, 40),
        "fps": row.fps.value if row.fps else None,
        "range": row.fps,
        "fps_change": percent(
            row.fps.value if row.fps else None, before.fps.value if before and before.fps else None
        ),
        "time_ms": row.time_ms.value if row.time_ms else None,
        "memory": memory.total if memory else None,
        "memory_change": percent(memory.total if memory else None, old.total if old else None),
        "internal": memory.internal if memory else None,
        "weight": memory.weight if memory else None,
        "npu_layers": row.npu_layers if known else None,
        "cpu_layers": row.cpu_layers if known else None,
        "refused_layers": row.refused_layers if known else None,
        "cycles": row.total_cycles or None,
        "dtype": row.dtype or None,
        "confidence": None if row.problem else row.confidence or None,
        "cores": row.cores,
        "npu_mhz": row.npu_mhz or None,
        "problem": row.problem or None,
    }


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
        "bar": bar(row.time_ms / longest) if longest else "",
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
