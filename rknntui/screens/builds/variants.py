"""Variants: builds of one recipe with other values of some options, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import option, sanitize
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.sweep import ROW, SWEEP, Axes, Sweep, SweepParams
from rknntui.keys.actions import key_text
from rknntui.screens.dialogs.request import Form

if TYPE_CHECKING:
    from engine.wire.table import Record
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

SWEEP_FORM = Form(
    "Build variants",
    (SweepParams,),
    {"cluster": "of the command line alone: a scheduler elsewhere and its certificates"},
)

NO_VARIANTS = (
    "No variants yet.\n\n"
    "{builds.run} builds the model with several algorithms, or with any values of any "
    "options, and lists the SQNR of the outputs for each. Enter applies a row to the recipe."
)


def default_axes() -> Axes:
    """What the form proposes: every algorithm that a recipe can have."""
    algorithms = [name for name in option("quantized_algorithm").choices if name != "vendor"]
    return {"quantized_algorithm": tuple(algorithms)}


def sweep_of(session: Session) -> tuple[JobView | None, Sweep | None]:
    """The sweep of the open model that runs, else its last one; with the result once it is done."""
    job = session.jobs.newest(SWEEP.name, ours=True)
    if job is None or job.state == "done":
        return session.last_of(SWEEP) or (None, None)
    return job, None


def variants(session: Session) -> tuple[str, list[Record]]:
    """What is said above the builds of the last sweep, and these builds."""
    job, result = sweep_of(session)
    said = ["Variants (simulated; seconds measured)"]
    if job is None:
        return said[0], []
    built = filter(None, map(ROW.of, job.partials))
    rows = sorted(built, key=lambda row: row.index) if result is None else result.rows
    if job.running:
        stage = job.stage
        count = f" {stage.done} of {stage.total}" if stage is not None and stage.total else ""
        said.append(f"▶ building{count}, {key_text('builds.stop')} stops")
    else:
        said.append(f"{'✓' if job.state == 'done' else '✗'} {job.state}")
        said += [f"over {sanitize(result.compared_on, 80)}"] if result is not None else []
        said.append("Enter applies a row to the recipe")
    return " · ".join(said), [SWEEP_ROWS.record(row, values=row.values) for row in rows]
