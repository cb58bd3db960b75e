"""What ``rknntui hybrid`` prints: points, rankings, and what became of edits."""

from __future__ import annotations

from collections.abc import Iterable

from engine import gain_text, sanitize, sqnr_text
from engine.wire.hybrid import CurvePoint, Ranked, RequestCheck
from rknntui.cli.output import table

__all__ = ["check_lines", "point_cells", "ranking_lines", "wrote_line"]


def wrote_line(path: str | None) -> list[str]:
    """The recipe that was written, where one was."""
    return [] if path is None else [f"wrote {sanitize(path, 300)}"]


def ranking_lines(ranking: Iterable[Ranked]) -> list[str]:
    """The ranking of a proposal as a table."""
    rows = [
        (
            sanitize(row.layer, 60),
            sanitize(row.tensor, 60),
            row.op,
            gain_text(row.gain_db, unit=False),
            "" if row.share is None else f"{100 * row.share:.1f} %",
        )
        for row in ranking
    ]
    return table(("promote", "tensor", "op", "gain dB (simulated)", "share of error"), rows)


def point_cells(point: CurvePoint) -> tuple[str, ...]:
    """A point of a search: step, layer, dtype, lifted layers, outputs."""
    outputs = (f"{sanitize(n, 40)} {sqnr_text(v, unit=False)}" for n, v in point.outputs.items())
    return (
        str(point.step),
        sanitize(point.layer, 60) or "baseline",
        point.dtype,
        str(len(point.lifted)),
        "  ".join(outputs),
    )


def check_lines(rows: Iterable[RequestCheck]) -> list[str]:
    """What became of every edit, as a table."""
    cells = [
        (
            str(row.line) if row.line else "",
            sanitize(row.layer, 60),
            row.kind,
            row.asked,
            row.got,
            "" if row.ok else f"not applied: {sanitize(row.why)}",
        )
        for row in rows
    ]
    return table(("line", "layer", "what", "requested", "built", ""), cells)
