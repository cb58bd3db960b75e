"""What Quantize says of the build, and where there is no build, no layer or no log yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.names import NOT_EXACT
from rknntui.keys.text import key_text

if TYPE_CHECKING:
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
