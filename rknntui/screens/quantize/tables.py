"""The columns of Quantize's tables: layers as they run here, ranges of tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine.wire.codec import encode
from rknntui.widgets.records import Field, Record, name_text, number
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from engine.wire.build import BuildSummary
    from engine.wire.graph import RangeRow

__all__ = ["layer_fields", "layer_records", "range_fields", "range_record"]

_MUCH_CUT = 0.02
"""Share of the observed span above which a cut has a colour: an algorithm chose it."""

_LEAST_CUT = 0.0005
"""Below that it is the rounding of the scale."""


def layer_fields() -> tuple[Field, ...]:
    """Layer, operator, whether and how it runs in integers, why not."""
    return (
        Field("layer", Column("layer", 16, grow=3, text=name_text)),
        Field("op", Column("op", 10)),
        Field("how", Column("runs in", 9, style=lambda v: "good" if v and "✓" in v else "warn")),
        Field("kernel", Column("kernel", 18), 90),
        Field("reason", Column("why float", 10, grow=2, text=name_text)),
    )


def layer_records(summary: BuildSummary) -> list[Record]:
    """A record per quantized layer, in the graph's order."""
    return [
        {
            **encode(layer),
            "how": "✓ integer" if layer.integer else "! float",
            "reason": layer.reason or None,
        }
        for layer in summary.layers
    ]


def range_fields() -> tuple[Field, ...]:
    """Tensor, type, used and observed range, how much of what was seen it leaves out, scale."""

    def cut(value: float) -> str:
        return f"{value:.1%}" if value >= _LEAST_CUT else "0"

    def cut_style(value: float | None) -> str:
        return "warn" if value is not None and value > _MUCH_CUT else ""

    short = number(4)
    return (
        Field("tensor", Column("tensor", 12, grow=1, text=name_text)),
        Field("dtype", Column("type", 8)),
        Field("minimum", Column("minimum", 9, right=True, text=short)),
        Field("maximum", Column("maximum", 9, right=True, text=short)),
        Field("observed_minimum", Column("obs. min", 9, right=True, text=short)),
        Field("observed_maximum", Column("obs. max", 9, right=True, text=short)),
        Field("cut", Column("clipped", 7, right=True, text=cut, style=cut_style)),
        Field("scale", Column("scale", 10, right=True, text=short), 100),
        Field("scale_max", Column("largest", 10, right=True, text=short), 120),
        Field("zero_point", Column("zero", 5, right=True), 90),
        Field("scales", Column("scales", 7, right=True), 120),
    )


def range_record(tensor: RangeRow) -> Record:
    """A row of the query ``ranges`` with the share of the observed span that its range cuts off."""
    ends = (tensor.observed_minimum, tensor.observed_maximum, tensor.minimum, tensor.maximum)
    low, high, lowest, highest = (math.nan if end is None else end for end in ends)
    cut = None
    if None not in ends and high > low:
        cut = min(1.0, (max(0.0, lowest - low) + max(0.0, high - highest)) / (high - low))
    return {**encode(tensor), "cut": cut}
