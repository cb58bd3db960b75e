"""What ``rknntui hybrid`` prints: points, rankings, and what became of edits."""

from __future__ import annotations

from collections.abc import Iterable

from engine.wire.build_tables import EDITS, SEARCH_POINTS
from engine.wire.hybrid import Proposal, RequestCheck, SearchResult
from rknntui.cli.output import table_lines


def time_lines(found: Proposal) -> list[str]:
    """What a proposal does to the time of an inference, where there is a chip."""
    before, after = found.time_before_ms, found.time_after_ms
    if before is None or after is None:
        return []
    return [f"time on {found.chip}: {before:.3f} ms -> {after:.3f} ms (estimated)"]


def curve_lines(found: SearchResult) -> list[str]:
    """The points of a search as a table; with a chip their time there."""
    return table_lines(SEARCH_POINTS, found.curve)


def check_lines(rows: Iterable[RequestCheck]) -> list[str]:
    """What became of every edit, as a table."""
    return table_lines(EDITS, rows)
