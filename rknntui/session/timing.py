"""How long a job still takes: by its own stages, and by those of earlier runs of the same work."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine.wire.formats import clock_text
from rknntui.session.kept import read_json, write_json

if TYPE_CHECKING:
    from rknntui.session.job_view_model import JobView

KEPT = 200
"""Jobs whose times are kept; the newest are."""
LIMIT = 1 << 20
"""Bytes of the file."""
_SURE = 0.05
"""From this share of a stage on its own pace counts, not that of the last time."""
_WHOLE = 0.2
"""From this share of a job on the pace of the whole counts, where its stages never ran before."""
_BEGUN = 3.0
"""Seconds before which nothing is said from the pace of the whole."""


def times_file() -> Path:
    """Where the times of stages lie on disk."""
    from engine import state_folder

    return state_folder() / "stage_times.json"


class StageTimes:
    """Seconds of each stage of the last run, for every method and model.

    Args:
        file: where they are kept for later runs; None keeps them in memory only.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, dict[str, float]] | None = None if file else {}

    def learn(self, job: JobView) -> None:
        """Keep how long the stages of a job took; one from the cache took no time of its own."""
        times = {
            stage.name: round(stage.seconds, 3)
            for stage in job.stages.values()
            if stage.seconds is not None and not stage.cached
        }
        if job.state != "done" or not times:
            return
        known = self._all()
        known[_key(job)] = {**known.pop(_key(job), {}), **times}
        for old in list(known)[:-KEPT]:
            del known[old]
        if self._file is not None:
            write_json(self._file, known)

    def left(self, job: JobView) -> float | None:
        """Seconds that a running job still takes; None where nothing tells."""
        now = time.monotonic()
        before = self._all().get(_key(job), {})
        later = [seconds for name, seconds in before.items() if name not in job.stages]
        running = [stage for stage in job.stages.values() if stage.seconds is None]
        if before and len(job.stages) + len(later) >= job.count:
            paces = [_left(stage.fraction, now - stage.begun, before.get(stage.name))
                     for stage in running]  # fmt: skip
            if all(pace is not None for pace in paces):
                return sum(later) + max((pace or 0.0 for pace in paces), default=0.0)
        since, done = time.time() - job.started, job.fraction
        return since * (1 - done) / done if done >= _WHOLE and since >= _BEGUN else None

    def _all(self) -> dict[str, dict[str, float]]:
        if self._known is None:
            self._known = _read(self._file) if self._file is not None else {}
        return self._known


def left_text(seconds: float | None) -> str:
    """``0:04``, ``1:02:10``; empty while it is not known."""
    return "" if seconds is None else clock_text(max(1, round(seconds)))


def _left(fraction: float, elapsed: float, before: float | None) -> float | None:
    """Seconds of one stage that runs."""
    if fraction > _SURE:
        return elapsed * (1 - fraction) / fraction
    return None if before is None else max(0.0, before - elapsed)


def _key(job: JobView) -> str:
    model = (job.recipe or {}).get("model") or job.params.get("path") or ""
    return f"{job.method} {model}"


def _read(file: Path) -> dict[str, dict[str, float]]:
    """The times in the file; none where it is missing, or not what this version writes."""
    data = read_json(file, LIMIT)
    return {
        str(job): {
            str(stage): float(seconds)
            for stage, seconds in stages.items()
            if isinstance(seconds, int | float) and 0 <= seconds < 1e7
        }
        for job, stages in (data.items() if isinstance(data, dict) else ())
        if isinstance(stages, dict)
    }
