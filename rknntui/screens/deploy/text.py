"""The columns of Deploy and the texts of its figures: those of the compiler beside ours."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from engine.wire import build_tables
from engine.wire.formats import SIZE
from rknntui.screens.chips.text import change, percent
from rknntui.widgets.records import Field, Record, name_text
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.wire.compile import CompiledLayer

__all__ = ["TOLERATED", "bytes_pair", "layer_fields", "layer_records"]

TOLERATED = 100 * build_tables.TOLERATED
"""Percent that printed and estimated cycles of a layer may differ without a sign."""


def _difference_style(value: float | None) -> str:
    return "" if value is None or abs(value) <= TOLERATED else "warn"


def _count(value: Any) -> str:
    return f"{value:,}"


def _cycles(title: str, name: str) -> Column:
    return Column(title, 10, right=True, text=_count, name=name)


def _difference(title: str) -> Column:
    return Column(title, 8, right=True, text=change, style=_difference_style)


# ------------------------------------------------------------------------------------------ layers
def layer_fields() -> tuple[Field, ...]:
    """Sign, layer, op, dtype, targets and cycles, each printed and estimated, and what it reads."""

    def sign_style(sign: str) -> str:
        return "bad" if sign == "✗" else "warn"

    def target_style(text: str | None) -> str:
        return "" if text in (None, "NPU") else "warn"

    return (
        Field("sign", Column("", 1, style=sign_style, name="disagreement")),
        Field("number", Column("#", 4, right=True), 60),
        Field("name", Column("layer", 10, grow=3, text=name_text)),
        Field("op", Column("op", 6, text=name_text), 90),
        Field("dtype", Column("dtype", 5, text=name_text)),
        Field("target", Column("on", 4, text=name_text, style=target_style)),
        Field("estimated_target", Column("est.", 4, text=name_text, name="on, estimated"), 110),
        Field("npu_cycles", _cycles("NPU cycles", "NPU cycles, printed"), 130),
        Field("estimated_npu", _cycles("estimated", "NPU cycles, estimated"), 130),
        Field("npu_difference", _difference("diff."), 130),
        Field("total_cycles", _cycles("cycles", "cycles, printed")),
        Field("estimated_total", _cycles("estimated", "cycles, estimated"), 64),
        Field("difference", _difference("diff.")),
        Field("read_kb", Column("read KB", 8, right=True, text=_count), 120),
    )


def layer_records(layers: Sequence[CompiledLayer]) -> list[Record]:
    """The rows of a compiler's table, those that disagree with our estimate first."""
    often = Counter(row.id for row in layers)
    records = [
        _layer_record(number, row, row.id if often[row.id] == 1 else row.name)
        for number, row in enumerate(layers, 1)
    ]
    return sorted(records, key=_disagreement)


def _layer_record(number: int, row: CompiledLayer, name: str) -> dict[str, Any]:
    other = row.estimated_target is not None and row.estimated_target != row.target
    npu = percent(row.npu_cycles, row.estimated_npu_cycles)
    total = percent(row.total_cycles, row.estimated_total_cycles)
    off = any(value is not None and abs(value) > TOLERATED for value in (npu, total))
    return {
        "sign": "✗" if other else "≠" if off else " ",
        "number": number,
        "id": row.id,
        "name": name or row.name,
        "aliases": (row.id, row.name),
        "printed": row.name,
        "op": row.op,
        "dtype": row.dtype or None,
        "target": row.target or None,
        "estimated_target": row.estimated_target,
        "npu_cycles": row.npu_cycles,
        "estimated_npu": row.estimated_npu_cycles,
        "npu_difference": npu,
        "total_cycles": row.total_cycles,
        "estimated_total": row.estimated_total_cycles,
        "difference": total,
        "read_kb": row.read_kb,
    }


def _disagreement(record: Record) -> tuple[int, float, int]:
    """The order: another target, then the cycles that differ most, then as compiled."""
    values = [record["npu_difference"], record["difference"]]
    most = max((abs(value) for value in values if value is not None), default=0.0)
    rank = {"✗": 0, "≠": 1}.get(record["sign"], 2)
    return rank, -most if rank < 2 else 0.0, record["number"]


def bytes_pair(label: str, printed: int | None, estimated: int | None) -> str:
    """``weights 117 KiB printed, 116 KiB estimated``; empty where nothing is known."""
    if printed is None and estimated is None:
        return ""
    parts = [
        f"{SIZE.text(value)} {word}"
        for value, word in ((printed, "printed"), (estimated, "estimated"))
        if value is not None
    ]
    return f"{label} {', '.join(parts)}"
