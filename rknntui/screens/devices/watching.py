"""The jobs behind the views, in the background: a watch or a recording, and an examination."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.devices import DEVICES_EXAMINE, ExamineParams
from rknntui.screens.dialogs.new_file import ask_new_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rknntui.screens.devices.doctor import DoctorPane
    from rknntui.screens.devices.monitor import MonitorPane
    from rknntui.session.state import Session
    from rknntui.shell import Shell


def recipe_chip(session: Session) -> str | None:
    """The chip of the open recipe, which a board is held against where no model is open."""
    return str(session.recipe.get("target_platform") or "").lower() or None


def examine(app: Shell, pane: DoctorPane, device: str) -> None:
    """Examine a board in place of the one that is being examined; with the open compiled model."""

    async def submit() -> None:
        for job_id in pane.running:
            app.bridge.discard(job_id)
        model = app.session.container
        chip = recipe_chip(app.session)
        params = ExamineParams(device, model, test=model is not None, chip=chip)
        title = f"examine {sanitize(device, 80)}"
        pane.follow(device, await app.bridge.submit(DEVICES_EXAMINE, params, title, quiet=True))

    app.do(submit())


class Watching:
    """Starts and stops what the pane shows.

    Args:
        app: has the engine and shows dialogs.
        pane: shows it.
    """

    def __init__(self, app: Shell, pane: MonitorPane) -> None:
        self._app = app
        self._pane = pane

    def start_or_stop(self, devices: Sequence[str]) -> None:
        """Watch boards, or stop what goes on or is about to."""
        if self._pane.going:
            self._stop()
            self._pane.wanted = None
            self._pane.draw()
        elif devices:
            self._pane.watch_boards(devices)

    def start(self, wanted: MonitorPane.Wanted) -> None:
        """Start the job that the pane wants, in place of the one that runs."""
        self._app.do(self._submit(wanted))

    async def _submit(self, wanted: MonitorPane.Wanted) -> None:
        pane, bridge = self._pane, self._app.bridge
        if pane.wanted is not wanted:  # another key came
            return
        self._stop()
        try:
            job = await bridge.submit(wanted.task, wanted.params, wanted.title, quiet=True)
        except BaseException:
            if pane.wanted is wanted:
                pane.wanted = None
                pane.draw()
            raise
        if pane.wanted is not wanted:  # meanwhile: the next one would wait behind this job
            bridge.discard(job.id)
            return
        pane.wanted = None
        pane.follow(job, wanted.params)
        self._app.show_state()

    def _stop(self) -> None:
        """Let it end in order: a recording is closed."""
        if self._pane.running and self._pane.job is not None:
            self._app.bridge.finish(self._pane.job.id)
            self._pane.stopping = True

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

        ask_new_file(self._pane.app, "Record the watch to", Path.cwd() / "monitor.jsonl", chosen)

    def replay(self) -> None:
        """Choose a recording and show it."""
        from rknntui.screens.dialogs.picker import PathPicker

        def chosen(path: str | None) -> None:
            if path is not None:
                self._pane.replay(path)

        self._app.push_screen(PathPicker("Show a recording"), chosen)
