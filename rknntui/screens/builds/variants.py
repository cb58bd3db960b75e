"""Variants: builds of one recipe with other values of some options, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import getters
from textual.app import ComposeResult
from textual.containers import Vertical

from engine import option, sanitize
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.sweep import ROW, SWEEP, Axes, Row, Sweep, SweepParams
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.one_line import Fact, FactsLine
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

SWEEP_FORM = Form(
    "Build variants",
    (SweepParams,),
    {"cluster": "of the command line alone: a scheduler elsewhere and its certificates"},
)

_EMPTY = (
    "No variants yet.\n\n"
    "{builds.run} builds the model with several algorithms, or with any values of any "
    "options, and lists the SQNR of the outputs for each. Enter applies a row to the recipe."
)


def default_axes() -> Axes:
    """What the form proposes: every algorithm that a recipe can have."""
    algorithms = [name for name in option("quantized_algorithm").choices if name != "vendor"]
    return {"quantized_algorithm": tuple(algorithms)}


class VariantsPane(Vertical):
    """The builds of the last sweep."""

    DEFAULT_CSS = """
    VariantsPane { height: 1fr; }
    """

    job: JobView | None = None
    """The sweep that is shown."""

    def compose(self) -> ComposeResult:
        yield FactsLine(id="compare-facts")
        table = RecordTable(SWEEP_ROWS, id="compared", what="variants", empty=with_keys(_EMPTY))
        yield RecordView("Variants (simulated; seconds measured)", table)

    table = getters.query_one("#compared", RecordTable)
    """The builds."""

    def follow(self, session: Session) -> None:
        """Show the last sweep; none of another model."""
        if self.job is not None and not session.is_ours(self.job):
            self.job = None
            self.table.set_records([])
            self.query_one(FactsLine).show()
        sweep = session.last_of(SWEEP)
        if sweep is not None and self.job is None:
            self.set_job(*sweep)

    def set_job(self, job: JobView | None, result: Sweep | None) -> None:
        """Show a sweep, or its latest state."""
        self.job = job or self.job
        rows: Sequence[Row] = () if result is None else result.rows
        if job is not None and not rows:
            partial_rows = [row for row in map(ROW.of, job.partials) if row is not None]
            partial_rows.sort(key=lambda row: row.index)
            rows = partial_rows
        records = [SWEEP_ROWS.record(row, values=row.values) for row in rows]
        self.table.set_records(records, keep="title")
        said: list[Fact | str] = []
        if job is not None and job.running:
            stage = job.stage
            count = f" {stage.done} of {stage.total}" if stage is not None and stage.total else ""
            said = [f"▶ building{count}, {key_text('builds.stop')} stops"]
        elif job is not None:
            said = [f"{'✓' if job.state == 'done' else '✗'} {job.state}"]
            said += [f"over {sanitize(result.compared_on, 80)}"] if result is not None else []
            said.append(Fact("Enter applies a row to the recipe", rank=1))
        self.query_one(FactsLine).show(*said)
