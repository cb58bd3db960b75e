"""``rknntui sweep``."""

from __future__ import annotations

from engine import Event, sqnr_rank
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.sweep import ROW, SWEEP, Row, Sweep
from rknntui.cli.output import row_text, table_lines
from rknntui.cli.verb import Printed, verb


def _row(event: Event) -> str | None:
    row = ROW.of(event)
    return None if row is None else row_text(SWEEP_ROWS, row)


@verb(
    SWEEP,
    tell=_row,
)
def command(result: Sweep) -> Printed:
    """Build every combination of some options' values, and compare the results (simulated).

    The builds run side by side on a Dask cluster: on this machine, or on another one by address.
    Where no combination can be built, the exit code is that of the first one's error.
    """
    errors = [row.error for row in result.rows if row.error is not None]
    failed = len(errors) == len(result.rows) > 0
    return Printed(_lines(result), code=int(errors[0]["exit_code"]) if failed else 0)


def _lines(result: Sweep) -> list[str]:
    rows = sorted(result.rows, key=_badness)
    axes = f"build: {', '.join(result.axes)}"
    basis = f"simulated, compared on the {result.compared_on}"
    left = f"; {result.left_out} combinations skipped" if result.left_out else ""
    return [axes, *table_lines(SWEEP_ROWS, rows), f"{basis}{left}"]


def _badness(row: Row) -> float:
    """Rows in the order of their worst output, the best first; failed ones last."""
    if row.outputs is None:
        return float("inf")
    return -min((sqnr_rank(o.sqnr_db) for o in row.outputs), default=float("inf"))
