"""Several builds beside each other: algorithms, dtypes or any options, as a table that grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical

from engine import option, sanitize
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.flags import params_of
from engine.wire.sweep import ROW, Axes, Row, Sweep, SweepParams
from rknntui.keys.text import key_text, with_keys
from rknntui.widgets.facts_line import Fact, FactsLine
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from rknntui.session.job_view_model import JobView

_AXES = next(param for param in params_of(SweepParams) if param.path == ("axes",))

_EMPTY = (
    "No comparison yet.\n\n"
    "{quantize.compare} builds the model with several algorithms, or with any values of any "
    "options, and lists the SQNR of the outputs for each. Enter applies a row to the recipe."
)


def default_axes() -> str:
    """What the dialog proposes: every algorithm that a recipe can have."""
    algorithms = [name for name in option("quantized_algorithm").choices if name != "vendor"]
    return f"quantized_algorithm={','.join(algorithms)}"


def axes_of(text: str) -> Axes:
    """Options and their values from ``name=value,value name=value``.

    Raises:
        ValueError: an unknown option, or a text that is no value of it.
    """
    axes: Axes | None = _AXES.parse(text)
    if not axes:
        raise ValueError("There is nothing to compare: option=value,value.")
    return axes


def problem_of(text: str) -> str:
    """Why a text names no axes; empty where it does."""
    try:
        axes_of(text)
    except ValueError as error:
        return str(error)
    return ""


class ComparePane(Vertical):
    """The builds of the last sweep."""

    DEFAULT_CSS = """
    ComparePane { height: 1fr; }
    """

    job: JobView | None = None
    """The sweep that is shown."""

    def compose(self) -> ComposeResult:
        yield FactsLine(id="compare-facts")
        table = RecordTable(SWEEP_ROWS, id="compared", what="compared", empty=with_keys(_EMPTY))
        yield RecordView("Compared builds (simulated; seconds measured)", table)

    @property
    def table(self) -> RecordTable:
        """The builds."""
        return self.query_one("#compared", RecordTable)

    def clear(self) -> None:
        """Forget the builds: they are of another model."""
        self.job = None
        self.table.set_records([])
        self.query_one(FactsLine).show()

    def set_job(self, job: JobView | None, result: Sweep | None) -> None:
        """Show a sweep, or its latest state."""
        self.job = job or self.job
        rows: Sequence[Row] = () if result is None else result.rows
        if job is not None and not rows:
            told = [row for row in map(ROW.of, job.partials) if row is not None]
            told.sort(key=lambda row: row.index)
            rows = told
        records = [SWEEP_ROWS.record(row, values=row.values) for row in rows]
        self.table.set_records(records, keep="title")
        said: list[Fact | str] = []
        if job is not None and job.running:
            stage = job.stage
            count = f" {stage.done} of {stage.total}" if stage is not None and stage.total else ""
            said = [f"▶ building{count}, {key_text('quantize.stop')} stops"]
        elif job is not None:
            said = [f"{'✓' if job.state == 'done' else '✗'} {job.state}"]
            said += [f"over {sanitize(result.compared_on, 80)}"] if result is not None else []
            said.append(Fact("Enter applies a row to the recipe", rank=1))
        self.query_one(FactsLine).show(*said)
