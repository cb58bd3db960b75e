"""``rknntui sweep``."""

from __future__ import annotations

from engine import Event, sanitize, sqnr_rank, sqnr_text
from engine.wire.sweep import ROW, SWEEP, Row, Sweep
from rknntui.cli.output import table
from rknntui.cli.verb import Printed, verb


def _row(event: Event) -> str | None:
    row = ROW.of(event)
    return None if row is None else "  ".join(_cells(row))


@verb(
    SWEEP,
    tell=_row,
    epilog="TARGET is a model file or a recipe; flags override the recipe. "
    "Example: rknntui sweep recipe.yaml --axis quantized_algorithm=normal,mmse,accurate "
    "--axis quantized_method=channel,layer",
)
def command(result: Sweep) -> Printed:
    """Build every combination of some options' values, and compare the results (simulated).

    The builds run side by side on a Dask cluster: on this machine, or on another one by address.
    Where no combination can be built, the exit code is that of the first one's error.
    """
    errors = [row.error for row in result.rows if row.error is not None]
    failed = len(errors) == len(result.rows) > 0
    return Printed(_lines(result), code=int(errors[0]["exit_code"]) if failed else 0)


def _cells(row: Row) -> list[str]:
    values = [sanitize(f"{name}={value}", 60) for name, value in row.values.items()]
    if row.error is not None:
        return [*values, sanitize(str(row.error["what"]), 200)]
    return [*values, *(sqnr_text(output.sqnr_db) for output in row.outputs or ())]


def _lines(result: Sweep) -> list[str]:
    names = next((row.outputs for row in result.rows if row.outputs is not None), ())
    columns = (
        *result.axes,
        *(f"SQNR {sanitize(o.name, 30)}" for o in names),
        "MiB",
        "seconds",
    )
    rows = []
    for row in sorted(result.rows, key=_badness):
        values = [sanitize(str(value), 30) for value in row.values.values()]
        if row.error is None:
            values += [sqnr_text(output.sqnr_db) for output in row.outputs or ()]
            values += [f"{(row.bytes or 0) / 2**20:.2f}", f"{row.seconds or 0:.2f}"]
        else:
            values += [sanitize(str(row.error["what"]), 60), *[""] * (len(names) + 1)]
        rows.append(tuple(values[: len(columns)]))
    found = f"simulated, compared on the {result.compared_on}"
    left = f"; {result.left_out} combinations skipped" if result.left_out else ""
    return [*table(columns, rows), f"{found}{left}"]


def _badness(row: Row) -> float:
    """Rows in the order of their worst output, the best first; failed ones last."""
    if row.outputs is None:
        return float("inf")
    return -min((sqnr_rank(o.sqnr_db) for o in row.outputs), default=float("inf"))
