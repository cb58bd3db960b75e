"""Jobs of the worker that watch boards."""

from __future__ import annotations

from engine.base.events import Reporter
from engine.services.registry import runs
from engine.wire.monitor import (
    MONITOR_REPLAY,
    MONITOR_WATCH,
    Monitored,
    ReplayParams,
    WatchParams,
)


@runs(MONITOR_WATCH)
def watch(params: WatchParams, reporter: Reporter) -> Monitored:
    """Watch boards until the time is over or the job is asked to finish."""
    from engine.devices.watch.watch import watch_boards

    return watch_boards(params, reporter)


@runs(MONITOR_REPLAY)
def replay(params: ReplayParams, reporter: Reporter) -> Monitored:
    """Show a recording again."""
    from engine.devices.watch.replay import replay_recording

    return replay_recording(params, reporter)
