"""A recording shown again, as it was told or faster."""

from __future__ import annotations

import time
from pathlib import Path

from engine.base.events import LogLine, Reporter, StageFinished, StageStarted
from engine.devices.watch.recording import Recording
from engine.devices.watch.sums import WatchSums
from engine.devices.watch.watch import tell
from engine.wire.monitor import BoardSample, Monitored, ReplayParams

_LOOK_SECONDS = 0.05
_MOST_A_SECOND = 1000.0
"""Samples; who listens has to read them before the job's record lets them go."""


def replay_recording(params: ReplayParams, reporter: Reporter) -> Monitored:
    """Tell what a recording tells, at its own pace times ``speed``.

    Nothing goes on while the reporter pauses; asked to finish, it ends with what was shown.

    Raises:
        UsageError: the file is no recording, or damaged: what is before the damage was told.
        JobCancelledError: it was cancelled.
    """
    speed = params.speed
    began = time.monotonic()
    sums = WatchSums()
    last = 0.0
    pace = _Pace(reporter)
    with Recording(Path(params.path)) as recording:
        reporter.emit(StageStarted("replay", f"Show {Path(params.path).name}", 0, 1))
        complete = True
        for event in recording:
            if isinstance(event, BoardSample):
                last = max(last, event.at)
                # at 0 the figures alone count, within what the record of a job passes on
                wait = last / speed if speed else 0.0
                if not pace.until(max(wait, pace.told / _MOST_A_SECOND)):
                    complete = False
                    break
                pace.told += 1
            sums.add(event)
            tell(event, reporter)
        notes = (recording.note,) if recording.note else ()
        seconds = recording.seconds if complete else last
    for note in notes:
        reporter.emit(LogLine(note, "warning"))
    reporter.emit(StageFinished("replay", round(time.monotonic() - began, 3)))
    return Monitored(sums.summaries(), round(seconds, 3), "", notes)


class _Pace:
    """A clock that stands still while the reporter pauses.

    Attributes:
        told: samples until now.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._began = time.monotonic()
        self.told = 0

    def until(self, seconds: float) -> bool:
        """Wait until it says so; False where the reporter is asked to finish."""
        while True:
            before = time.monotonic()
            self._reporter.check_cancelled()
            self._began += time.monotonic() - before
            left = self._began + seconds - time.monotonic()
            if self._reporter.finish_requested():
                return False
            if left <= 0:
                return True
            time.sleep(min(left, _LOOK_SECONDS))
