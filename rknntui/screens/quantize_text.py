"""What Quantize says where there is no build, no layer or no log yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import printable

if TYPE_CHECKING:
    from rknntui.jobview import JobView
    from rknntui.state import Session
    from rknntui.widgets.paint import Line

__all__ = ["NO_BUILD", "empty_lines", "no_build", "no_log_lines", "why"]

NO_BUILD = "Not built yet: b builds."


def empty_lines(session: Session) -> list[Line]:
    """What stands in the place of the summary: what to do first."""
    if not session.recipe.get("model"):
        return [[], [("  No model is open.", "head")], [("  o", "key"), ("  opens one", "")]]
    if session.building:
        head: list[Line] = [[], [("  The build runs.", "head")]]
        return [*head, [("  v", "key"), ("  shows its stages and its log", "")]]
    lines: list[Line] = [[], [("  Not built yet.", "head")]]
    if not session.recipe.get("dataset") and session.recipe.get("do_quantization", True):
        lines += [[("  3", "key"), ("  chooses calibration samples, which quantization needs", "")]]
    lines += [
        [("  2", "key"), ("  sets mean and std, and everything else", "")],
        [("  b", "key"), ("  builds", "")],
    ]
    return lines


def no_build(session: Session) -> str:
    """What a table of the build says without one."""
    return "The build runs." if session.building else NO_BUILD


def no_log_lines(session: Session, job: JobView | None) -> list[Line]:
    """What the log says that has no line.

    Args:
        session: with the summary, where there is a build.
        job: whose log it is; None where the history has none.
    """
    if session.container is not None:
        return [[], [("  A container has no log of its build.", "")]]
    if job is not None:
        return [[("  Nothing is logged yet." if job.running else "  Nothing was logged.", "dim")]]
    if session.summary is not None:
        return [[], [("  The history has the log of this build no more.", "")]]
    return empty_lines(session)


def why(job: JobView) -> str:
    """Why a build failed; of one that the user stopped there is nothing to add."""
    what = "" if job.state == "cancelled" else str((job.error or {}).get("what", ""))
    return f": {printable(what, 200)}" if what else ""
