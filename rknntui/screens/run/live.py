"""Timing the layers again and again, so that their table moves as the board does."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.board import BOARD_RUN, Ran

if TYPE_CHECKING:
    from textual.timer import Timer

    from engine.wire.board import RunParams
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.messages import JobEnded

__all__ = ["LiveRun"]

_EVERY = 1.0
_REST = 0.2
"""Seconds from one run to the next, and those that the worker has for others between them."""


class LiveRun:
    """Repeats a run until it is stopped or fails; one at a time.

    Args:
        workspace: whose jobs they are.
        take: called with each run, and whether it is not the first.
        changed: called when it starts, stops or fails.

    Attributes:
        on: whether it repeats.
        runs: that came back.
        error: why it stopped by itself; empty where it did not.
    """

    def __init__(
        self,
        workspace: Workspace,
        take: Callable[[Ran, bool], None],
        changed: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._take = take
        self._changed = changed
        self._params: RunParams | None = None
        self._timer: Timer | None = None
        self._job = ""
        self._since = 0.0
        self.runs = 0
        self.error = ""

    @property
    def on(self) -> bool:
        """Whether it repeats."""
        return self._params is not None

    def start(self, params: RunParams) -> None:
        """Run now, and again after each end."""
        self.stop()
        self._params, self.runs, self.error = params, 0, ""
        self._submit(params)
        self._changed()

    def stop(self) -> None:
        """Run no more; a run under way is given up."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if self._job:
            self._workspace.bridge.discard(self._job)
            self._job = ""
        if self._params is not None:
            self._params = None
            self._changed()

    def ended(self, message: JobEnded) -> bool:
        """A job of the session ended; True where it is one of these, which is taken then."""
        if not self._job or message.job != self._job:
            return False
        self._job = ""
        self._workspace.session.jobs.pop(message.job, None)  # else they push out all others
        params = self._params
        if params is None:
            return True
        if isinstance(message.result, Ran):
            self.runs += 1
            rest = max(_REST, _EVERY - (monotonic() - self._since))
            self._timer = self._workspace.set_timer(rest, lambda: self._submit(params))
            self._take(message.result, self.runs > 1)
        else:
            self._params = None
            error = message.error or {}
            said = f"{error.get('what', message.state)} {error.get('remedy', '')}"
            self.error = sanitize(said.strip(), 600)
        self._changed()
        return True

    def _submit(self, params: RunParams) -> None:
        self._timer, self._since = None, monotonic()
        bridge = self._workspace.bridge

        async def submit() -> None:
            view = await bridge.submit(BOARD_RUN, params, "live run", quiet=True)
            if self._params is params:
                self._job = view.id
            else:  # stopped meanwhile
                bridge.discard(view.id)

        self._workspace.workbench.do(submit())
