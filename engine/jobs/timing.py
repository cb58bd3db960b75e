"""How long a job still takes: by its own stages, and by those of earlier runs of the same work."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from engine.base.errors import EngineError
from engine.base.files import atomic_write, read_regular
from engine.base.paths import private_folder
from engine.jobs.progress import JobProgress

LIMIT = 1 << 20
"""Bytes of the file."""
KEPT = 200
"""Jobs whose times are kept; the newest are."""
_SURE = 0.05
"""From this share of a stage on its own pace counts, not that of the last time."""
_WHOLE = 0.2
"""From this share of a job on the pace of the whole counts, where its stages never ran before."""
_BEGUN = 3.0
"""Seconds before which nothing is said from the pace of the whole."""


class StageTimes:
    """Seconds of each stage of the last run, for every method and model.

    Args:
        file: where they are kept for later runs; None keeps them in memory only.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, dict[str, float]] | None = None if file else {}

    def learn(self, job: JobProgress) -> None:
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
            with contextlib.suppress(OSError, EngineError):  # the next run knows less
                private_folder(self._file.parent)
                content = json.dumps(known, indent=1).encode()
                atomic_write(self._file, content, overwrite=True, private=True)

    def left(self, job: JobProgress) -> float | None:
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


def _left(fraction: float, elapsed: float, before: float | None) -> float | None:
    """Seconds of one stage that runs."""
    if fraction > _SURE:
        return elapsed * (1 - fraction) / fraction
    return None if before is None else max(0.0, before - elapsed)


def _key(job: JobProgress) -> str:
    model = (job.recipe or {}).get("model") or job.params.get("path") or ""
    return f"{job.method} {model}"


def _read(file: Path) -> dict[str, dict[str, float]]:
    """The times in the file; none where it is missing, or not what this version writes."""
    try:
        data = json.loads(read_regular(file, LIMIT))
    except (OSError, ValueError, RecursionError):
        data = None
    return {
        str(job): {
            str(stage): float(seconds)
            for stage, seconds in stages.items()
            if isinstance(seconds, int | float) and 0 <= seconds < 1e7
        }
        for job, stages in (data.items() if isinstance(data, dict) else ())
        if isinstance(stages, dict)
    }
