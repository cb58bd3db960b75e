"""What ``rknntui hybrid`` prints: points, rankings, and what became of edits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine import gain_text, human_bytes, sanitize
from engine.wire.build_tables import EDITS, SEARCH_POINTS
from engine.wire.hybrid import LayerRow, Proposal, Ranked, RequestCheck, SearchResult
from rknntui.cli.output import table, table_lines

__all__ = [
    "check_lines",
    "curve_lines",
    "layer_cost_cells",
    "ranking_lines",
    "time_lines",
]


def ranking_lines(ranking: Sequence[Ranked]) -> list[str]:
    """The ranking of a proposal as a table; with a chip what each layer costs there."""
    priced = any(row.promote_ms is not None for row in ranking)
    rows = [
        (
            sanitize(row.id, 60),
            sanitize(row.tensor, 60),
            row.op,
            gain_text(row.gain_db, unit=False),
            "" if row.share is None else f"{100 * row.share:.1f} %",
            *(_price_cells(row) if priced else ()),
        )
        for row in ranking
    ]
    columns = (
        "promote",
        "tensor",
        "op",
        "gain dB (simulated)",
        "share of error",
        "adds ms (estimated)",
        "adds bytes",
        "dB per ms",
    )
    return table(columns if priced else columns[:5], rows)


def time_lines(found: Proposal) -> list[str]:
    """What a proposal does to the time of an inference, where there is a chip."""
    before, after = found.time_before_ms, found.time_after_ms
    if before is None or after is None:
        return []
    return [f"time on {found.chip}: {before:.3f} ms -> {after:.3f} ms (estimated)"]


def layer_cost_cells(row: LayerRow) -> tuple[str, str, str]:
    """Time of a layer of the table, and what lifting it adds to time and bytes (estimated)."""
    return (
        "" if row.time_ms is None else f"{row.time_ms:.4f}",
        "" if row.promote_ms is None else f"{row.promote_ms:.4f}",
        "" if row.promote_bytes is None else human_bytes(row.promote_bytes),
    )


def _price_cells(row: Ranked) -> tuple[str, str, str]:
    return (
        "" if row.promote_ms is None else f"{row.promote_ms:.4f}",
        "" if row.promote_bytes is None else human_bytes(row.promote_bytes),
        "" if row.gain_per_ms is None else f"{row.gain_per_ms:.3g}",
    )


def curve_lines(found: SearchResult) -> list[str]:
    """The points of a search as a table; with a chip their time there."""
    return table_lines(SEARCH_POINTS, found.curve)


def check_lines(rows: Iterable[RequestCheck]) -> list[str]:
    """What became of every edit, as a table."""
    return table_lines(EDITS, rows)
