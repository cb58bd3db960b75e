"""The panes of Quantize: findings, compared builds, what is said of a build, and how one starts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from textual import getters
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from engine import option, sanitize
from engine.wire.build import BUILD, BuildParams
from engine.wire.build_tables import SWEEP_ROWS
from engine.wire.formats import DURATION, PROGRESS
from engine.wire.names import NOT_EXACT, NOT_EXACT_CODE
from engine.wire.requests import VALIDATE, Checked, OfRecipe
from engine.wire.sweep import ROW, SWEEP, Axes, Row, Sweep, SweepParams
from rknntui.keys.actions import key_text, with_keys
from rknntui.links import GoToOption
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.findings import FindingRows
from rknntui.widgets.one_line import Fact, FactsLine
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine import Finding
    from engine.wire.codec import Values
    from engine.wire.hybrid import Joins
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

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


# What Quantize says of the build, of what is not there yet, and of findings.


def _key(action: str, what: str) -> Line:
    return [(f"  {key_text(action)}", "key"), (f"  {what}", "")]


def empty_lines(session: Session) -> list[Line]:
    """What stands in the place of the summary: what to do first."""
    if not session.recipe.get("model"):
        return [[], [("  No model is open.", "head")], _key("app.open", "opens one")]
    if session.building:
        head: list[Line] = [[], [("  The build is running.", "head")]]
        return [*head, _key("quantize.next-view", "shows stages and log")]
    lines: list[Line] = [[], [("  Not built yet.", "head")]]
    if not session.recipe.get("dataset") and session.recipe.get("do_quantization", True):
        lines += [_key("go.recipe", "chooses calibration samples (required for quantization)")]
    sets = _key("go.recipe", "sets mean, std and all other options")
    return [*lines, sets, _key("app.build", "builds")]


def no_build(session: Session) -> str:
    """What a table of the build says without one."""
    if session.building:
        return "The build is running."
    return f"Not built yet: {key_text('app.build')} builds."


def no_log_lines(session: Session, job: JobView | None) -> list[Line]:
    """What the log says that has no line.

    Args:
        session: with the summary, where there is a build.
        job: whose log it is; None where the history has none.
    """
    if session.container is not None:
        return [[], [("  A container has no build log.", "")]]
    if job is not None:
        return [[("  Nothing is logged yet." if job.running else "  Nothing was logged.", "dim")]]
    if session.summary is not None:
        return [[], [("  The log of this build is no longer in the history.", "")]]
    return empty_lines(session)


def facts(session: Session, job: JobView | None, *, exact: bool) -> tuple[str, ...]:
    """The line on top: the build that runs, or the state of the last one.

    Args:
        session: with the recipe and the summary.
        job: the build that runs, or the last one.
        exact: whether the simulation of the last build is bit-exact.
    """
    if job is not None and job.running:
        where = f"{job.stage.title}, " if job.stage is not None else ""
        elapsed = max(0, int(time.time() - job.started))
        how = "stopping" if job.cancelling else PROGRESS.text(job.fraction)
        stops = f"{key_text('quantize.stop')} stops"
        return (f"▶ building: {where}{how}, {elapsed} s elapsed, {stops}",)
    problems, builds = len(session.all_problems), key_text("app.build")
    if session.container is not None:
        return ("a container, already built",)
    if problems:
        return (f"✗ {problems} problems in the recipe: {builds} shows the first",)
    if job is not None and job.state in ("failed", "cancelled"):
        return (f"✗ Build {job.state}{_why(job)}",)
    if session.stale:
        return (f"! the recipe changed since this build: {builds} builds again",)
    if session.summary is None:
        return ("not built yet",)
    seconds = None if job is None else job.seconds
    took = "" if seconds is None else f" in {DURATION.text(seconds)} (measured)"
    return f"✓ built{took}", "" if exact else NOT_EXACT


def _why(job: JobView) -> str:
    """Why a build failed; of one that the user stopped there is nothing to add."""
    what = "" if job.state == "cancelled" else str((job.error or {}).get("what", ""))
    return f": {sanitize(what, 200)}" if what else ""


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
        super().__init__("quantize.apply-remedy", id=id)
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
