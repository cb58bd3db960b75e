"""The columns of Quantize's tables: layers as they run here, ranges of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine import printable
from rknntui.widgets.records import Field, number
from rknntui.widgets.table import Column

__all__ = ["layer_fields", "layer_records", "range_fields"]


def _name(value: Any) -> str:
    return printable(str(value), 200)


def layer_fields() -> tuple[Field, ...]:
    """Layer, operator, whether and how it runs in integers, why not."""
    return (
        Field("layer", Column("layer", 16, grow=3, text=_name)),
        Field("op", Column("op", 10)),
        Field("how", Column("runs in", 9, style=lambda v: "good" if v and "✓" in v else "warn")),
        Field("kernel", Column("kernel", 18), 90),
        Field("reason", Column("why not in integers", 10, grow=2, text=_name)),
    )


def layer_records(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A record per quantized layer, in the graph's order."""
    return [
        {
            **layer,
            "how": "✓ integer" if layer["integer"] else "! float",
            "reason": layer["reason"] or None,
        }
        for layer in summary["layers"]
    ]


def range_fields() -> tuple[Field, ...]:
    """Tensor, type, scale, zero point, used and observed range."""
    return (
        Field("tensor", Column("tensor", 16, grow=1, text=_name)),
        Field("dtype", Column("type", 6)),
        Field("scales", Column("scales", 7, right=True), 100),
        Field("scale", Column("scale", 10, right=True, text=number(4))),
        Field("scale_max", Column("largest", 10, right=True, text=number(4)), 110),
        Field("zero_point", Column("zero", 5, right=True)),
        Field("minimum", Column("minimum", 10, right=True, text=number(4))),
        Field("maximum", Column("maximum", 10, right=True, text=number(4))),
        Field("observed_minimum", Column("seen min", 10, right=True, text=number(4)), 110),
        Field("observed_maximum", Column("seen max", 10, right=True, text=number(4)), 110),
    )
