"""Timing the layers again and again, so that their table moves as the board does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.board import BOARD_LIVE, LIVE_LOOK, LiveLook

if TYPE_CHECKING:
    from engine.wire.board import LiveParams
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobEnded


class LiveRun:
    """A job that runs a sample on a board until it is stopped; one at a time.

    Args:
        workspace: whose job it is.
        take: called with each run, and whether it is not the first.
        changed: called when it starts, goes on, stops or fails.

    Attributes:
        on: whether it is wanted.
        runs: that came back.
        look: the newest of them; None before one.
        error: why it stopped by itself; empty where it did not.
    """

    def __init__(
        self,
        workspace: Workspace,
        take: Callable[[LiveLook, bool], None],
        changed: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._take = take
        self._changed = changed
        self._job: JobView | None = None
        self._starting = False  # until the worker has taken the job, which may take a second
        self._after: Callable[[], None] | None = None
        self.on = False
        self.runs = 0
        self.look: LiveLook | None = None
        self.error = ""

    @property
    def job(self) -> JobView | None:
        """The job that runs; None for none."""
        return self._job

    def start(self, params: LiveParams) -> None:
        """Run now, and on until :meth:`stop`."""
        if self._job is not None or self._starting:
            self.stop(lambda: self.start(params) if self._workspace.shown else None)
            return
        self.on, self.runs, self.look, self.error = True, 0, None, ""
        self._starting = True
        bridge = self._workspace.bridge

        async def submit() -> None:
            from engine import EngineError

            try:
                self._job = await bridge.submit(BOARD_LIVE, params, "live layers", quiet=True)
            except EngineError:
                self._starting = self.on = False
                self._let_go()
                raise
            self._starting = False
            if not self.on:  # stopped meanwhile
                bridge.discard(self._job.id)

        self._workspace.workbench.do(submit())
        self._changed()

    def stop(self, after: Callable[[], None] | None = None) -> None:
        """Run no more.

        Args:
            after: called once the board is free, which is at once where nothing runs.
        """
        if self._job is None and not self._starting:
            if after is not None:
                after()
        else:
            self._after = after or self._after
            if self._job is not None:
                self._workspace.bridge.discard(self._job.id)
        if self.on:
            self.on = False
            self._changed()

    def told(self, job: str) -> None:
        """A job of the session moved on; take what is new where it is this one."""
        if self._job is None or job != self._job.id or not self.on:
            return
        news = [look for event in self._job.partials if (look := LIVE_LOOK.of(event)) is not None]
        self._job.partials.clear()
        for look in news:
            self.runs, self.look = self.runs + 1, look
            self._take(look, self.runs > 1)
        if news:
            self._changed()

    def ended(self, message: JobEnded) -> bool:
        """A job of the session ended; True where it is this one."""
        if self._job is None or message.job != self._job.id:
            return False
        self.told(message.job)
        self._job = None
        self._workspace.session.jobs.pop(message.job, None)
        if self.on:
            error = message.error or {}
            parts = [str(error.get(key, "")) for key in ("what", "cause", "remedy")]
            said = " ".join(part for part in parts if part) or f"The runs were {message.state}."
            if message.state == "done":
                said = "The runs ended: they go on for a day at most."
            self.on, self.error = False, sanitize(said, 1000)
        self._let_go()
        return True

    def _let_go(self) -> None:
        """The board is free for what waits for it."""
        after, self._after = self._after, None
        if after is not None:
            after()
        self._changed()
