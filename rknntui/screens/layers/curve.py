"""Curves over the network: error and time along the layers, with the cursor of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.wire.layers import LAYERS
from rknntui.widgets.charts import Series

if TYPE_CHECKING:
    from engine.wire.layers import LayerFigures

_SQNR = Series("", (), "accent", min)
_TIME = Series("", (), "accent", max, least=0.0)
CURVES: dict[str, dict[str, Series]] = {
    "SQNR": {
        "sqnr": replace(_SQNR, title="SQNR dB, cumulative (simulated)"),
        "isolated_sqnr": replace(_SQNR, title="SQNR dB, isolated (simulated)", style="good"),
    },
    "time": {
        "time_ms": replace(_TIME, title="ms (estimated)"),
        "microseconds": replace(_TIME, title="µs (of the board)", style="good"),
    },
}
"""Name -> column of :data:`engine.wire.layers.LAYERS` -> its band, in the order of the key."""


def network_series(
    name: str, rows: Sequence[LayerFigures], cursor: str
) -> tuple[list[Series], int | None, str]:
    """What a chart shows of the layers in the network's order, with that of the cursor marked.

    Args:
        name: of ``CURVES``.
        rows: the layers.
        cursor: id of a layer; empty for none.
    """
    marked = next((at for at, row in enumerate(rows) if row.id == cursor), None)
    series = []
    for key, band in CURVES[name].items():
        column = LAYERS.column(key)
        values = tuple(column.of(row) for row in rows)
        finite = [value for value in values if value is not None and value < math.inf]
        said = [band.title]
        if finite:
            ends = (column.format.show(end).strip() for end in (min(finite), max(finite)))
            said.append(" to ".join(ends))
        if marked is not None and values[marked] is not None:
            said.append(f"here {column.format.show(values[marked]).strip()}")
        if any(value is not None for value in values):
            series.append(replace(band, title=" · ".join(said), values=values))
    return series, marked, "nothing of this is known yet"
