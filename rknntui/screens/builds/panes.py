"""The panes of Builds beside its tables: variants that are compared, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import getters
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from engine import option, sanitize
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.names import NOT_EXACT_CODE
from engine.wire.sweep import ROW, Axes, Row, Sweep, SweepParams
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.findings import FindingRows
from rknntui.widgets.one_line import Fact, FactsLine
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine import Finding
    from engine.wire.codec import Values
    from engine.wire.hybrid import Joins
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


# The findings of a build and of the joins of its model, with what remedies them.


class BuildFindings(FindingRows):
    """Lists what a build found, and which joins of its model have unlike ranges.

    The joins are asked for before a build too: the structure tells most of them.
    """

    @dataclass(eq=False)
    class JoinsWanted(Message):
        """The joins of a recipe's model are to be told: :meth:`take_joins` or :meth:`no_joins`."""

        recipe: Values

    @dataclass(eq=False)
    class Counted(Message):
        """There are so many findings that are more than a note."""

        count: int

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__("builds.apply-remedy", id=id)
        self._of_build: tuple[Finding, ...] = ()
        self._joins: tuple[Finding, ...] = ()
        self._joins_of: Values | None = None

    @property
    def not_exact(self) -> bool:
        """Whether the last build's simulation is not bit-exact."""
        return any(finding.code == NOT_EXACT_CODE for finding in self._of_build)

    def look(self, session: Session) -> None:
        """Show those of the build, and ask for the joins of what is built or would be."""
        self._of_build = () if session.summary is None else session.summary.findings
        recipe = session.built or session.recipe
        loaded = session.model is not None and session.model.loaded is not False
        if session.container is not None or not loaded or not recipe.get("model"):
            self._joins, self._joins_of = (), None
        elif recipe != self._joins_of:
            self._joins_of = recipe
            self.post_message(self.JoinsWanted(recipe))
        self._list()

    def take_joins(self, answer: Joins) -> None:
        """Show the joins that were asked for."""
        self._joins = answer.findings
        self._list()

    def no_joins(self, error: Exception) -> None:
        """A model that cannot be loaded yet says so where it is built; here it has no joins."""
        self._joins = ()
        what = sanitize(str(getattr(error, "what", error)), 300)
        self._list(f"✗ The Concat ranges could not be checked: {what}")

    def _list(self, problem: str = "") -> None:
        both = (*self._of_build, *self._joins)
        findings = list({(finding.code, finding.where): finding for finding in both}.values())
        self.empty = [[], [("  ✓ no findings", "dim")]]
        self.show(findings, [[(problem, "bad")]] if problem else ())
        worse = [finding for finding in findings if finding.severity != "info"]
        self.post_message(self.Counted(len(worse)))
