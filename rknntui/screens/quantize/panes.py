"""Several builds beside each other as a table that grows, and how a build starts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import getters
from textual.app import ComposeResult
from textual.containers import Vertical

from engine import option, sanitize
from engine.wire.build import BUILD, BuildParams
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.requests import VALIDATE, Checked, OfRecipe
from engine.wire.sweep import ROW, SWEEP, Axes, Row, Sweep, SweepParams
from rknntui.keys.text import key_text, with_keys
from rknntui.links import GoToOption
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.facts_line import Fact, FactsLine
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView

SWEEP_FORM = Form(
    "Compare builds",
    (SweepParams,),
    {"cluster": "of the command line alone: a scheduler elsewhere and its certificates"},
)

_EMPTY = (
    "No comparison yet.\n\n"
    "{quantize.compare} builds the model with several algorithms, or with any values of any "
    "options, and lists the SQNR of the outputs for each. Enter applies a row to the recipe."
)


def default_axes() -> Axes:
    """What the form proposes: every algorithm that a recipe can have."""
    algorithms = [name for name in option("quantized_algorithm").choices if name != "vendor"]
    return {"quantized_algorithm": tuple(algorithms)}


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
            said = [f"▶ building{count}, {key_text('quantize.stop')} stops"]
        elif job is not None:
            said = [f"{'✓' if job.state == 'done' else '✗'} {job.state}"]
            said += [f"over {sanitize(result.compared_on, 80)}"] if result is not None else []
            said.append(Fact("Enter applies a row to the recipe", rank=1))
        self.query_one(FactsLine).show(*said)


# Starting a build: the recipe is checked first, and a problem is shown where it is mended.


class BuildStarter:
    """Starts builds and comparisons.

    Args:
        workspace: asks the worker and starts the job.
        started: called with the name of the view that shows what was started.
    """

    def __init__(self, workspace: Workspace, started: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._started = started
        self._waiting = False

    def build(self, *, refresh: bool = False) -> None:
        """Check the recipe, then build; with ``refresh`` every stage anew."""
        workspace, session = self._workspace, self._workspace.session
        if reason := workspace.disabled_reason("build"):
            workspace.notify(f"Not now: {reason}", severity="warning")
            return
        if self._waiting:
            return
        typed = set(session.all_problems) - set(session.problems)
        if typed:
            workspace.post_message(GoToOption(min(typed)))
            return
        self._waiting = True
        recipe = dict(session.recipe)
        checked = partial(self._checked, BuildParams(recipe=recipe, refresh=refresh))
        workspace.ask(VALIDATE, OfRecipe(recipe), checked, failed=self._not_checked)

    def _not_checked(self, error: Exception) -> None:
        self._waiting = False
        self._workspace.workbench.show_error(error)

    def _checked(self, build: BuildParams, answer: Checked) -> None:
        self._waiting = False
        workspace = self._workspace
        problems = {p.option: p.message for p in answer.problems}
        workspace.session.set_problems(problems, answer.findings, answer.yaml)
        if problems:
            name, message = next(iter(problems.items()))
            workspace.notify(
                f"{name}: {sanitize(message)}",
                title="Cannot be built yet",
                severity="warning",
                markup=False,
            )
            workspace.post_message(GoToOption(name))
            return
        name = str((build.recipe or {})["model"]).rsplit("/", 1)[-1]
        workspace.start_job(BUILD, build, f"build {sanitize(name, 80)}")
        self._started("Log")

    def compare(self) -> None:
        """Ask for options and values, then build every combination."""
        workspace = self._workspace

        def start(params: SweepParams) -> None:
            workspace.start_job(SWEEP, params, "compare builds")
            self._started("Compare")

        now = SweepParams(dict(workspace.session.recipe), default_axes())
        SWEEP_FORM.ask(workspace.app, now, then=start)
