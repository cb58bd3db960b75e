"""What Quantize says of the build, of what is not there yet, and of findings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from engine import sanitize
from engine.wire.names import NOT_EXACT, NOT_EXACT_CODE
from rknntui.keys.text import key_text
from rknntui.widgets.findings import FindingRows

if TYPE_CHECKING:
    from engine import Finding
    from engine.wire.codec import Values
    from engine.wire.hybrid import Joins
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line


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
        lines += [_key("go.dataset", "chooses calibration samples (required for quantization)")]
    sets = _key("go.configure", "sets mean, std and all other options")
    return [*lines, sets, _key("quantize.build", "builds")]


def no_build(session: Session) -> str:
    """What a table of the build says without one."""
    if session.building:
        return "The build is running."
    return f"Not built yet: {key_text('quantize.build')} builds."


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
        how = "stopping" if job.cancelling else f"{job.fraction:.0%}"
        stops = f"{key_text('quantize.stop')} stops"
        return (f"▶ building: {where}{how}, {elapsed} s elapsed, {stops}",)
    problems, builds = len(session.all_problems), key_text("quantize.build")
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
    took = "" if seconds is None else f" in {seconds:.1f} s (measured)"
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
