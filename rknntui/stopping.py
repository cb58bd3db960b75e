"""What is asked before a job is stopped, and before the workbench leaves one or unsaved work."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.wire.formats import PROGRESS
from rknntui.session.job_view_model import job_title

if TYPE_CHECKING:
    from rknntui.session.job_view_model import JobView
    from rknntui.shell import Shell


class Stopping:
    """Stops jobs and ends the workbench, after a yes.

    Args:
        app: asks.
    """

    def __init__(self, app: Shell) -> None:
        self._app = app

    def ask(self, job: JobView | None) -> None:
        """Ask whether a job shall stop (None: the one that runs; where others wait, which one).

        Where it is stopping already, a yes ends its worker.
        """
        from rknntui.screens.dialogs.dialogs import ConfirmDialog

        if job is None:
            jobs = self._app.session.jobs.under_way
            if len(jobs) > 1:
                self._choose(jobs)
                return
            job = next(iter(jobs), None)
        if job is None:
            self._app.notify("No job is running.")
            return
        if job.cancelling:
            question = f"“{job.title}” is stopping. End its worker at once?"
        elif self._app.bridge.waits(job.id):
            question = f"Stop “{job.title}”? It waits for its turn."
        else:
            question = f"Stop “{job.title}”? Finished stages stay in the cache."
        answers = [("y", "stop", True), ("n", "keep running (also Esc)", False)]
        dialog = ConfirmDialog("Stop the job", question, answers)
        self._app.push_screen(dialog, partial(self._stop, job.id))

    def _choose(self, jobs: list[JobView]) -> None:
        from rknntui.screens.dialogs.dialogs import ask_user
        from rknntui.screens.dialogs.lists import ChoiceDialog

        rows = {f"{at} {job_title(job.method, job.title)}": job for at, job in enumerate(jobs, 1)}
        about = {
            row: "waiting" if self._app.bridge.waits(job.id) else PROGRESS.text(job.fraction)
            for row, job in rows.items()
        }
        dialog = ChoiceDialog("Stop which job?", [*rows], "", about, start=next(iter(rows)))
        ask_user(self._app, dialog, lambda row: self.ask(rows[row]))

    def _stop(self, job_id: str, yes: bool | None) -> None:
        if yes:
            self._app.do(self._app.bridge.cancel(job_id))

    def ask_and_leave(self) -> None:
        """Leave; with a running job ask what becomes of it."""
        from rknntui.screens.dialogs.dialogs import ConfirmDialog

        jobs = self._app.session.jobs.values()
        job = next((j for j in jobs if j.running and not j.quiet), None)
        if job is None:
            self._leave_saved()
            return
        question = f"“{job.title}” is running. If it is kept, the next start shows it again."
        answers = [
            ("l", "quit, keep the job running", "leave"),
            ("c", "cancel the job and quit", "cancel"),
            ("s", "stay", ""),
        ]
        dialog = ConfirmDialog("A job is running", question, answers)
        self._app.push_screen(dialog, partial(self._leave, job.id))

    async def _leave(self, job_id: str, choice: str | None) -> None:
        if choice == "cancel":
            await self._app.bridge.cancel(job_id)
        if choice:
            self._leave_saved()

    def _leave_saved(self) -> None:
        """Leave; where changes of the recipe cannot be kept, only after a yes."""
        from rknntui.screens.dialogs.dialogs import ConfirmDialog

        session = self._app.session
        if self._app.save_state() or not session.dirty or session.container is not None:
            self._app.leave()
            return
        question = "The changes of the recipe cannot be kept for the next start, and are not saved."
        answers = [("l", "quit, lose the changes", True), ("s", "stay (also Esc)", False)]
        dialog = ConfirmDialog("Changes would be lost", question, answers)
        self._app.push_screen(dialog, lambda yes: self._app.leave() if yes else None)

    def last_words(self) -> None:
        """Before the process is ended the hard way, in a thread of the guard's.

        A worker goes on while a job runs in it: without this nobody would end one that holds a
        board.
        """
        try:
            self._app.bridge.end_background()
        finally:
            self._app.session.leave()  # the last state is that of whoever ends last, a draft stays
            self._app.save_state()
