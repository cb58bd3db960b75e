"""What ``rknntui hybrid`` prints: points, rankings, and what became of edits."""

from __future__ import annotations

from typing import Any

from engine import printable
from rknntui.cli.output import table

__all__ = ["decibels", "honoured_lines", "point_cells", "ranking_lines", "wrote_line"]


def wrote_line(result: dict[str, Any]) -> list[str]:
    """The recipe that was written, where one was."""
    return [f"wrote {printable(result['saved'], 300)}"] if "saved" in result else []


def decibels(value: float | None) -> str:
    """An SQNR; None is that of equal values."""
    return "equal" if value is None else f"{value:.2f}"


def ranking_lines(result: dict[str, Any]) -> list[str]:
    """The ranking of a proposal as a table."""
    rows = [
        (
            printable(row["layer"], 60),
            printable(row["tensor"], 60),
            row["op"],
            "all" if row["gain_db"] is None else f"{row['gain_db']:+.2f}",
            f"{100 * row['share']:.1f} %",
        )
        for row in result["ranking"]
    ]
    return table(("lift", "tensor", "op", "gain dB (simulated)", "share of the error"), rows)


def point_cells(point: dict[str, Any]) -> tuple[str, ...]:
    """A point of a search: step, layer, dtype, lifted layers, outputs."""
    outputs = (f"{printable(n, 40)} {decibels(v)}" for n, v in point["outputs"].items())
    return (
        str(point["step"]),
        printable(point["layer"], 60) or "as it is",
        point["dtype"] or "",
        str(len(point["lifted"])),
        "  ".join(outputs),
    )


def honoured_lines(rows: list[dict[str, Any]]) -> list[str]:
    """What became of every edit, as a table."""
    cells = [
        (
            str(row["line"]) if row["line"] else "",
            printable(row["tensor"], 60),
            row["kind"],
            row["asked"],
            row["got"],
            "" if row["ok"] else f"not honoured: {printable(row['why'])}",
        )
        for row in rows
    ]
    return table(("line", "tensor", "what", "asked", "got", ""), cells)
