"""The job behind the monitor: a watch or a recording, one at a time, in the background."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rknntui.screens.dialogs.new_file import ask_new_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rknntui.app import Workbench
    from rknntui.screens.devices.monitor import MonitorPane
    from rknntui.session.messages import JobChanged, JobEnded

__all__ = ["Watching"]


class Watching:
    """Starts and stops what the pane shows.

    Args:
        app: has the engine and shows dialogs.
        pane: shows it.
    """

    def __init__(self, app: Workbench, pane: MonitorPane) -> None:
        self._app = app
        self._pane = pane

    def start_or_stop(self, devices: Sequence[str]) -> None:
        """Watch boards, or stop what goes on."""
        if self._pane.running:
            self._stop()
            self._pane.draw()
        elif devices:
            self._pane.watch_boards(devices)

    def start(self, wanted: MonitorPane.Wanted) -> None:
        """Start the job that the pane wants, in place of the one that runs."""
        self._app.do(self._submit(wanted))

    async def _submit(self, wanted: MonitorPane.Wanted) -> None:
        self._stop()
        job = await self._app.bridge.submit(wanted.task, wanted.params, wanted.title, quiet=True)
        self._pane.follow(job, wanted.params)
        self._app.screen_stack[0].refresh_bindings()

    def _stop(self) -> None:
        """Let it end in order: a recording is closed."""
        if self._pane.running and self._pane.job is not None:
            self._app.bridge.finish(self._pane.job.id)
            self._pane.stopping = True

    def changed(self, message: JobChanged) -> None:
        """A job has told something."""
        job = self._app.session.jobs.get(message.job)
        if job is not None:
            self._pane.changed(job)

    def ended(self, message: JobEnded) -> None:
        """A job is over."""
        job = self._app.session.jobs.get(message.job)
        if job is not None:
            self._pane.ended(job, message.result)

    def pause(self) -> None:
        """Hold what is shown, or go on; a recording waits meanwhile."""
        self._pane.paused = not self._pane.paused
        if self._pane.replaying and self._pane.job is not None:
            self._app.bridge.pause(self._pane.job.id)
        self._pane.draw()

    def record(self, devices: Sequence[str]) -> None:
        """Ask for a file, watch boards and record it."""

        def chosen(path: str, force: bool) -> None:
            self._pane.watch_boards(devices, path, force=force)

        ask_new_file(self._app, "Record the watch to", Path.cwd() / "monitor.jsonl", chosen)

    def replay(self) -> None:
        """Choose a recording and show it."""
        from rknntui.screens.dialogs.picker import PathPicker

        def chosen(path: str | None) -> None:
            if path is not None:
                self._pane.replay(path)

        self._app.push_screen(PathPicker("Show a recording"), chosen)
