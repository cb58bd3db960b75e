"""Rows of a report, and CSV."""

from __future__ import annotations

from engine.wire.cost import Estimates
from engine.wire.cost_tables import CHIPS, TENSORS
from engine.wire.layers import COST, layer_rows
from rknntui.tables import delimited


def csv_text(found: Estimates, kind: str) -> str:
    """CSV with a head; the last column says that every row is estimated."""
    if kind == "chips":
        return delimited(CHIPS, found.chips)
    if kind == "tensors":
        spans = [
            TENSORS.record(span, chip=one.chip)
            for one in found.chips
            if one.memory is not None
            for span in one.memory.spans
        ]
        return delimited(TENSORS, spans)
    rows = [COST.record(row, chip=one.chip) for one in found.chips for row in layer_rows(one)]
    return delimited(COST, rows)
