"""A table with the running job below it, and what a job told of each chip."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.containers import Vertical

from rknntui.widgets.job_pane import JobPane

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from rknntui.session.job_view_model import JobView, StageView
    from rknntui.widgets.record_view import RecordView


class WithJob(Vertical):
    """A table; while a job runs, its stages and log are below."""

    DEFAULT_CSS = """
    WithJob {
        & > RecordView { height: 3fr; }
        & > JobPane { height: 2fr; border-top: solid $panel; display: none; }
    }
    """

    def __init__(self, view: RecordView, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.view
        yield JobPane()

    def show_job(self, job: JobView | None) -> None:
        """Show a job while it runs."""
        pane = self.query_one(JobPane)
        pane.set_job(job)
        shown = job is not None and job.running
        if shown != bool(pane.display):
            pane.display = shown
            self.call_after_refresh(self._reveal)

    def _reveal(self) -> None:
        """The table has other lines now: the row under the cursor stays in view."""
        self.view.table.reveal(self.view.table.cursor)


def newest_job(jobs: Iterable[JobView], methods: Iterable[str]) -> JobView | None:
    """Of these methods the job that runs, else the newest."""
    wanted = set(methods)
    found = [job for job in jobs if job.method in wanted]
    return next((job for job in found if job.running), found[-1] if found else None)


def chip_states(job: JobView, chips: Iterable[str]) -> dict[str, str]:
    """What a compilation that runs does for each chip; stages name theirs.

    Args:
        job: of the compilation.
        chips: that it is for, in their order.
    """
    told = {chip: _stages_of(job, chip) for chip in chips}
    return {chip: _state(stages) for chip, stages in told.items()}


def _stages_of(job: JobView, chip: str) -> list[StageView]:
    def names(stage: StageView) -> bool:
        words = f"{stage.name} {stage.title}".replace(":", " ").replace("-", " ").split()
        return chip in words

    return [stage for stage in job.stages.values() if names(stage)]


def _state(stages: list[StageView]) -> str:
    if not stages:
        return "waiting"
    running = next((stage for stage in stages if stage.seconds is None), None)
    if running is None:
        return "✓ compiled"
    return f"▶ {running.fraction:.0%}" if running.total else "▶ compiles"
