"""How far a job is, and how long it still takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine import (
    ArtifactWritten,
    Finished,
    JobProgress,
    Progress,
    StageFinished,
    StageStarted,
    StageTimes,
)


def _job(name: str = "build", model: str = "/m/net.onnx") -> JobProgress:
    return JobProgress("1", name, f"{name} net", time.time(), {"recipe": {"model": model}})


def _ran(job: JobProgress, *, cached: bool = False) -> JobProgress:
    for stage, seconds in (("load", 1.0), ("calibrate", 8.0)):
        job.apply(StageStarted(stage, stage, 1, 2))
        job.apply(StageFinished(stage, seconds, cached))
    job.apply(Finished("done", 9.0, None))
    return job


def test_the_time_left_is_that_of_the_stages_of_the_last_run(tmp_path: Path) -> None:
    StageTimes(tmp_path / "times.json").learn(_ran(_job()))
    times = StageTimes(tmp_path / "times.json")
    job = _job()
    assert times.left(job) == pytest.approx(9.0)
    job.apply(StageStarted("load", "load", 1, 2))
    assert times.left(job) == pytest.approx(9.0, abs=0.2)
    job.apply(StageFinished("load", 1.0, False))
    job.apply(StageStarted("calibrate", "calibrate", 1, 2))
    job.apply(Progress("calibrate", 5, 10, ""))
    job.stages["calibrate"].begun -= 2.0
    assert times.left(job) == pytest.approx(2.0, abs=0.2), "its own pace counts"
    assert times.left(_job(model="/m/other.onnx")) is None


def test_stages_of_the_cache_teach_nothing_and_a_broken_file_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text('{"build /m/net.onnx": {"load": "soon", "pack": -1}, "x": 3}')
    assert StageTimes(file).left(_job()) is None
    StageTimes(file).learn(_ran(_job(), cached=True))
    assert "calibrate" not in file.read_text()
    file.write_text("[" * 5000)
    assert StageTimes(file).left(_job()) is None


def test_the_percent_of_a_job_never_falls() -> None:
    job, seen = _job(), []
    for event in (
        StageStarted("load", "load", 1, 2),
        StageFinished("load", 1.0, False),
        StageStarted("a", "a", 1, 8),
        StageFinished("a", 1.0, False),
        Finished("done", 2.0, None),
    ):
        job.apply(event)
        seen.append(job.fraction)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_what_a_job_wrote_is_known() -> None:
    job, written = _job(), ArtifactWritten("/m/net.rknn", "container", 5)
    job.apply(written)
    assert job.artifacts == [written]
